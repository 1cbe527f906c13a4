package kv

import "github.com/bulkhead-llm/bulkhead"

// Flush frees every page that is cached: found by its identity, and held by nobody. What a sequence or a reservation holds
// stays, also in the index. It returns how many pages it freed.
func (p *Pool) Flush() (freed int) {
	for p.index.oldest != none {
		i := bulkhead.PageIndex(p.index.oldest)
		p.index.unlink(p.pages, int32(i))
		p.retire(i)
		p.settle(i)
		freed++
	}
	p.costlyAudit()
	return freed
}
