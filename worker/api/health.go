package api

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/worker"
)

// pulse remembers when the loop last took a step, as far as anybody asked.
type pulse struct {
	mu    sync.Mutex
	steps uint64
	since time.Time // since when there has been work and no step; zero: there was none at the last look
}

// stalled says for how long the loop has had work and has taken no step, at least.
func (q *pulse) stalled(steps uint64, busy bool, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !busy:
		q.since = time.Time{}
	case q.since.IsZero() || steps != q.steps:
		q.since = now
	}
	q.steps = steps
	if q.since.IsZero() {
		return 0
	}
	return now.Sub(q.since)
}

// beat is what tells a loop that works from one that does not: its steps, and whether it has something to compute.
func (a *API) beat(s worker.Snapshot) (steps uint64, busy bool) {
	if a.cfg.Role == worker.Prefill {
		return s.Counters.PrefillSteps, s.Prefilling > 0
	}
	return s.Counters.DecodeSteps, s.Running > 0
}

// checkHealth looks without asking the loop for anything.
func (a *API) checkHealth() *bulkhead.Refusal {
	if ref := a.checkDraining(); ref != nil {
		return ref
	}
	if a.cfg.Worker.Limits().Window < 2 {
		return bulkhead.Refuse(bulkhead.CodeUnavailable, "", "too many pages were set aside: the pool holds no window any more; restart this worker")
	}
	steps, busy := a.beat(a.cfg.Worker.Snapshot())
	if d := a.pulse.stalled(steps, busy, time.Now()); d >= a.cfg.Stall {
		return bulkhead.Refuse(bulkhead.CodeUnavailable, "", "the %v loop has had work for %v and has taken no step", a.cfg.Role, d.Round(time.Second))
	}
	return nil
}

// health is GET /health.
func (a *API) health(p *reply, _ *http.Request) *bulkhead.Refusal {
	if ref := a.checkHealth(); ref != nil {
		return ref
	}
	p.json(http.StatusOK, healthy)
	return nil
}

var healthy = struct {
	Status string `json:"status"`
}{"ok"}

// healthGenerate is GET /health_generate: a request of the worker's own goes through its queue and its loop. At decode it is one token
// in and one out, which takes no handoff. At prefill it is two tokens, of which the first is computed, under a room that no
// peer may enter; it is dropped when the loop has computed. Both go the way of every request, checks included.
func (a *API) healthGenerate(p *reply, r *http.Request) *bulkhead.Refusal {
	if ref := a.checkHealth(); ref != nil {
		return ref
	}
	p.control.SetReadDeadline(time.Time{}) // there is no body, and it may take longer than one would
	ctx, cancel := context.WithTimeout(r.Context(), a.cfg.ProbeTimeout)
	defer cancel()
	if ref := a.probe(ctx); ref != nil {
		return ref
	}
	p.json(http.StatusOK, healthy)
	return nil
}

func (a *API) probe(ctx context.Context) *bulkhead.Refusal {
	before := a.rows()
	s, ref := a.submitProbe()
	switch {
	case ref != nil && ref.Code == bulkhead.CodeBusy: // full, which is healthy if it moves
		return a.await(ctx, before, make(chan *bulkhead.End))
	case ref != nil:
		return ref
	}
	ended := make(chan *bulkhead.End, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			e, ok := s.Next(ctx)
			if !ok {
				return
			}
			if e.End != nil {
				ended <- e.End
				return
			}
		}
	}()
	defer func() { s.Leave(); <-done }() // the End comes at once
	return a.await(ctx, before, ended)
}

// submitProbe hands the worker a request of its own.
func (a *API) submitProbe() (interface {
	Next(context.Context) (bulkhead.Event, bool)
	Leave()
}, *bulkhead.Refusal) {
	var b [20]byte
	rand.Read(b[:])
	r := bulkhead.Request{ID: bulkhead.RequestID("health-" + hex.EncodeToString(b[8:])), Tenant: bulkhead.Tenant{Name: "health", Domain: "health of " + a.cfg.Start},
		Prompt: []bulkhead.Token{0, 0}, MaxTokens: 1, IgnoreEOS: true, Deadline: time.Now().Add(a.cfg.ProbeTimeout)}
	if a.cfg.Role == worker.Decode {
		r.Prompt = r.Prompt[:1]
	}
	adm, ref := a.cfg.Worker.Limits().Admit(r)
	if ref != nil {
		return nil, ref
	}
	room := max(bulkhead.Room(binary.LittleEndian.Uint64(b[:])>>1), 1)
	return a.cfg.Worker.Submit(worker.Order{Request: adm, Room: room, Peer: handoff.Nobody})
}

// rows is how many tokens the loop has computed.
func (a *API) rows() uint64 {
	c := a.cfg.Worker.Snapshot().Counters
	if a.cfg.Role == worker.Prefill {
		return c.PrefillRows
	}
	return c.DecodeRows
}

// waits says that the loop has nothing to compute because what it holds is on its way to or from the other worker.
func (a *API) waits() bool {
	s := a.cfg.Worker.Snapshot()
	_, busy := a.beat(s)
	return !busy && s.HandingOver > 0
}

// probePatience is how long a probe is waited for before anything else counts, or half of its time.
const probePatience = time.Second

// await waits until the probe has been answered or, at prefill, the loop has computed something. A probe stands behind
// everybody else, and a worker under load is not to be taken for one that computes nothing: after a while it is enough that
// the loop computes for others, or that all that it could compute for waits for the other worker of its pair.
func (a *API) await(ctx context.Context, before uint64, ended <-chan *bulkhead.End) *bulkhead.Refusal {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(min(probePatience, a.cfg.ProbeTimeout/2))
	patient := true
	for {
		select {
		case <-late:
			patient = false
		case end := <-ended:
			return refusalOf(end)
		case <-ctx.Done():
			return bulkhead.Refuse(bulkhead.CodeUnavailable, "", "the %v loop computed nothing for a request of its own within %v", a.cfg.Role, a.cfg.ProbeTimeout)
		case <-tick.C:
			if (!patient || a.cfg.Role == worker.Prefill) && a.rows() > before || !patient && a.waits() {
				return nil
			}
		}
	}
}
