package kernel

import (
	"math"

	"github.com/bulkhead-llm/bulkhead"
)

// linesF32 is the kernel over lines of float32 in pure Go, for one row.
func linesF32(a *linesArgs) {
	for g := range a.groups {
		out := (*lanes)(a.out[g*PanelRows:])
		var acc lanes
		if a.add != 0 {
			acc = *out
		}
		for i, m := range a.a[:a.n] {
			line := (*lanes)(a.f32[(g*a.groupStep+i*a.step)/4:])
			for j := range acc {
				acc[j] += float32(m * line[j])
			}
		}
		*out = acc
	}
}

// widen widens whole lines.
func widen(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = f16At(src[2*i:])
	}
}

func widenBlocks(dst []float32, src []byte, lines int) bulkhead.Lines {
	widen(dst, src)
	return sumBlocks(src, lines)
}

func sumColumns(data []byte, pieces int) (sum bulkhead.Columns) {
	sum.Add(data, pieces)
	return sum
}

func sumBlocks(data []byte, lines int) (sum bulkhead.Lines) {
	for n := lines * bulkhead.LineBytes; len(data) >= n; data = data[n:] {
		sum.AddBlock(data[:n])
	}
	return sum
}

// softmax scales the first n of x, subtracts their maximum and takes exponentials, which it adds up in 16 lanes. Those
// from n on become zero. len(x) is n rounded up to 16.
func softmax(x []float32, n int, scale float32) (maximum, den float32) {
	maximum = float32(math.Inf(-1))
	for i := range x {
		if i >= n {
			x[i] = float32(math.Inf(-1))
		}
		x[i] *= scale
		if x[i] > maximum {
			maximum = x[i]
		}
	}
	var l lanes
	for i := range x {
		if i >= n {
			x[i] = 0
			continue
		}
		x[i] = exp(x[i] - maximum)
		l[i%PanelRows] += x[i]
	}
	return maximum, l.fold()
}
