package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff/inproc"
	"github.com/bulkhead-llm/bulkhead/sched"
)

// Pair is a prefill and a decode worker of one process, joined by an in-process handoff and sharing one engine.
//
// Two goroutines run, one a side; each owns its pool, and what they have in common is in three places: the link of the
// handoff, prefill's queue (Submit is asked by everybody), and the streams. Everything that is queued is bounded: waiting
// requests by Limits.Queue, those that are computed or handed over and those that run by Limits.Running each; and since a
// request that is set back counts as waiting, all of them together by Queue + 2*Running.
type Pair struct {
	cfg     Config
	turn    turn
	link    *inproc.Link
	prefill *prefill
	decode  *decode
	count   *counts
	stop    context.CancelFunc
	loops   sync.WaitGroup
	release []func() // the arenas

	mu       sync.Mutex
	jobs     map[sched.Ticket]*job // not ended
	ticket   sched.Ticket          // the last given
	draining bool
	idle     chan struct{} // closed when draining and jobs is empty
}

// errClosed ends what is left at Close.
var errClosed = errors.New("the worker was closed")

// NewPair makes the pools and starts both loops. It refuses limits that contradict each other, among them a window that
// does not fit both pools.
func NewPair(cfg Config) (*Pair, error) {
	p, err := newPair(cfg)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.loops.Go(func() {
		p.supervise(Prefill, func() { p.prefill.loop(ctx) })
		close(p.prefill.done)
		p.decode.bell.ring()
	})
	p.loops.Go(func() { p.supervise(Decode, func() { p.decode.loop(ctx) }) })
	return p, nil
}

// newPair makes a pair whose loops do not run yet.
func newPair(cfg Config) (*Pair, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	p := &Pair{cfg: cfg, turn: newTurn(), count: newCounts(), jobs: make(map[sched.Ticket]*job), idle: make(chan struct{})}
	prefillPool, free, err := p.cfg.pool(cfg.PrefillArena, cfg.Limits.PrefillPool)
	if err != nil {
		return nil, fmt.Errorf("prefill pool: %w", err)
	}
	p.release = append(p.release, free)
	decodePool, free, err := p.cfg.pool(cfg.DecodeArena, cfg.Limits.DecodePool)
	if err != nil {
		p.giveBack()
		return nil, fmt.Errorf("decode pool: %w", err)
	}
	p.release = append(p.release, free)
	p.prefill, p.decode = newPrefill(p, prefillPool), newDecode(p, decodePool)
	p.link = inproc.New(p.prefill.bell.ring, p.decode.bell.ring)
	p.count.pool(Prefill, prefillPool.Stats())
	p.count.pool(Decode, decodePool.Stats())
	return p, nil
}

// Limits are what the pair holds to now: pages that were set aside have left the pools, and where the window no longer fits
// it is smaller.
func (p *Pair) Limits() bulkhead.Limits {
	l := p.cfg.Limits
	l.PrefillPool -= bulkhead.Tokens(p.count.setAside(Prefill) * l.PageTokens)
	l.DecodePool -= bulkhead.Tokens(p.count.setAside(Decode) * l.PageTokens)
	l.Window = min(l.Window, l.FitWindow())
	return l
}

// Submit takes a request, or refuses it: over the limits as they are now, a token that the model does not have, queue
// full, draining. The admission that made a is not believed: it was by somebody else's limits.
func (p *Pair) Submit(a bulkhead.Admitted) (*Stream, *bulkhead.Refusal) {
	r := a.Request()
	refusal := p.admit(&r)
	if refusal == nil {
		j := &job{req: r, arrived: time.Now(), tokens: slices.Clone(r.Prompt)}
		if refusal = p.enter(j); refusal == nil {
			p.count.add(func(c *Counters) { c.Submitted++; c.PromptTokens += uint64(len(r.Prompt)) })
			p.prefill.bell.ring()
			return j.stream, nil
		}
	}
	p.count.refused(refusal.Code)
	return nil, refusal
}

func (p *Pair) admit(r *bulkhead.Request) *bulkhead.Refusal {
	again, refusal := p.Limits().Admit(*r)
	if refusal != nil {
		return refusal
	}
	*r = again.Request()
	vocab := bulkhead.Token(p.cfg.Runner.Info().Vocab)
	for i, t := range r.Prompt {
		if t < 0 || t >= vocab {
			return bulkhead.Refuse(bulkhead.CodeInvalid, "prompt", "token %d of the prompt is %d; the model has %d tokens", i, t, vocab)
		}
	}
	if r.Deadline.IsZero() && p.cfg.Limits.RequestTimeout > 0 {
		r.Deadline = time.Now().Add(p.cfg.Limits.RequestTimeout)
	}
	return nil
}

// enter gives the job its ticket and puts it into prefill's queue.
func (p *Pair) enter(j *job) *bulkhead.Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining {
		return p.drainingRefusal()
	}
	p.ticket++
	j.ticket = p.ticket
	j.stream = newStream(j.req.ID, func() { p.end(j, bulkhead.End{Reason: bulkhead.Aborted}) })
	if r := p.prefill.submit(j); r != nil {
		return r
	}
	p.jobs[j.ticket] = j
	return nil
}

func (p *Pair) drainingRefusal() *bulkhead.Refusal {
	r := bulkhead.Refuse(bulkhead.CodeDraining, "", "the server is shutting down; try again later")
	r.RetryAfter = max(time.Second, p.cfg.Limits.DrainTimeout)
	return r
}

// forget takes a job that has ended off the list, and tells Drain when it was the last.
func (p *Pair) forget(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.jobs, j.ticket)
	p.tellIdle()
}

func (p *Pair) tellIdle() {
	if !p.draining || len(p.jobs) > 0 {
		return
	}
	select {
	case <-p.idle:
	default:
		close(p.idle)
	}
}

// Drain takes no new requests from now on and waits until those that are there have ended. When Limits.DrainTimeout has
// passed or ctx is done, the rest end as Refused with server_draining; the error says how many.
func (p *Pair) Drain(ctx context.Context) error {
	if d := p.cfg.Limits.DrainTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	p.mu.Lock()
	p.draining = true
	p.tellIdle()
	p.mu.Unlock()
	select {
	case <-p.idle:
		return nil
	case <-ctx.Done():
	}
	if n := p.endAll(func(j *job) { p.refuse(j, p.drainingRefusal()) }); n > 0 {
		return fmt.Errorf("%d requests had not ended and were cut off: %w", n, ctx.Err())
	}
	return nil
}

// endAll ends all jobs that are left and says how many there were.
func (p *Pair) endAll(end func(*job)) int {
	p.mu.Lock()
	p.draining = true
	rest := make([]*job, 0, len(p.jobs))
	for _, j := range p.jobs {
		rest = append(rest, j)
	}
	p.mu.Unlock()
	for _, j := range rest {
		end(j)
	}
	return len(rest)
}

// Close ends what is left as Failed, waits until all pages are back and both loops have ended, and gives the arenas back.
// A second Close does nothing more.
func (p *Pair) Close() {
	p.endAll(func(j *job) { p.end(j, bulkhead.End{Reason: bulkhead.Failed, Err: errClosed}) })
	p.stop()
	p.prefill.bell.ring()
	p.decode.bell.ring()
	p.loops.Wait()
	p.giveBack()
}

func (p *Pair) giveBack() {
	for _, f := range p.release {
		f()
	}
	p.release = nil
}

// Snapshot is the state of the pair now, the pools as they were after each loop's last turn.
func (p *Pair) Snapshot() Snapshot {
	s := Snapshot{Limits: p.Limits()}
	p.mu.Lock()
	s.Draining = p.draining
	p.mu.Unlock()
	p.prefill.snapshot(&s)
	p.count.mu.Lock()
	defer p.count.mu.Unlock()
	s.Prefill = p.count.use(Prefill, s.Limits.PageTokens)
	s.Decode = p.count.use(Decode, s.Limits.PageTokens)
	s.Running = p.count.decoding.running
	s.Counters = p.count.copy()
	return s
}
