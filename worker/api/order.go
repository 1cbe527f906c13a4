package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// order is one HTTP request for tokens on its way: what the router said of it, and the streams that the worker made of it.
type order struct {
	id       bulkhead.RequestID
	control  *Control
	deadline time.Time

	mu      sync.Mutex
	streams []gateway.Stream
	left    bool // nothing is submitted any more

	handed int           // answers whose pages decode has committed
	all    chan struct{} // closed when it has those of all
}

// submit hands the next of the order's answers to the worker. Requests come here admitted by whoever parsed them, and are
// admitted once more with the tenant and deadline that are the gateway's to say.
func (a *API) submit(o *order, r bulkhead.Request) (gateway.Stream, *bulkhead.Refusal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left {
		return nil, aborted()
	}
	i := len(o.streams)
	r.ID = o.id
	if i > 0 {
		r.ID = bulkhead.RequestID(fmt.Sprintf("%s-%03d", o.id, i))
	}
	r.Tenant = o.control.tenant()
	if !o.deadline.IsZero() && (r.Deadline.IsZero() || o.deadline.Before(r.Deadline)) {
		r.Deadline = o.deadline
	}
	adm, ref := a.cfg.Worker.Limits().Admit(r)
	if ref != nil {
		return nil, ref
	}
	s, ref := a.cfg.Worker.Submit(worker.Order{Request: adm, Room: o.control.Room(i), Peer: o.control.peerOf(a.cfg.Role, i)})
	if ref != nil {
		return nil, ref
	}
	o.streams = append(o.streams, s)
	return s, nil
}

// leave stops every answer by name.
func (o *order) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = true
	for _, s := range o.streams {
		s.Leave()
	}
}

func aborted() *bulkhead.Refusal {
	return bulkhead.Refuse(codeAborted, "", "the request was aborted by its id")
}

// live is the orders that are not over, by id, so that they can be aborted.
type live struct {
	mu   sync.Mutex
	byID map[bulkhead.RequestID]*order
}

// enter makes an order known, under the gateway's id or one of its own. An id that is live already is refused: an abort would
// not know whom it means.
func (l *live) enter(c *Control, now time.Time) (*order, *bulkhead.Refusal) {
	o := &order{id: bulkhead.RequestID(c.Rid), control: c, deadline: c.deadline(now), all: make(chan struct{})}
	if o.id == "" {
		var b [12]byte
		rand.Read(b[:])
		o.id = bulkhead.RequestID(hex.EncodeToString(b[:]))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID[o.id] != nil {
		return nil, bulkhead.Refuse(bulkhead.CodeInvalid, "rid", "`rid` is that of a request that is running: each has its own")
	}
	l.byID[o.id] = o
	return o, nil
}

func (l *live) exit(o *order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byID, o.id)
}

// find is the order of a whole id, or every order where all is set.
func (l *live) find(id bulkhead.RequestID, all bool) (found []*order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !all {
		if o := l.byID[id]; o != nil {
			found = append(found, o)
		}
		return found
	}
	for _, o := range l.byID {
		found = append(found, o)
	}
	return found
}

// orderKey is where an order stands in a context on its way through the gateway's routes.
type orderKey struct{}

// orderOf is the order of a context. Routes that ask for no tokens have an empty one.
func orderOf(ctx context.Context) *order {
	if o, ok := ctx.Value(orderKey{}).(*order); ok {
		return o
	}
	return &order{}
}

// backend is the worker as the OpenAI routes see it.
type backend struct{ a *API }

// Limits are the worker's.
func (b backend) Limits() bulkhead.Limits { return b.a.cfg.Worker.Limits() }

// Submit hands over the next answer of the order that the context carries.
func (b backend) Submit(ctx context.Context, adm bulkhead.Admitted) (gateway.Stream, *bulkhead.Refusal) {
	s, ref := b.a.submit(orderOf(ctx), adm.Request())
	if ref != nil || b.a.cfg.Role == worker.Decode {
		return s, ref
	}
	return handedOver{s, orderOf(ctx)}, nil
}

// handedOver is a prefill worker's stream as the gateway's answers want it: a handoff that decode has committed ends it like
// an answer of no tokens. It ends so when all of its order's have: an answer begins with the first event that comes, and
// must not begin before the outcome is known. One that ends otherwise says so at once.
type handedOver struct {
	gateway.Stream
	order *order
}

// Next exchanges the End.
func (s handedOver) Next(ctx context.Context) (bulkhead.Event, bool) {
	e, ok := s.Stream.Next(ctx)
	if !ok || e.End == nil || e.End.Reason != bulkhead.HandedOver {
		return e, ok
	}
	s.order.hand()
	select {
	case <-s.order.all:
	case <-ctx.Done():
		return bulkhead.Event{}, false
	}
	end := *e.End
	end.Reason = bulkhead.Length
	return bulkhead.Event{End: &end}, true
}

// hand counts an answer whose pages decode has committed. Every answer has been submitted by then.
func (o *order) hand() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.handed++; o.handed == len(o.streams) {
		close(o.all)
	}
}
