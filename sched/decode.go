package sched

import (
	"slices"

	"github.com/bulkhead-llm/bulkhead"
)

// Decode is the line of requests that wait for decode, and the batch of those that run.
//
//	Offer -> line -> Next, Reserved -> landing -> Landed -> running -> Remove
//	                                      |                   |
//	                                      +---- set back -----+--> prefill, with prompt and answer so far as its prefix
//
// Every running request takes part in every step (continuous batching), at most Limits.Running at once, those that are
// landing included. A request is admitted from the head of the line, by age, when there are pages for its prefix and one
// token more. While others run, each of them is left one page as well: without that, a request could be admitted into the
// last pages only to be set back by the next step.
//
// When a running request needs a page and there is none, the youngest of those that hold pages is set back, itself
// included. The tenant that holds most was not chosen: age is what makes a proof that nothing starves, and shares
// are settled in prefill, through which the request must go again.
type Decode struct {
	limits bulkhead.Limits
	line   []offered // by age
	held   []holder  // by age
}

type offered struct {
	ticket Ticket
	prefix bulkhead.Tokens
}

type holder struct {
	ticket  Ticket
	running bool // else landing
}

// Pool is what Step needs of the decode pool.
type Pool interface {
	// Grow makes sure that the request has a slot for one token more. False: nothing changed.
	Grow(Ticket) bool
	// SetBack takes away what the request holds, landing or running, and sends it to prefill again.
	SetBack(Ticket)
	// Stuck is told of a request that nobody younger or older can give way to: it is alone and the pool does not hold it.
	// True: it has ended. False: pages are on their way back and it waits.
	Stuck(Ticket) bool
}

// NewDecode makes the scheduler of a decode worker. Of limits it uses Running and PageTokens.
func NewDecode(limits bulkhead.Limits) *Decode { return &Decode{limits: limits} }

// Offer puts a request into the line: its prefix can be pulled.
func (d *Decode) Offer(t Ticket, prefix bulkhead.Tokens) {
	i, found := slices.BinarySearchFunc(d.line, t, func(o offered, t Ticket) int { return older(o.ticket, t) })
	if _, holds := d.find(t); found || holds || t == 0 {
		panic("sched: ticket 0, or one that is in decode already")
	}
	d.line = slices.Insert(d.line, i, offered{t, prefix})
}

// Next names the request whose pages should be reserved now, given how many tokens the pool has room for.
func (d *Decode) Next(free bulkhead.Tokens) (Ticket, bool) {
	if len(d.line) == 0 || len(d.held) >= d.limits.Running {
		return 0, false
	}
	page := bulkhead.Tokens(d.limits.PageTokens)
	pages := (d.line[0].prefix+1+page-1)/page + bulkhead.Tokens(len(d.held))
	if free/page < pages {
		return 0, false
	}
	return d.line[0].ticket, true
}

// Head is the request that is first in the line, and whether nobody holds anything: then the pool is as empty as it gets,
// and a head that does not fit never will.
func (d *Decode) Head() (t Ticket, alone bool) {
	if len(d.line) == 0 {
		return 0, false
	}
	return d.line[0].ticket, len(d.held) == 0
}

// Reserved takes the head of the line out of it: its pages are reserved and are landing.
func (d *Decode) Reserved(t Ticket) {
	if len(d.line) == 0 || d.line[0].ticket != t {
		panic("sched: reserved out of turn")
	}
	d.line = slices.Delete(d.line, 0, 1)
	i, _ := d.find(t)
	d.held = slices.Insert(d.held, i, holder{ticket: t})
}

// Landed makes a landing request run from the next step.
func (d *Decode) Landed(t Ticket) {
	i, ok := d.find(t)
	if !ok || d.held[i].running {
		panic("sched: landed without landing")
	}
	d.held[i].running = true
}

// Remove forgets a request wherever it is. False where it is not known.
func (d *Decode) Remove(t Ticket) bool {
	n := len(d.line) + len(d.held)
	d.line = slices.DeleteFunc(d.line, func(o offered) bool { return o.ticket == t })
	d.held = slices.DeleteFunc(d.held, func(h holder) bool { return h.ticket == t })
	return len(d.line)+len(d.held) < n
}

// Step settles who takes part in the next step, oldest first, and sets back or reports whom the pool cannot hold. Those
// are removed before the pool is told.
func (d *Decode) Step(pool Pool) (batch []Ticket) {
	for i := 0; i < len(d.held); i++ {
		h := d.held[i]
		if !h.running {
			continue
		}
		if d.grow(h.ticket, pool) {
			batch = append(batch, h.ticket)
		}
		// grow removes from the end only: what stands before i is older and stays.
	}
	return batch
}

// grow finds room for t, from the youngest on. False where t itself had to go, or waits.
func (d *Decode) grow(t Ticket, pool Pool) bool {
	for !pool.Grow(t) {
		youngest := d.held[len(d.held)-1].ticket
		if len(d.held) == 1 {
			if pool.Stuck(t) {
				d.Remove(t)
			}
			return false
		}
		d.Remove(youngest)
		pool.SetBack(youngest)
		if youngest == t {
			return false
		}
	}
	return true
}

// Lens is how many stand in the line, are landing, and run.
func (d *Decode) Lens() (line, landing, running int) {
	for _, h := range d.held {
		if h.running {
			running++
		}
	}
	return len(d.line), len(d.held) - running, running
}

func (d *Decode) find(t Ticket) (int, bool) {
	return slices.BinarySearchFunc(d.held, t, func(h holder, t Ticket) int { return older(h.ticket, t) })
}
