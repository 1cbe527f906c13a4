package kv

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// Append is the open write of a sequence's next tokens, from the start of a step to its end.
//
// While it is open the seals of the pages that it writes run ahead of what the sequence holds: their sums are extended layer
// by layer, in the pool's own books and in the seal, from the values that are written and never from what memory holds. Compare
// holds each layer's attention, and the seal as it is by then, to the books. How many tokens are filled and the identity are set in Done, when all of the step has been
// compared. Until then a reader of such a page would find it is not what it says; there is none, as only full pages are
// shared.
//
// The sequence has one Append and uses it again for every step, so that a step allocates nothing.
type Append struct {
	s        *Sequence
	n        int // tokens
	at, slot int // place of the first token
	pages    int // that attention reads
	open     bool
	violated bool // Compare found something; Done is not to follow
	compared int  // calls of Compare
}

// Append opens a write of the next tokens. The capacity must be there, and no append open.
func (s *Sequence) Append(tokens []bulkhead.Token) *Append {
	s.usable()
	a := &s.append
	invariant.Check(!a.open, "kv: a second append was opened")
	invariant.Check(len(tokens) > 0, "kv: an append of no tokens")
	invariant.Check(s.len+len(tokens) <= len(s.pages)*s.pool.layout.PageTokens, "kv: an append past the capacity")
	s.tokens = append(s.tokens[:s.len], tokens...)
	size := s.pool.layout.PageTokens
	*a = Append{s: s, n: len(tokens), at: s.len / size, slot: s.len % size, open: true}
	a.pages = s.pool.layout.Pages(bulkhead.Tokens(s.len + a.n))
	return a
}

// Len is how many tokens are being appended.
func (a *Append) Len() int { return a.n }

// Slot is where token i of the append goes.
func (a *Append) Slot(i int) (page []byte, slot int) {
	at, slot := a.place(i)
	return a.s.views[at], slot
}

// ExtendK adds to the seal what the K of token i counts in a layer: the sum over all heads, once for each layer and token.
func (a *Append) ExtendK(layer, i int, sum bulkhead.Sum) {
	at, _ := a.place(i)
	seal := a.s.seals[at]
	sum += bulkhead.FilledTerm(1)
	a.s.sums[at][2*layer] += sum
	seal.SetK(layer, seal.K(layer)+sum)
}

// ExtendV adds to the seal what the V of token i counts in a layer: the sum over all heads, once for each layer and token.
func (a *Append) ExtendV(layer, i int, sum bulkhead.Sum) {
	at, _ := a.place(i)
	seal := a.s.seals[at]
	sum += bulkhead.FilledTerm(1)
	a.s.sums[at][2*layer+1] += sum
	seal.SetV(layer, seal.V(layer)+sum)
}

func (a *Append) place(i int) (at, slot int) {
	invariant.Check(a.open && uint(i) < uint(a.n), "kv: a token outside the open append")
	slot, size := a.slot+i, a.s.pool.layout.PageTokens
	if slot < size { // no division where decode asks, for one token, twice a layer
		return a.at, slot
	}
	return a.at + slot/size, slot % size
}

// Pages is how many pages attention reads: those that hold tokens, the append's own included.
func (a *Append) Pages() int { return a.pages }

// CompareLayer holds what attention read of one layer against the books, and the seals with it: the sums of every page over all heads, without the
// term for the filled tokens, pages in order. It is called for every layer that attention reads, after the layer's tokens
// have been extended. The first page that differs is the violation.
func (a *Append) CompareLayer(layer int, k, v []bulkhead.Sum) *bulkhead.Violation {
	n := a.pages
	invariant.Check(len(k) == n && len(v) == n, "kv: sums of more or fewer pages than attention reads")
	invariant.Check(a.open, "kv: an append that is not open was used")
	a.compared += n - 1
	term := bulkhead.FilledTerm(a.s.pool.layout.PageTokens)
	for at, seal := range a.s.seals[:n-1] {
		want := a.s.sums[at][2*layer:][:2]
		if sealK, sealV := seal.K(layer), seal.V(layer); k[at]+term != want[0] || v[at]+term != want[1] || sealK != want[0] || sealV != want[1] {
			return a.differs(layer, at, found{k[at] + term, v[at] + term}, found{sealK, sealV})
		}
	}
	return a.Compare(layer, n-1, k[n-1], v[n-1])
}

// Compare is CompareLayer for one page.
func (a *Append) Compare(layer, page int, k, v bulkhead.Sum) *bulkhead.Violation {
	invariant.Check(a.open && uint(page) < uint(a.pages), "kv: a page outside the open append was compared")
	a.compared++
	term := bulkhead.FilledTerm(filled(a.s.len+a.n, page, a.s.pool.layout.PageTokens))
	want, seal := a.s.sums[page][2*layer:][:2], a.s.seals[page]
	if sealK, sealV := seal.K(layer), seal.V(layer); k+term != want[0] || v+term != want[1] || sealK != want[0] || sealV != want[1] {
		return a.differs(layer, page, found{k + term, v + term}, found{sealK, sealV})
	}
	return nil
}

// found is the sums of a layer's K and V as they were read, or as a seal said.
type found struct{ k, v bulkhead.Sum }

// differs is the violation that one look found: a second look might find nothing.
func (a *Append) differs(layer, page int, read, seal found) *bulkhead.Violation {
	want := found{a.s.sums[page][2*layer], a.s.sums[page][2*layer+1]}
	switch {
	case read.k != want.k:
		return a.violation(layer, page, bulkhead.PartK, want.k, read.k)
	case read.v != want.v:
		return a.violation(layer, page, bulkhead.PartV, want.v, read.v)
	case seal.k != want.k:
		return a.violation(layer, page, bulkhead.PartK, want.k, seal.k)
	}
	return a.violation(layer, page, bulkhead.PartV, want.v, seal.v)
}

func (a *Append) violation(layer, page int, part bulkhead.Part, want, got bulkhead.Sum) *bulkhead.Violation {
	a.violated = true
	return &bulkhead.Violation{
		Page: a.s.pages[page], At: page, Layer: layer, Part: part, Expected: want.String(), Found: got.String(),
	}
}

// Done ends the append: the sequence holds the tokens, the pages say so, and those that became full are findable. A layer
// of which some pages were compared and others not is a bug, and so is an append that had a violation.
func (a *Append) Done() {
	a.close()
	s := a.s
	if s.released { // nobody is left to hold the tokens
		s.drain()
		return
	}
	invariant.Check(!s.dead && !a.violated, "kv: an append was done after a violation")
	invariant.Check(a.compared%a.pages == 0, "kv: an append was done with pages not compared")
	size, first := s.pool.layout.PageTokens, a.at
	s.len += a.n
	s.expect = s.expect[:first]
	var parent bulkhead.Identity
	if first > 0 {
		parent = s.expect[first-1]
	}
	for at := first; at*size < s.len; at++ {
		n := filled(s.len, at, size)
		parent = s.ids.Next(parent, s.tokens[at*size:at*size+n])
		s.expect = append(s.expect, parent)
		s.seals[at].SetIdentity(parent)
		s.seals[at].SetFilled(n)
		setSums(s.seals[at], s.sums[at])          // or whoever has just overwritten the page would find it sealed as the sequence's own
		s.pool.pages[s.pages[at]].doubted = false // it holds what was written
		if n == size {
			s.pool.publish(s.pages[at], parent)
		}
	}
}

// Fail ends the append without its tokens: the sequence is dead and only Release is left. The page of the violation is set
// aside and no longer findable. A nil violation is a step that was given up.
func (a *Append) Fail(v *bulkhead.Violation) {
	a.close()
	a.s.fail(v)
	if a.s.released {
		a.s.drain()
	}
}

func (a *Append) close() {
	invariant.Check(a.open, "kv: an append that is not open was used")
	a.open = false
}
