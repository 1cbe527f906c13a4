package sched

import (
	"slices"

	"github.com/bulkhead-llm/bulkhead"
)

// Decode is the line of requests that wait for pages of decode, and the batch of those that run.
//
//	Offer -> line -> Next, Reserved -> landing ---- Landed -> running -> Remove
//	          ^  \--> Next, Begun ----> computing -- Landed ----^  |
//	          |                          |                       |
//	          +------- set back ---------+-----------------------+
//
// Every running request takes part in every step (continuous batching), at most Limits.Running at once, those that are
// landing or computed included. A request is admitted from the head of the line, by age, when there are pages for its prefix
// and one token more. While others run, each of them is left one page as well: without that, a request could be admitted
// into the last pages only to be set back by the next step.
//
// When a running request needs a page and there is none, the youngest of those that hold pages is set back, itself
// included: its pages go, it stands in the line again with prompt and answer so far as its prefix, and when its turn comes
// decode computes that prefix by itself, a chunk between two steps. Nobody is asked: a decode worker may stand behind
// somebody else's router, which knows no way back to prefill. The tenant that holds most was not chosen to give way: age is
// what makes a proof that nothing starves.
//
// Where the youngest is landing, it is waited for, and set back when it has landed: a carrier may be writing into its pages,
// so that they would not come back sooner, and its prefill worker would take the room's end for the request's. The cost is
// that whoever needs a page waits as long as a transfer takes; what is left of one is a chunk of prefill, and its carrier
// bounds it.
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
	ticket Ticket
	stage  stage
}

// stage is what a holder of pages does.
type stage uint8

const (
	landing   stage = iota // pages come from prefill
	computing              // it was set back: decode computes its prefix
	running
)

// Pool is what Step needs of the decode pool.
type Pool interface {
	// Grow makes sure that the request has a slot for one token more. False: nothing changed.
	Grow(Ticket) bool
	// SetBack takes away what the request holds, computed or running, and offers it again.
	SetBack(Ticket)
	// Stuck is told of a request that nobody younger or older can give way to: it is alone and the pool does not hold it.
	// True: it has ended. False: pages are on their way back and it waits.
	Stuck(Ticket) bool
}

// NewDecode makes the scheduler of a decode worker. Of limits it uses Running and PageTokens.
func NewDecode(limits bulkhead.Limits) *Decode { return &Decode{limits: limits} }

// Offer puts a request into the line: its prefix can be pulled, or is to be computed again.
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
func (d *Decode) Reserved(t Ticket) { d.hold(t, landing) }

// Begun takes the head of the line out of it: it was set back, has pages again, and its prefix is to be computed.
func (d *Decode) Begun(t Ticket) { d.hold(t, computing) }

func (d *Decode) hold(t Ticket, s stage) {
	if len(d.line) == 0 || d.line[0].ticket != t {
		panic("sched: reserved out of turn")
	}
	d.line = slices.Delete(d.line, 0, 1)
	i, _ := d.find(t)
	d.held = slices.Insert(d.held, i, holder{t, s})
}

// Landed makes a request whose prefix is whole, landed or computed, run from the next step.
func (d *Decode) Landed(t Ticket) {
	i, ok := d.find(t)
	if !ok || d.held[i].stage == running {
		panic("sched: landed without landing")
	}
	d.held[i].stage = running
}

// Computing are the requests whose prefix is to be computed again, oldest first.
func (d *Decode) Computing() (out []Ticket) {
	for _, h := range d.held {
		if h.stage == computing {
			out = append(out, h.ticket)
		}
	}
	return out
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
		if h.stage != running {
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
		youngest := d.held[len(d.held)-1]
		if len(d.held) == 1 {
			if pool.Stuck(t) {
				d.Remove(t)
			}
			return false
		}
		if youngest.stage == landing {
			return false
		}
		d.Remove(youngest.ticket)
		pool.SetBack(youngest.ticket)
		if youngest.ticket == t {
			return false
		}
	}
	return true
}

// Lens is how many stand in the line, are landing, are computed again, and run.
func (d *Decode) Lens() (line, land, compute, run int) {
	var n [running + 1]int
	for _, h := range d.held {
		n[h.stage]++
	}
	return len(d.line), n[landing], n[computing], n[running]
}

func (d *Decode) find(t Ticket) (int, bool) {
	return slices.BinarySearchFunc(d.held, t, func(h holder, t Ticket) int { return older(h.ticket, t) })
}
