package kernel

import (
	"github.com/bulkhead-llm/bulkhead"
	"github.com/klauspost/cpuid/v2"
)

// native lists the sets for this CPU's vector units, best first.
func native() (sets []*Set) {
	if !cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C) {
		return nil
	}
	if cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512VL, cpuid.AVX512DQ, cpuid.AVX512VNNI) {
		sets = append(sets, avx512Set)
	}
	return append(sets, avx2Set)
}

// avx2Set needs AVX2, FMA and F16C.
var avx2Set = &Set{
	Name: "avx2",
	mul: [numTypes][]tile{
		f32Type:  {{4, mulF32x4AVX2}, {2, mulF32x2AVX2}, {1, mulF32x1AVX2}},
		f16Type:  {{4, mulF16x4AVX2}, {2, mulF16x2AVX2}, {1, mulF16x1AVX2}},
		bf16Type: {{4, mulBF16x4AVX2}, {2, mulBF16x2AVX2}, {1, mulBF16x1AVX2}},
		q8_0Type: {{4, mulQ8_0x4AVX2}, {2, mulQ8_0x2AVX2}, {1, mulQ8_0x1AVX2}},
		q4_0Type: {{4, mulQ4_0x4AVX2}, {2, mulQ4_0x2AVX2}, {1, mulQ4_0x1AVX2}},
		q4_1Type: {{4, mulQ4_1x4AVX2}, {2, mulQ4_1x2AVX2}, {1, mulQ4_1x1AVX2}},
	},
	quantize:    quantizeAVX2Row,
	f32:         []linesTile{{6, linesF32x6AVX2}, {4, linesF32x4AVX2}, {3, linesF32x3AVX2}, {2, linesF32x2AVX2}, {1, linesF32x1AVX2}},
	keys:        []linesTile{{4, linesKeysx4AVX2}, {3, linesKeysx3AVX2}, {2, linesKeysx2AVX2}, {1, linesKeysx1AVX2}},
	values:      []linesTile{{4, linesValuesx4AVX2}, {3, linesValuesx3AVX2}, {2, linesValuesx2AVX2}, {1, linesValuesx1AVX2}},
	raw:         []linesTile{{4, linesRawx4AVX2}, {3, linesRawx3AVX2}, {2, linesRawx2AVX2}, {1, linesRawx1AVX2}},
	softmax:     softmaxAVX2Row,
	widen:       widenAVX2Lines,
	widenBlocks: widenBlocksAVX2,
	sumBlocks:   sumBlocksAVX2Lines,
	sumColumns:  sumColumnsAVX2,
	storeK:      storeKAVX2Slot,
	storeV:      storeVAVX2Slot,
	square:      squareAVX2Row,
	scaleMul:    scaleMulAVX2Row,
	rope:        ropeAVX2Head,
	siluMul:     siluMulAVX2Row,
	add:         addAVX2Row,
	addMul:      addMulAVX2Row,
}

// avx512Set needs AVX-512 F, BW, VL, DQ and VNNI. What no wider register would speed up it shares with avx2Set.
var avx512Set = &Set{
	Name: "avx512vnni",
	mul: [numTypes][]tile{
		f32Type:  {{8, mulF32x8AVX512}, {4, mulF32x4AVX512}, {2, mulF32x2AVX512}, {1, mulF32x1AVX512}},
		f16Type:  {{8, mulF16x8AVX512}, {4, mulF16x4AVX512}, {2, mulF16x2AVX512}, {1, mulF16x1AVX512}},
		bf16Type: {{8, mulBF16x8AVX512}, {4, mulBF16x4AVX512}, {2, mulBF16x2AVX512}, {1, mulBF16x1AVX512}},
		q8_0Type: {{8, mulQ8_0x8AVX512}, {4, mulQ8_0x4AVX512}, {2, mulQ8_0x2AVX512}, {1, mulQ8_0x1AVX512}},
		q4_0Type: {{8, mulQ4_0x8AVX512}, {4, mulQ4_0x4AVX512}, {2, mulQ4_0x2AVX512}, {1, mulQ4_0x1AVX512}},
		q4_1Type: {{8, mulQ4_1x8AVX512}, {4, mulQ4_1x4AVX512}, {2, mulQ4_1x2AVX512}, {1, mulQ4_1x1AVX512}},
	},
	quantize: quantizeAVX2Row,
	f32:      []linesTile{{8, linesF32x8AVX512}, {4, linesF32x4AVX512}, {2, linesF32x2AVX512}, {1, linesF32x1AVX512}},
	keys: []linesTile{
		{8, linesKeysx8AVX512}, {7, linesKeysx7AVX512}, {6, linesKeysx6AVX512}, {5, linesKeysx5AVX512},
		{4, linesKeysx4AVX512}, {3, linesKeysx3AVX512}, {2, linesKeysx2AVX512}, {1, linesKeysx1AVX512},
	},
	values: []linesTile{
		{8, linesValuesx8AVX512}, {7, linesValuesx7AVX512}, {6, linesValuesx6AVX512}, {5, linesValuesx5AVX512},
		{4, linesValuesx4AVX512}, {3, linesValuesx3AVX512}, {2, linesValuesx2AVX512}, {1, linesValuesx1AVX512},
	},
	raw: []linesTile{
		{8, linesRawx8AVX512}, {7, linesRawx7AVX512}, {6, linesRawx6AVX512}, {5, linesRawx5AVX512},
		{4, linesRawx4AVX512}, {3, linesRawx3AVX512}, {2, linesRawx2AVX512}, {1, linesRawx1AVX512},
	},
	softmax:     softmaxAVX512Row,
	widen:       widenAVX2Lines,
	widenBlocks: widenBlocksAVX2,
	sumBlocks:   sumBlocksAVX2Lines,
	sumColumns:  sumColumnsAVX2,
	storeK:      storeKAVX2Slot,
	storeV:      storeVAVX2Slot,
	square:      squareAVX2Row,
	scaleMul:    scaleMulAVX2Row,
	rope:        ropeAVX2Head,
	siluMul:     siluMulAVX2Row,
	add:         addAVX2Row,
	addMul:      addMulAVX2Row,
}

// The functions below check lengths, hand whole blocks of 16 to the kernels, and fill up what remains to a block.

const block = PanelRows

func quantizeAVX2Row(q []int8, scale []float32, qsum []int32, x []float32) {
	n := len(scale)
	if n > 0 {
		q, qsum, x = q[:n*QuantLen], qsum[:n], x[:n*QuantLen]
		quantizeAVX2(&q[0], &scale[0], &qsum[0], &x[0], n)
	}
}

// softmaxArgs is what a kernel of softmax gets: n scores, with room up to a multiple of 16. It writes the rest.
type softmaxArgs struct {
	x            []float32
	n            int
	scale        float32
	maximum, den float32
}

func newSoftmaxArgs(x []float32, n int, scale float32) softmaxArgs {
	return softmaxArgs{x: x[:(n+block-1)/block*block], n: n, scale: scale}
}

func softmaxAVX2Row(x []float32, n int, scale float32) (maximum, den float32) {
	a := newSoftmaxArgs(x, n, scale)
	softmaxAVX2(&a)
	return a.maximum, a.den
}

func softmaxAVX512Row(x []float32, n int, scale float32) (maximum, den float32) {
	a := newSoftmaxArgs(x, n, scale)
	softmaxAVX512(&a)
	return a.maximum, a.den
}

func widenAVX2Lines(dst []float32, src []byte) {
	n := len(src) / bulkhead.LineBytes
	dst = dst[:n*block]
	if n > 0 {
		widenAVX2(&dst[0], &src[0], n)
	}
}

func widenBlocksAVX2(dst []float32, src []byte, lines int) (sum bulkhead.Lines) {
	n := len(src) / (lines * bulkhead.LineBytes)
	dst = dst[:n*lines*block]
	if n > 0 {
		widenSumBlocksAVX2(&dst[0], &src[0], lines, n, &sum)
	}
	sum.N = n * bulkhead.BlockRows
	return sum
}

func sumBlocksAVX2Lines(data []byte, lines int) (sum bulkhead.Lines) {
	n := len(data) / (lines * bulkhead.LineBytes)
	if n > 0 {
		sumBlocksAVX2(&data[0], lines, n, &sum)
	}
	sum.N = n * bulkhead.BlockRows
	return sum
}

func sumColumnsAVX2(data []byte, pieces int) (sum bulkhead.Columns) {
	step := pieces * bulkhead.LineBytes
	a := linesArgs{f16: data, step: step, n: len(data) / step, groupStep: bulkhead.LineBytes, groups: pieces, columns: &sum, fetch: data}
	if a.n > 0 {
		linesValuesx0AVX2(&a)
	}
	return sum
}

func storeKAVX2Slot(lines []byte, in int, k []float32) (plain, placed uint64) {
	const turn = 8 // a multiple of BlockRows
	n := len(k) / turn
	lines = lines[:len(k)*bulkhead.LineBytes]
	if n > 0 {
		for j, p := range storeKAVX2(&lines[2*in], &k[0], n) {
			plain += uint64(p)
			placed += uint64(j%bulkhead.BlockRows) * uint64(p)
		}
	}
	if done := n * turn; done < len(k) {
		p, d := storeK(lines[done*bulkhead.LineBytes:], in, k[done:])
		plain += p
		placed += d
	}
	return plain, placed
}

func storeVAVX2Slot(dst []byte, v []float32) (sum bulkhead.Lines) {
	const size = bulkhead.LineBytes
	whole, lines := len(v)/block, len(dst)/size
	if whole > 0 {
		dst := dst[:whole*size]
		sum.A, sum.B = storeVAVX2(&dst[0], &v[0], whole)
		sum.N = whole
	}
	if whole < lines {
		var last lanes
		copy(last[:], v[whole*block:])
		a, _ := storeVAVX2(&dst[whole*size : lines*size][0], &last[0], 1)
		for j := range a {
			sum.A[j] += a[j]
			sum.B[j] += sum.A[j]
		}
		sum.N++
	}
	return sum
}

func squareAVX2Row(x []float32) float32 {
	var l, last lanes
	if n := len(x) / block; n > 0 {
		squareAVX2(&x[0], n, &l)
	}
	if copy(last[:], x[len(x)/block*block:]) > 0 {
		squareAVX2(&last[0], 1, &l)
	}
	return l.fold()
}

func scaleMulAVX2Row(dst, x, weight []float32, scale float32) {
	whole := len(x) / block * block
	dst, weight = dst[:len(x)], weight[:len(x)]
	if whole > 0 {
		scaleMulAVX2(&dst[0], &x[0], &weight[0], whole/block, scale)
	}
	scaleMul(dst[whole:], x[whole:], weight[whole:], scale)
}

func addAVX2Row(dst, x []float32) {
	whole := len(x) / block * block
	dst = dst[:len(x)]
	if whole > 0 {
		addAVX2(&dst[0], &x[0], whole/block)
	}
	add(dst[whole:], x[whole:])
}

func addMulAVX2Row(dst, x []float32, scale float32) {
	whole := len(x) / block * block
	dst = dst[:len(x)]
	if whole > 0 {
		addMulAVX2(&dst[0], &x[0], whole/block, scale)
	}
	addMul(dst[whole:], x[whole:], scale)
}

func siluMulAVX2Row(dst, gate, up []float32) {
	whole := len(gate) / block * block
	dst, up = dst[:len(gate)], up[:len(gate)]
	if whole > 0 {
		siluMulAVX2(&dst[0], &gate[0], &up[0], whole/block)
	}
	if whole < len(gate) {
		var g, u lanes
		copy(g[:], gate[whole:])
		copy(u[:], up[whole:])
		siluMulAVX2(&g[0], &g[0], &u[0], 1)
		copy(dst[whole:], g[:])
	}
}

func ropeAVX2Head(x, cos, sin []float32) {
	whole := len(x) / block * block
	cos, sin = cos[:len(x)/2], sin[:len(x)/2]
	if whole > 0 {
		ropeAVX2(&x[0], &cos[0], &sin[0], whole/block)
	}
	rope(x[whole:], cos[whole/2:], sin[whole/2:])
}
