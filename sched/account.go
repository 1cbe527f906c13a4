package sched

import (
	"slices"

	"github.com/bulkhead-llm/bulkhead"
)

func (t *tenant) idle() bool { return len(t.waiting) == 0 && len(t.computing) == 0 }

// lowest is the tenant with the lowest account among those for which head names a request; of equal ones, that with the
// oldest.
func (p *Prefill) lowest(head func(*tenant) *job) *tenant {
	var best *tenant
	var first *job
	for _, t := range p.tenants {
		j := head(t)
		if j == nil {
			continue
		}
		if best == nil || t.account < best.account || t.account == best.account && j.Ticket < first.Ticket {
			best, first = t, j
		}
	}
	return best
}

// charge adds to an account and lifts the floor to the lowest account of those who still compete.
func (p *Prefill) charge(t *tenant, n int64) {
	t.account += n
	low := int64(-1)
	for _, t := range p.tenants {
		if !t.idle() && (low < 0 || t.account < low) {
			low = t.account
		}
	}
	p.floor = max(p.floor, low)
}

// sweep forgets tenants that have nothing here and would be lifted to the floor anyway, or everybody when nobody
// competes.
func (p *Prefill) sweep() {
	if len(p.jobs) == 0 {
		clear(p.tenants)
		p.floor = 0
		return
	}
	for name, t := range p.tenants {
		if t.idle() && t.account <= p.floor && !p.owns(t) {
			delete(p.tenants, name)
		}
	}
}

// owns says whether any request, open ones included, is the tenant's.
func (p *Prefill) owns(t *tenant) bool {
	for _, j := range p.jobs {
		if j.tenant == t {
			return true
		}
	}
	return false
}

// backlog is what is still to be computed of the tenant's requests that have begun.
func (t *tenant) backlog() (n bulkhead.Tokens) {
	for _, j := range t.computing {
		n += j.left
	}
	return n
}

// remove takes a waiting or computing request out of its tenant's list.
func (p *Prefill) remove(j *job) {
	t := j.tenant
	if j.state == queued {
		t.waiting = slices.DeleteFunc(t.waiting, func(o *job) bool { return o == j })
		p.waiting--
		if p.held == j {
			p.held = nil
		}
		return
	}
	t.computing = slices.DeleteFunc(t.computing, func(o *job) bool { return o == j })
}

func (p *Prefill) must(t Ticket, s state) *job {
	j := p.jobs[t]
	if j == nil || j.state != s {
		panic("sched: a request that is not known, or not in the state that the call needs")
	}
	return j
}

func insert(list []*job, j *job) []*job {
	i, _ := slices.BinarySearchFunc(list, j, func(a, b *job) int { return older(a.Ticket, b.Ticket) })
	return slices.Insert(list, i, j)
}
