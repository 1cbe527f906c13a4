package worker

import (
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/sched"
)

// setBack is sched.Pool's: what the request holds goes back, and it stands in the line again with its prompt and its answer so
// far. Its sampler stays, and the engine computes the same whatever the company, so the same tokens will follow.
func (d *DecodeWorker) setBack(ticket sched.Ticket) {
	t := d.held[ticket]
	d.count.add(func(c *Counters) { c.SetBacks++ })
	t.seq.Release()
	t.seq, t.again, t.prefix = nil, true, t.job.prefix()
	d.line.Offer(ticket, bulkhead.Tokens(len(t.prefix)))
}

// beginAgain gives pages to a request that was set back. What of its prefix is still in the cache is not computed again.
func (d *DecodeWorker) beginAgain(t *target) bool {
	seq := d.pool.Begin(d.keys.of(t.job.req.Tenant), t.prefix)
	if !d.pool.Grow(seq, bulkhead.Tokens(len(t.prefix))) {
		seq.Release()
		return false
	}
	t.seq = seq
	d.line.Begun(t.job.ticket)
	d.recomputed(t)
	return true
}

// recomputed makes a request run whose prefix is whole.
func (d *DecodeWorker) recomputed(t *target) {
	if int(t.seq.Len()) == len(t.prefix) {
		d.line.Landed(t.job.ticket)
	}
}

// recompute computes at most one chunk of requests that were set back, oldest first, so that those that run wait for no more
// than a chunk between two tokens, as they do for prefill in a pair. False where there is nothing to compute.
func (d *DecodeWorker) recompute() bool {
	var targets []*target
	var work []engine.Work
	left := d.cfg.Limits.Chunk
	for _, ticket := range d.line.Computing() {
		t := d.held[ticket]
		if left == 0 || t.job.stream.isEnded() {
			continue
		}
		at := t.seq.Len()
		n := min(left, bulkhead.Tokens(len(t.prefix))-at)
		left -= n
		targets, work = append(targets, t), append(work, engine.Work{Seq: t.seq, Tokens: t.prefix[at : at+n]})
	}
	if len(work) == 0 {
		return false
	}
	before := make([]bulkhead.Tokens, len(work))
	for i := range work {
		before[i] = work[i].Seq.Len()
	}
	results := make([]engine.Result, len(work))
	d.turn.take()
	start := time.Now()
	d.cfg.Runner.Step(work, results)
	took := time.Since(start)
	d.turn.pass()

	rows := int(d.cfg.Limits.Chunk - left)
	d.cfg.Observer.Step(Decode, rows, took)
	d.count.add(func(c *Counters) { c.DecodeSteps++; c.DecodeRows += uint64(rows) })
	var bills []bill
	for i, t := range targets {
		ran(&work[i], before[i], &results[i])
		bills = append(bills, bill{t.job.req.Tenant.Name, bulkhead.Tokens(len(work[i].Tokens))})
		if v := results[i].Violation; v != nil {
			d.violated(t.job, "recomputation", v)
			d.drop(t)
			continue
		}
		d.recomputed(t)
	}
	d.account(bills)
	return true
}

// account passes on what was computed for whom.
func (d *DecodeWorker) account(bills []bill) {
	if d.charge != nil {
		d.charge(bills)
	}
}
