package bulkhead

import (
	"testing"

	"pgregory.net/rapid"
)

func drawLayout(t *rapid.T) Layout {
	return Layout{
		Layers:     rapid.IntRange(1, 3).Draw(t, "layers"),
		KVHeads:    rapid.IntRange(1, 4).Draw(t, "heads"),
		HeadSize:   rapid.SampledFrom([]int{2, 8, 16, 48, 64}).Draw(t, "head size"),
		PageTokens: rapid.SampledFrom([]int{16, 32, 64}).Draw(t, "page"),
	}
}

// put writes one F16 of K or V as the layout says and is the test's own reading of it.
func put(page []byte, off int, v uint16) { page[off], page[off+1] = byte(v), byte(v>>8) }

func fill(t *rapid.T, l Layout, page []byte, layer, tokens int) (k, v Sum) {
	rng := rapid.Uint64().Draw(t, "seed")
	next := func() uint16 { rng = rng*6364136223846793005 + 1442695040888963407; return uint16(rng >> 48) }
	for slot := range tokens {
		for h := range l.KVHeads {
			kv, vv := make([]uint16, l.HeadSize), make([]uint16, l.HeadSize)
			for d := range l.HeadSize {
				kv[d], vv[d] = next(), next()
				put(page, l.KOffset(layer, h)+((slot/16*l.HeadSize+d)*16+slot%16)*2, kv[d])
				put(page, l.VOffset(layer, h)+(slot*l.HeadStride()+d)*2, vv[d])
			}
			k += l.AppendedK(h, slot, kv)
			v += l.AppendedV(h, slot, vv)
		}
		k += FilledTerm(1)
		v += FilledTerm(1)
	}
	return k, v
}

// A sum that is extended token by token from the values written equals the sum of the bytes as they lie.
func TestSumExtends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		page := make([]byte, l.PageBytes())
		layer := rapid.IntRange(0, l.Layers-1).Draw(t, "layer")
		filled := rapid.IntRange(0, l.PageTokens).Draw(t, "filled")
		k, v := fill(t, l, page, layer, filled)
		if got := l.SumK(page, layer, filled); got != k {
			t.Errorf("K: bytes sum to %v, appends to %v", got, k)
		}
		if got := l.SumV(page, layer, filled); got != v {
			t.Errorf("V: bytes sum to %v, appends to %v", got, v)
		}
	})
}

// Tokens of V that are read column by column, in parts that begin at multiples of four, fold to the definition.
func TestFoldColumns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Layout{Layers: 1, KVHeads: 2, HeadSize: 16 * rapid.IntRange(1, 9).Draw(t, "pieces"), PageTokens: 64}
		page, pieces, slot := make([]byte, l.PageBytes()), l.HeadSize/16, l.HeadSize*2
		filled := rapid.IntRange(0, 64).Draw(t, "filled")
		_, want := fill(t, l, page, 0, filled)
		first := min(filled, 4*rapid.IntRange(0, 16).Draw(t, "part"))
		got := FilledTerm(filled)
		for h := range l.KVHeads {
			var before, behind Columns
			off := l.VOffset(0, h)
			before.Add(page[off:][:first*slot], pieces)
			behind.Add(page[off:][first*slot:filled*slot], pieces)
			got += before.Fold(h, pieces, 0, first)
			if first%4 == 0 {
				got += behind.Fold(h, pieces, first, filled-first)
			}
		}
		if got != want {
			t.Fatalf("columns fold to %v, appends to %v", got, want)
		}
	})
}

// What the weights for kernels give is what Fold gives, for whole turns of rows and tokens from any place on.
func TestWeightsFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (v [4]uint64) {
			for j := range v {
				v[j] = rapid.Uint64().Draw(t, name)
			}
			return v
		}
		a, b, c := draw("a"), draw("b"), draw("c")
		h, first := rapid.IntRange(0, 1023).Draw(t, "head"), 4*rapid.IntRange(0, 1023).Draw(t, "first")
		n, pieces := rapid.IntRange(0, 64).Draw(t, "n"), rapid.IntRange(1, 64).Draw(t, "pieces")
		k := Lines{A: a, B: b, N: n}
		wantK, wantV := k.Fold(h, first), (&Columns{A: a, B: b, C: c}).Fold(h, pieces, first, n)
		ka, kb := LinesWeights(h, first+n)
		va, vb, vc := ColumnsWeights(h, pieces, first+n)
		var gotK, gotV uint64
		for j := range a {
			gotK += a[j]*ka[j] + b[j]*kb[j]
			gotV += a[j]*va[j] + b[j]*vb[j] + c[j]*vc[j]
		}
		if Sum(gotK) != wantK || Sum(gotV) != wantV {
			t.Fatalf("weights give %v and %v, Fold %v and %v", Sum(gotK), Sum(gotV), wantK, wantV)
		}
	})
}

// Every single flipped bit of a filled slot changes the sum, and so does every swap of two slots that differ.
func TestSumDetects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Layout{Layers: 1, KVHeads: 2, HeadSize: rapid.SampledFrom([]int{16, 64, 80}).Draw(t, "head size"), PageTokens: 32}
		page := make([]byte, l.PageBytes())
		k, v := fill(t, l, page, 0, l.PageTokens)
		step := 1
		if l.HeadSize > 16 {
			step = rapid.IntRange(50, 200).Draw(t, "step")
		}
		for at := l.KOffset(0, 0); at < l.PageBytes(); at += step {
			bit := byte(1) << rapid.IntRange(0, 7).Draw(t, "bit")
			page[at] ^= bit
			if l.SumK(page, 0, l.PageTokens) == k && l.SumV(page, 0, l.PageTokens) == v {
				t.Fatalf("bit %x of byte %d: not detected", bit, at)
			}
			page[at] ^= bit
		}
		a := rapid.IntRange(0, 31).Draw(t, "a")
		b := rapid.IntRange(0, 31).Filter(func(b int) bool { return b != a }).Draw(t, "b")
		swapSlots(l, page, a, b)
		if l.SumK(page, 0, l.PageTokens) == k || l.SumV(page, 0, l.PageTokens) == v {
			t.Fatalf("slots %d and %d swapped: not detected", a, b)
		}
	})
}

func swapSlots(l Layout, page []byte, a, b int) {
	for d := range l.HeadSize {
		for _, base := range []int{l.KOffset(0, 0), l.KOffset(0, 1)} {
			x, y := base+((a/16*l.HeadSize+d)*16+a%16)*2, base+((b/16*l.HeadSize+d)*16+b%16)*2
			page[x], page[y], page[x+1], page[y+1] = page[y], page[x], page[y+1], page[x+1]
		}
		for _, base := range []int{l.VOffset(0, 0), l.VOffset(0, 1)} {
			x, y := base+(a*l.HeadStride()+d)*2, base+(b*l.HeadStride()+d)*2
			page[x], page[y], page[x+1], page[y+1] = page[y], page[x], page[y+1], page[x+1]
		}
	}
}

// Bytes that nobody wrote do not sum to what a seal of a written page says, even where every value is zero.
func TestUnwrittenIsNotZero(t *testing.T) {
	l := Layout{Layers: 1, KVHeads: 1, HeadSize: 16, PageTokens: 16}
	if l.SumK(make([]byte, l.PageBytes()), 0, 16) == l.SealOf(make([]byte, l.PageBytes())).K(0) {
		t.Error("a cleared page passes for a filled one")
	}
}
