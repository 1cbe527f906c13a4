package sched

import (
	"slices"
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

// retryAfter is what a refusal for a full queue tells the client. Queues are short, so they have moved by then.
const retryAfter = time.Second

// grantsPerChunk is into how many grants a chunk is cut when tenants compete for it.
const grantsPerChunk = 8

// Job is a request as prefill's scheduler sees it.
type Job struct {
	Ticket   Ticket
	Tenant   string
	Tokens   bulkhead.Tokens // its prefix: what has to stand in the cache before decode can begin
	Deadline time.Time       // zero: none
}

// Share is what one request gets of a step.
type Share struct {
	Ticket Ticket
	Tokens bulkhead.Tokens
	Last   bool // the prefix is complete with this
}

// Prefill is the queue of prefill and the chunks cut from it. A request goes through it so:
//
//	Submit -> waiting -> Next, Begun -> computing -> Step (Last) -> open -> Close
//
// # Fairness
//
// Each tenant has an account of the tokens that were computed for it. Whatever there is to give goes to the tenant whose
// account is lowest, a chunk in grants of an eighth, so that tenants that compete get the same number of tokens whatever
// the number and length of their requests. A tenant that comes (back) with an account below those who compete is lifted to
// their lowest, so nobody saves up by being idle; one that leaves with more keeps it until the others have caught up, so
// nobody gains by leaving. Each request costs a fixed fee beside its tokens, or a tenant with prompts of one token,
// or with cached ones, would always be the lowest. Within a tenant the oldest goes first.
//
// Deficit round robin, which deals whole packets by turns, was not taken: chunks divide at any token, so exact accounts
// are both simpler and closer.
type Prefill struct {
	limits  bulkhead.Limits
	jobs    map[Ticket]*job
	tenants map[string]*tenant
	held    *job // named by Next and not begun yet: stays next
	waiting int
	begun   int   // computing or open
	floor   int64 // lowest account of those who compete; never falls
}

// tenant is one tenant's account and its requests, each list by age.
type tenant struct {
	name      string
	account   int64
	waiting   []*job
	computing []*job
}

type job struct {
	Job
	tenant *tenant
	state  state
	left   bulkhead.Tokens // still to be computed
}

type state int

const (
	queued state = iota
	chunked
	open // computed, pinned until decode has it
)

// NewPrefill makes the scheduler of a prefill worker. Of limits it uses Queue, QueueTenant, Running, Chunk and PageTokens.
func NewPrefill(limits bulkhead.Limits) *Prefill {
	return &Prefill{limits: limits, jobs: make(map[Ticket]*job), tenants: make(map[string]*tenant)}
}

// Submit puts a request into the queue, or refuses it where the queue, or its tenant's part of it, is full, or where its
// deadline has passed.
func (p *Prefill) Submit(j Job, now time.Time) *bulkhead.Refusal {
	var of int
	if t := p.tenants[j.Tenant]; t != nil {
		of = len(t.waiting)
	}
	if r := Full(j.Deadline, now, p.waiting, p.limits.Queue, of, p.limits.QueueTenant); r != nil {
		return r
	}
	p.enqueue(j)
	return nil
}

// Full is the refusal of a request where n of at most most requests are held, or of its tenant's ofTenant of mostTenant, or
// where its deadline has passed; nil where there is room. Every queue that waits for a pool refuses by it.
func Full(deadline, now time.Time, n, most, ofTenant, mostTenant int) *bulkhead.Refusal {
	var r *bulkhead.Refusal
	switch {
	case !deadline.IsZero() && !now.Before(deadline):
		return DeadlinePassed()
	case n >= most:
		r = bulkhead.Refuse(bulkhead.CodeBusy, "", "the queue is full: %d requests wait, which is the limit; try again later", n)
	case ofTenant >= mostTenant:
		r = bulkhead.Refuse(bulkhead.CodeBusy, "", "%d of your requests wait, which is the limit; try again later", ofTenant)
	default:
		return nil
	}
	r.RetryAfter = retryAfter
	return r
}

// DeadlinePassed is the refusal of a request whose deadline is over.
func DeadlinePassed() *bulkhead.Refusal {
	return bulkhead.Refuse(bulkhead.CodeDeadline, "", "the request's deadline passed before its answer was complete")
}

func (p *Prefill) enqueue(j Job) {
	if j.Ticket == 0 || p.jobs[j.Ticket] != nil {
		panic("sched: ticket 0, or one that is queued already")
	}
	t := p.tenants[j.Tenant]
	if t == nil {
		t = &tenant{name: j.Tenant}
		p.tenants[j.Tenant] = t
	}
	if t.idle() {
		t.account = max(t.account, p.floor)
	}
	n := &job{Job: j, tenant: t, left: j.Tokens}
	p.jobs[j.Ticket] = n
	t.waiting = insert(t.waiting, n)
	p.waiting++
}

// Next names the request that should begin, if one should. It stays the answer until it has begun or is closed, whatever
// arrives meanwhile: the caller begins it as soon as the pool has pages for all of its Tokens.
//
// A request should begin when those of its tenant that are computed do not fill a chunk, which is what the tenant could get
// of the next step; and no more than Limits.Running are computed or pinned at once.
func (p *Prefill) Next() (Job, bool) {
	if p.held != nil {
		return p.held.Job, true
	}
	if p.begun >= p.limits.Running {
		return Job{}, false
	}
	t := p.lowest(func(t *tenant) *job {
		if len(t.waiting) == 0 || t.backlog() >= p.limits.Chunk {
			return nil
		}
		return t.waiting[0]
	})
	if t == nil {
		return Job{}, false
	}
	p.held = t.waiting[0]
	return p.held.Job, true
}

// Begun says that the request has its pages and that cached tokens of its prefix were there already. It reports whether
// there is nothing to compute.
func (p *Prefill) Begun(t Ticket, cached bulkhead.Tokens) bool {
	j := p.must(t, queued)
	p.remove(j)
	p.begun++
	p.charge(j.tenant, int64(p.limits.PageTokens))
	j.left -= cached
	if j.left <= 0 {
		j.state = open
		return true
	}
	j.state = chunked
	j.tenant.computing = insert(j.tenant.computing, j)
	return false
}

// Step cuts the next chunk: who computes how many tokens, by age, at most Limits.Chunk together. The tokens count as
// computed. Empty: nothing to do.
func (p *Prefill) Step() []Share {
	var shares []Share
	budget := p.limits.Chunk
	grant := max(1, p.limits.Chunk/grantsPerChunk)
	for budget > 0 {
		t := p.lowest(func(t *tenant) *job {
			if len(t.computing) == 0 {
				return nil
			}
			return t.computing[0]
		})
		if t == nil {
			break
		}
		j := t.computing[0]
		n := min(grant, budget, j.left)
		budget -= n
		j.left -= n
		p.charge(t, int64(n))
		shares = give(shares, j.Ticket, n, j.left == 0)
		if j.left == 0 {
			p.remove(j)
			j.state = open
		}
	}
	slices.SortFunc(shares, func(a, b Share) int { return older(a.Ticket, b.Ticket) })
	return shares
}

// give adds n tokens to a ticket's share.
func give(shares []Share, t Ticket, n bulkhead.Tokens, last bool) []Share {
	for i := range shares {
		if shares[i].Ticket == t {
			shares[i].Tokens += n
			shares[i].Last = last
			return shares
		}
	}
	return append(shares, Share{t, n, last})
}

// Charge adds tokens that were computed elsewhere, in decode, to a tenant's account. A tenant with nothing here is not
// charged.
func (p *Prefill) Charge(name string, n bulkhead.Tokens) {
	if t := p.tenants[name]; t != nil {
		p.charge(t, int64(n))
	}
}

// Close forgets a request in whatever state it is: it was committed, or it ended. False where
// it is not known.
func (p *Prefill) Close(t Ticket) bool {
	j := p.jobs[t]
	if j == nil {
		return false
	}
	if j.state == queued {
		p.remove(j)
	} else {
		if j.state == chunked {
			p.remove(j)
		}
		p.begun--
	}
	delete(p.jobs, t)
	p.sweep()
	return true
}

// Waiting is how many requests wait, and Begun how many are computed or pinned.
func (p *Prefill) Waiting() int { return p.waiting }

// Computing is how many requests are being computed, and Open how many are computed and wait for decode.
func (p *Prefill) Computing() (computing, open int) {
	for _, t := range p.tenants {
		computing += len(t.computing)
	}
	return computing, p.begun - computing
}

// WaitingByTenant is how many requests wait for each tenant that has any.
func (p *Prefill) WaitingByTenant() map[string]int {
	out := make(map[string]int)
	for name, t := range p.tenants {
		if len(t.waiting) > 0 {
			out[name] = len(t.waiting)
		}
	}
	return out
}
