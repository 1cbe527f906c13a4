package kv

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
)

// small is a layout whose regions have gaps and padding: head size 8 is not a whole line of V.
var small = bulkhead.Layout{Layers: 2, KVHeads: 2, HeadSize: 8, PageTokens: 16}

// rig is a pool with an engine: it writes values that follow from a token and everything before it, and reads every page as
// attention does.
type rig struct {
	*Pool
	t rapid.TB
}

func newRig(t rapid.TB, l bulkhead.Layout, pages int, o Options) *rig {
	t.Helper()
	o.Layout, o.Arena = l, make([]byte, pages*l.PageBytes())
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{Pool: p, t: t}
}

func domain(name string, l bulkhead.Layout) *Identities {
	return NewIdentities([32]byte{1}, name, [32]byte{2}, l)
}

func someTokens(n int, seed uint64) []bulkhead.Token {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]bulkhead.Token, n)
	for i := range out {
		out[i] = bulkhead.Token(r.IntN(50000))
	}
	return out
}

// store writes the K and V of one token in one layer and returns what they add to the sums.
func store(l bulkhead.Layout, page []byte, layer, slot int, seed uint64) (k, v bulkhead.Sum) {
	r := rand.New(rand.NewPCG(seed, uint64(layer)))
	ks, vs := make([]uint16, l.HeadSize), make([]uint16, l.HeadSize)
	for h := range l.KVHeads {
		for d := range l.HeadSize {
			ks[d], vs[d] = uint16(r.Uint32()), uint16(r.Uint32())
			put(page, l.KOffset(layer, h)+((slot/16*l.HeadSize+d)*16+slot%16)*2, ks[d])
			put(page, l.VOffset(layer, h)+(slot*l.HeadStride()+d)*2, vs[d])
		}
		k += l.AppendedK(h, slot, ks)
		v += l.AppendedV(h, slot, vs)
	}
	return k, v
}

func put(page []byte, off int, x uint16) { page[off], page[off+1] = byte(x), byte(x>>8) }

// seed follows from a token and all before it, as KV does.
func seed(tokens []bulkhead.Token) uint64 {
	h := uint64(14695981039346656037)
	for _, t := range tokens {
		h = (h ^ uint64(uint32(t))) * 1099511628211
	}
	return h
}

// content is the pages that tokens make, without their seals: what a sequence must hold, by other means than a pool's.
func content(l bulkhead.Layout, tokens []bulkhead.Token) [][]byte {
	pages := make([][]byte, l.Pages(bulkhead.Tokens(len(tokens))))
	for i := range pages {
		pages[i] = make([]byte, l.PageBytes())
	}
	for pos := range tokens {
		for layer := range l.Layers {
			store(l, pages[pos/l.PageTokens], layer, pos%l.PageTokens, seed(tokens[:pos+1]))
		}
	}
	return pages
}

// write is the writing half of a step.
func (r *rig) write(a *Append, layer int) {
	l := r.layout
	for i := range a.Len() {
		page, slot := a.Slot(i)
		k, v := store(l, page, layer, slot, seed(a.s.tokens[:a.s.len+i+1]))
		a.ExtendK(layer, i, k)
		a.ExtendV(layer, i, v)
	}
}

// read is the reading half of a step: what attention sums, and the comparison, of whole layers or page by page.
func (r *rig) read(a *Append, layer int) *bulkhead.Violation {
	l := r.layout
	pages := a.s.Pages()
	k, v := make([]bulkhead.Sum, a.Pages()), make([]bulkhead.Sum, a.Pages())
	for at := range k {
		n := filled(a.s.len+a.n, at, l.PageTokens)
		k[at] = l.SumK(pages[at], layer, n) - bulkhead.FilledTerm(n)
		v[at] = l.SumV(pages[at], layer, n) - bulkhead.FilledTerm(n)
	}
	if layer%2 == 0 {
		return a.CompareLayer(layer, k, v)
	}
	for at := range k {
		if v := a.Compare(layer, at, k[at], v[at]); v != nil {
			return v
		}
	}
	return nil
}

// step is one whole step as an engine takes it.
func (r *rig) step(s *Sequence, tokens []bulkhead.Token) *bulkhead.Violation {
	if v := s.Check(); v != nil {
		return v
	}
	a := s.Append(tokens)
	for layer := range r.layout.Layers {
		r.write(a, layer)
		if v := r.read(a, layer); v != nil {
			a.Fail(v)
			return v
		}
	}
	a.Done()
	return nil
}

// compute opens a sequence, and computes what the cache does not have in chunks.
func (r *rig) compute(ids *Identities, tokens []bulkhead.Token, chunk int) *Sequence {
	r.t.Helper()
	s := r.Begin(ids, tokens)
	if !r.Grow(s, bulkhead.Tokens(len(tokens))) {
		r.t.Fatalf("no room for %d tokens: %+v", len(tokens), r.Stats())
	}
	for int(s.Len()) < len(tokens) {
		n := min(chunk, len(tokens)-int(s.Len()))
		if v := r.step(s, tokens[s.Len():int(s.Len())+n]); v != nil {
			r.t.Fatal(v)
		}
	}
	return s
}

// land copies page i of a source into a reservation and proves it.
func (r *rig) land(res *Reservation, i int, source *Sequence) *bulkhead.Violation {
	l := res.Land(i)
	copy(l.Bytes(), source.Pages()[i])
	return l.Prove()
}

// handoff reserves at r what source holds and lands it.
func (r *rig) handoff(ids *Identities, source *Sequence) *Sequence {
	r.t.Helper()
	res, ok := r.Reserve(ids, source.Tokens())
	if !ok {
		r.t.Fatalf("no room to reserve: %+v", r.Stats())
	}
	for i := range res.Pages() {
		if res.Have(i) {
			continue
		}
		if v := r.land(res, i, source); v != nil {
			r.t.Fatal(v)
		}
	}
	s, err := res.Commit()
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) audit() {
	r.t.Helper()
	if err := r.Audit(); err != nil {
		r.t.Fatal(err)
	}
}

// The whole life: prefill in chunks, hand over, decode, release; every page is free again at the end.
func TestLifeOfAPage(t *testing.T) {
	for _, keep := range []bool{false, true} {
		prefill, decode := newRig(t, small, 5, Options{KeepOnFree: keep}), newRig(t, small, 5, Options{KeepOnFree: keep})
		ids := domain("a", small)
		tokens := someTokens(40, 1)
		source := prefill.compute(ids, tokens, 7)
		s := decode.handoff(ids, source)
		source.Release()
		if !decode.Grow(s, 60) {
			t.Fatal("no room")
		}
		for _, tok := range someTokens(20, 2) {
			if v := decode.step(s, []bulkhead.Token{tok}); v != nil {
				t.Fatal(v)
			}
		}
		decode.audit()
		s.Release()
		for _, r := range []*rig{prefill, decode} {
			r.audit()
			if !r.Stats().Idle() || r.Free() != r.Size() {
				t.Errorf("not free at the end: %+v", r.Stats())
			}
		}
		if got := prefill.Stats().Cached; got != 2 {
			t.Errorf("%d pages cached, want the 2 full ones", got)
		}
	}
}
