package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/enginetest"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// scene is a sequence of three pages, the last one half full, that is about to be damaged; another sequence that is not;
// and a page of a third one, with its own valid seal.
type scene struct {
	*server
	victim, other *kv.Sequence
	tokens        []bulkhead.Token // of the victim
	others        []bulkhead.Token
	stale         []byte
}

const scenePage = 16

func newScene(t *testing.T, e *engine.Engine, fromCache bool) *scene {
	t.Helper()
	s := &scene{server: serve(t, e, scenePage, 1024)}
	s.tokens, s.others = randomTokens(1, 2*scenePage+8, e.Info().Vocab), randomTokens(2, 100, e.Info().Vocab)
	compute := func(tokens []bulkhead.Token) *kv.Sequence {
		seq := s.begin(tokens, 160)
		s.step(engine.Work{Seq: seq, Tokens: tokens[seq.Len():]})
		return seq
	}
	old := compute(randomTokens(3, 2*scenePage, e.Info().Vocab))
	s.stale = bytes.Clone(old.Pages()[0])
	old.Release()
	if fromCache {
		compute(s.tokens).Release()
	}
	s.victim, s.other = compute(s.tokens), compute(s.others)
	return s
}

// region is where one head's K or V of a layer lies in a page.
func (s *scene) region(page []byte, layer, head int, part bulkhead.Part) []byte {
	if part == bulkhead.PartK {
		return page[s.l.KOffset(layer, head):][:s.l.KHeadBytes()]
	}
	return page[s.l.VOffset(layer, head):][:s.l.VHeadBytes()]
}

// places are the bytes of a region that hold tokens. Those of tokens to come are written before they are read.
func (s *scene) places(part bulkhead.Part, tokens int) (places []int) {
	for i := range s.l.KHeadBytes() {
		slot := i % bulkhead.LineBytes / 2
		if part == bulkhead.PartV {
			slot = i / (2 * s.l.HeadStride())
		}
		if slot < tokens {
			places = append(places, i)
		}
	}
	return places
}

func swap(a, b []byte) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}

// damage is something that happens to a page, and what of it is to be found first.
type damage struct {
	name  string
	at    int // page
	layer int
	part  bulkhead.Part
	do    func(s *scene, page []byte)
}

// damages are all of them, for each layer, K and V, first and tail page.
func damages(l bulkhead.Layout) []damage {
	var all []damage
	for _, at := range []int{0, 2} {
		tokens := scenePage
		if at == 2 {
			tokens = 8
		}
		for layer := range l.Layers {
			for _, part := range []bulkhead.Part{bulkhead.PartK, bulkhead.PartV} {
				all = append(all, inRegion(at, layer, part, tokens)...)
			}
		}
		whole := func(name string, part bulkhead.Part, do func(s *scene, page []byte)) {
			layer := -1
			if part == bulkhead.PartK {
				layer = 0
			}
			all = append(all, damage{name, at, layer, part, do})
		}
		whole("two pages are swapped", bulkhead.PartIdentity, func(s *scene, page []byte) {
			swap(page, s.victim.Pages()[1])
		})
		whole("two pages are swapped under their seals", bulkhead.PartK, func(s *scene, page []byte) {
			swap(page[l.SealBytes():], s.victim.Pages()[1][l.SealBytes():])
		})
		whole("a stale page with its own valid seal", bulkhead.PartIdentity, func(s *scene, page []byte) { copy(page, s.stale) })
		whole("a stale page under the right seal", bulkhead.PartK, func(s *scene, page []byte) {
			copy(page[l.SealBytes():], s.stale[l.SealBytes():])
		})
		whole("a page of another sequence", bulkhead.PartIdentity, func(s *scene, page []byte) { copy(page, s.other.Pages()[at]) })
		whole("a page that nobody wrote", bulkhead.PartIdentity, func(_ *scene, page []byte) { clear(page) })
		whole("a sealed page that nobody wrote", bulkhead.PartK, func(_ *scene, page []byte) { clear(page[l.SealBytes():]) })
		whole("a late writer overwrites the second half", bulkhead.PartV, func(s *scene, page []byte) {
			from := l.VOffset(0, l.KVHeads/2)
			copy(page[from:], s.stale[from:])
		})
		all[len(all)-1].layer = 0
		whole("a late writer overwrites the first half", bulkhead.PartIdentity, func(s *scene, page []byte) {
			copy(page[:len(page)/2], s.stale)
		})
		whole("another number of tokens", bulkhead.PartFilled, func(_ *scene, page []byte) { l.SealOf(page).SetFilled(tokens - 1) })
		whole("a bit of the identity", bulkhead.PartIdentity, func(_ *scene, page []byte) { page[5] ^= 4 })
	}
	return all
}

// inRegion is the damage to one layer's K or V.
func inRegion(at, layer int, part bulkhead.Part, tokens int) []damage {
	d := func(name string, do func(s *scene, page []byte)) damage { return damage{name, at, layer, part, do} }
	return []damage{
		d("one bit", func(s *scene, page []byte) {
			r := rand.New(rand.NewPCG(uint64(at), uint64(layer)))
			places := s.places(part, tokens)
			s.region(page, layer, r.IntN(s.l.KVHeads), part)[places[r.IntN(len(places))]] ^= 1 << r.IntN(8)
		}),
		d("the last bit of the last head", func(s *scene, page []byte) {
			places := s.places(part, tokens)
			s.region(page, layer, s.l.KVHeads-1, part)[places[len(places)-1]] ^= 0x80
		}),
		d("two slots are swapped", func(s *scene, page []byte) {
			for head := range s.l.KVHeads {
				r, stride := s.region(page, layer, head, part), s.l.HeadStride()*2
				if part == bulkhead.PartV {
					swap(r[1*stride:2*stride], r[6*stride:7*stride])
					continue
				}
				for d := range s.l.HeadSize {
					line := r[d*bulkhead.LineBytes:]
					swap(line[2*1:2*1+2], line[2*6:2*6+2])
				}
			}
		}),
		d("two heads are swapped", func(s *scene, page []byte) {
			swap(s.region(page, layer, 0, part), s.region(page, layer, 1, part))
		}),
		d("half of it is zero", func(s *scene, page []byte) {
			for head := range s.l.KVHeads / 2 {
				clear(s.region(page, layer, head, part))
			}
		}),
	}
}

// Each damage is found by the step that reads it, before a logit leaves; the sequence beside it gets the logits that it
// would have had alone.
func TestViolations(t *testing.T) {
	e := load(t, enginetest.Model{Seed: 5, Type: 8}.GGUF(t), engine.Options{Threads: 2})
	more := randomTokens(7, 150, e.Info().Vocab)
	want := alone(t, e, 32, append(randomTokens(2, 100, e.Info().Vocab), more[0]), 50)
	for _, fromCache := range []bool{false, true} {
		for _, n := range []int{1, 20, 150} { // decode; a chunk that goes on over a page's end; one whose rows are cut in bands
			for _, d := range damages(e.Layout(scenePage)) {
				t.Run(fmt.Sprintf("cache %t/%d tokens/page %d/layer %d/%s/%s", fromCache, n, d.at, d.layer, d.part, d.name), func(t *testing.T) {
					s := newScene(t, e, fromCache)
					d.do(s, s.victim.Pages()[d.at])
					results := make([]engine.Result, 2)
					e.Step([]engine.Work{{Seq: s.victim, Tokens: more[:n], Logits: true}, {Seq: s.other, Tokens: more[:1], Logits: true}}, results)
					s.expect(t, d, results[0])
					if results[1].Violation != nil {
						t.Errorf("the other sequence: %v", results[1].Violation)
					} else if bits(t, results[1].Logits) != want {
						t.Error("the other sequence got other logits than alone")
					}
					s.victim.Release()
					s.other.Release()
					if st := s.pool.Stats(); !st.Idle() {
						t.Errorf("afterwards: %+v", st)
					}
				})
			}
		}
	}
}

func (s *scene) expect(t *testing.T, d damage, r engine.Result) {
	t.Helper()
	v := r.Violation
	if v == nil || !errors.Is(v, bulkhead.ErrViolation) {
		t.Fatalf("not found; logits: %t", r.Logits != nil)
	}
	if r.Logits != nil {
		t.Error("logits left the step")
	}
	// a swap of pages damages another one as well, and that may come first
	if v.Layer != d.layer || v.Part != d.part || v.At != d.at && v.At != 1 || v.Expected == v.Found {
		t.Errorf("found: %v; want layer %d, %s", v, d.layer, d.part)
	}
	if !s.victim.Dead() {
		t.Error("the sequence goes on")
	}
}

// A chunk of a prompt whose logits nobody wants does not read the last layer. Damage there is found by the step that does.
func TestViolationInTheLastLayer(t *testing.T) {
	e := load(t, enginetest.Model{Seed: 5}.GGUF(t), engine.Options{Threads: 2})
	s := newScene(t, e, false)
	last := e.Info().Layers - 1
	s.region(s.victim.Pages()[0], last, 0, bulkhead.PartV)[3] ^= 1
	s.step(engine.Work{Seq: s.victim, Tokens: s.others[:5]})
	results := make([]engine.Result, 1)
	e.Step([]engine.Work{{Seq: s.victim, Tokens: s.others[:1], Logits: true}}, results)
	if v := results[0].Violation; v == nil || v.Layer != last || results[0].Logits != nil {
		t.Errorf("%v, logits %t", v, results[0].Logits != nil)
	}
}

// Sequences that share a damaged page all fail; one that does not goes on. Nobody finds the page in the cache afterwards.
func TestViolationOfASharedPage(t *testing.T) {
	e := load(t, enginetest.Model{Seed: 5}.GGUF(t), engine.Options{Threads: 2})
	s := newScene(t, e, true)
	twin := s.begin(s.tokens, 8)
	if twin.Len() != 2*scenePage {
		t.Fatalf("the twin found %v", twin.Len())
	}
	s.region(twin.Pages()[1], 1, 1, bulkhead.PartK)[9] ^= 16
	results := make([]engine.Result, 3)
	e.Step([]engine.Work{
		{Seq: s.victim, Tokens: s.tokens[:1], Logits: true},
		{Seq: s.other, Tokens: s.tokens[:1], Logits: true},
		{Seq: twin, Tokens: s.tokens[twin.Len():], Logits: true},
	}, results)
	for i, bad := range []bool{true, false, true} {
		if (results[i].Violation != nil) != bad || (results[i].Logits == nil) != bad {
			t.Errorf("work %d: %v", i, results[i].Violation)
		}
	}
	s.victim.Release()
	twin.Release()
	if again := s.pool.Begin(s.ids, s.tokens); again.Len() != scenePage {
		t.Errorf("found %v in the cache, the damaged page is the second", again.Len())
	}
}

// A violation in an early pass of a step keeps the rest of that work out of later passes, and no other work.
func TestViolationAcrossPasses(t *testing.T) {
	e := load(t, enginetest.Model{Seed: 5}.GGUF(t), engine.Options{Threads: 2, MaxRows: 8})
	s := newScene(t, e, false)
	s.region(s.victim.Pages()[0], 0, 0, bulkhead.PartK)[0] ^= 1
	results := make([]engine.Result, 2)
	more := randomTokens(7, 20, e.Info().Vocab)
	e.Step([]engine.Work{{Seq: s.victim, Tokens: more, Logits: true}, {Seq: s.other, Tokens: more, Logits: true}}, results)
	if results[0].Violation == nil || results[0].Logits != nil {
		t.Error("the damage was not found")
	}
	want := alone(t, e, 32, append(s.others, more...), 120)
	if results[1].Violation != nil || bits(t, results[1].Logits) != want {
		t.Errorf("the other: %v", results[1].Violation)
	}
}
