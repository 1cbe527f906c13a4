package kv

import (
	"testing"

	"github.com/bulkhead-llm/bulkhead"
)

// fault is one way in which a page is not what its reader expects. It changes page at (of pages, in the order of the
// sequence), in one layer where it is about bytes.
type fault struct {
	name   string
	change func(w *world, pages [][]byte, at, layer int)
	parts  []bulkhead.Part // what the reader may find
}

var (
	inSeal  = []bulkhead.Part{bulkhead.PartIdentity, bulkhead.PartFilled}
	inBytes = []bulkhead.Part{bulkhead.PartK, bulkhead.PartV}
)

// world is what faults take foreign bytes from: the same prompt under another tenant, another prompt of the same tenant, and
// the sequence's own tail as it was some tokens ago. All are whole pages with seals that are valid where they belong.
type world struct {
	l              bulkhead.Layout
	tenant, prompt [][]byte
	earlier        []byte
}

// large has pages of two blocks and whole lines; with small it makes the layouts that faults are tried in.
var large = bulkhead.Layout{Layers: 3, KVHeads: 2, HeadSize: 16, PageTokens: 32}

// faultTokens are two full pages and a tail.
func faultTokens(l bulkhead.Layout) int { return 2*l.PageTokens + 9 }

func newWorld(t testing.TB, l bulkhead.Layout) *world {
	r := newRig(t, l, 16, Options{})
	tail := r.compute(domain("a", l), someTokens(faultTokens(l)-3, 1), 16)
	return &world{
		l:       l,
		tenant:  r.compute(domain("b", l), someTokens(faultTokens(l), 1), 16).Pages(),
		prompt:  r.compute(domain("a", l), someTokens(faultTokens(l), 2), 16).Pages(),
		earlier: tail.Pages()[2],
	}
}

func other(at int) int { return (at + 1) % 3 }

func swap(a, b []byte) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}

func faults() []fault {
	seal := func(l bulkhead.Layout) int { return l.SealBytes() }
	return []fault{
		{"a bit of K", func(w *world, p [][]byte, at, layer int) { p[at][w.l.KOffset(layer, 1)+5] ^= 0x10 }, inBytes},
		{"a bit of V", func(w *world, p [][]byte, at, layer int) { p[at][w.l.VOffset(layer, 1)+5] ^= 0x80 }, inBytes},
		{"a bit of the identity", func(w *world, p [][]byte, at, _ int) { p[at][15] ^= 1 }, inSeal},
		{"a bit of filled", func(w *world, p [][]byte, at, _ int) { p[at][16] ^= 1 }, inSeal},
		{"a bit of a K sum", func(w *world, p [][]byte, at, layer int) {
			s := w.l.SealOf(p[at])
			s.SetK(layer, s.K(layer)^1)
		}, inBytes},
		{"a bit of a V sum", func(w *world, p [][]byte, at, layer int) {
			s := w.l.SealOf(p[at])
			s.SetV(layer, s.V(layer)^1<<63)
		}, inBytes},
		{"two pages swapped", func(w *world, p [][]byte, at, _ int) { swap(p[at], p[other(at)]) }, inSeal},
		{"two pages swapped under their seals", func(w *world, p [][]byte, at, _ int) {
			swap(p[at][seal(w.l):], p[other(at)][seal(w.l):])
		}, inBytes},
		{"two seals swapped", func(w *world, p [][]byte, at, _ int) {
			swap(p[at][:seal(w.l)], p[other(at)][:seal(w.l)])
		}, inSeal},
		{"a page twice", func(w *world, p [][]byte, at, _ int) { copy(p[at], p[other(at)]) }, inSeal},
		{"two slots swapped in K", func(w *world, p [][]byte, at, layer int) { swapSlots(w.l, p[at], layer, 2, 7, true) }, inBytes},
		{"two slots swapped in V", func(w *world, p [][]byte, at, layer int) { swapSlots(w.l, p[at], layer, 2, 7, false) }, inBytes},
		{"two heads swapped", func(w *world, p [][]byte, at, layer int) {
			k0, k1 := w.l.KOffset(layer, 0), w.l.KOffset(layer, 1)
			swap(p[at][k0:k0+w.l.KHeadBytes()], p[at][k1:k1+w.l.KHeadBytes()])
		}, inBytes},
		{"two layers swapped", func(w *world, p [][]byte, at, _ int) {
			a, b := w.l.KOffset(0, 0), w.l.KOffset(1, 0)
			swap(p[at][a:a+w.l.LayerBytes()], p[at][b:b+w.l.LayerBytes()])
		}, inBytes},
		{"a stale page with its own valid seal", func(w *world, p [][]byte, at, _ int) { copy(p[at], w.prompt[at]) }, inSeal},
		{"stale bytes under the right seal", func(w *world, p [][]byte, at, _ int) {
			copy(p[at][seal(w.l):], w.prompt[at][seal(w.l):])
		}, inBytes},
		{"one layer of another prompt", func(w *world, p [][]byte, at, layer int) {
			off := w.l.KOffset(layer, 0)
			copy(p[at][off:off+w.l.LayerBytes()], w.prompt[at][off:])
		}, inBytes},
		{"the same tokens of another tenant", func(w *world, p [][]byte, at, _ int) { copy(p[at], w.tenant[at]) }, inSeal},
		{"an earlier state of a tail, replayed", func(w *world, p [][]byte, at, _ int) { copy(p[at], w.earlier) }, inSeal},
		{"a page that nobody wrote", func(w *world, p [][]byte, at, _ int) { clear(p[at]) }, inSeal},
		{"a sealed page that nobody wrote", func(w *world, p [][]byte, at, _ int) { clear(p[at][seal(w.l):]) }, inBytes},
		{"one layer that nobody wrote", func(w *world, p [][]byte, at, layer int) {
			off := w.l.KOffset(layer, 0)
			clear(p[at][off : off+w.l.LayerBytes()])
		}, inBytes},
		{"half of it written late by another", func(w *world, p [][]byte, at, _ int) {
			copy(p[at][:len(p[at])/2], w.prompt[at])
		}, append(inSeal, inBytes...)},
		{"its end written late by another", func(w *world, p [][]byte, at, layer int) {
			off := w.l.VOffset(layer, 0)
			copy(p[at][off:off+w.l.HeadStride()*2], w.prompt[at][off:])
		}, inBytes},
	}
}

func swapSlots(l bulkhead.Layout, page []byte, layer, a, b int, k bool) {
	for h := range l.KVHeads {
		for d := range l.HeadSize {
			x, y := l.VOffset(layer, h)+(a*l.HeadStride()+d)*2, l.VOffset(layer, h)+(b*l.HeadStride()+d)*2
			if k {
				x, y = l.KOffset(layer, h)+(d*16+a)*2, l.KOffset(layer, h)+(d*16+b)*2
			}
			swap(page[x:x+2], page[y:y+2])
		}
	}
}
