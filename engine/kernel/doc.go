// Package kernel holds the compute kernels of the engine: everything that touches weights, activations or the bytes of a
// page, once in pure Go and again for the vector units of the CPU.
//
// A [Set] is one implementation of all of them. [Best] is the one to use here; [Named] finds one by name. [Types] is the
// table of weight types: how a row of a GGUF tensor is read, how a matrix is packed, and which kernels multiply by it.
//
//	w := kernel.Weight{Type: t, Rows: rows, Cols: cols, Data: packed}
//	x.Shape(n, cols)              // n rows of activations in x.F32
//	set.Quantize(x, 0, n)         // for quantised weights
//	set.MatMul(dst, rows, &w, x, 0, w.Panels())
//
// # Batch invariance
//
// Every output is computed by one fixed order of operations that depends on its own row's inputs only: not on how many
// rows share the call, on which, on chunk borders, on the number of threads or on the size of pages. So within a set the
// KV and the logits of a token are the same bits whether it is computed alone, in a batch of decode steps, in a chunk of
// any length of a prompt, or again after it was set back. The orders are:
//
//   - MatMul, quantised weights: an output is a lane. Blocks of 32 columns follow one another: the integer sum of a block
//     is exact, then acc = acc + float(sum)*(dw*dx), the product dw*dx rounded first. Q4_1 adds m*(dx*sumq) after it.
//   - MatMul, float weights: acc = acc + w*x, column after column.
//   - Attention: a score is the sum over the dimensions in order, times the scale. The keys are cut in segments of 512 at
//     absolute positions. A segment has its own maximum; its exponentials are added up in 16 lanes (key mod 16), the lanes
//     by halves; and its values are added key after key. [Set.Merge] joins segments in order.
//   - RMSNorm: squares are added up in 16 lanes, the lanes by halves.
//
// # The sets
//
//   - "go" is pure Go and runs anywhere. It is what the others are measured by.
//   - "avx2" needs AVX2, FMA and F16C.
//   - "avx512vnni" needs AVX-512 F, BW, VL, DQ and VNNI as well.
//
// The assembly is generated: package gen, a module of its own, writes the kernels of both vector units from one
// description, with declarations that do not compile where a kernel's idea of a struct is not Go's. Every kernel is called
// through Go that cuts the slices to what the kernel will touch, so that one that is too short panics and is never read
// past. A set is used only after a self-test of a few milliseconds agreed with the Go set; [Failed] says which did not. The
// script emulate/run runs the tests with the AVX-512 set on an emulated CPU, for machines without one.
//
// # How sets agree
//
// Activations are quantised to the same bits by every set, and the integer sums are exact. A set that has a fused
// multiply-add uses it in each "acc + a*b" above; the Go set rounds twice. So two sets differ by rounding alone: for a sum
// of n products by at most 2*(n+2)*2^-24 of the sum of their magnitudes. The exponential is off by at most 4 units in the
// last place in each set. The tests hold every set to these bounds, against float64. Which set computes is therefore part
// of what a result depends on: KV that one set has written and another goes on from is valid, but not the same bits.
//
// # Sums ride along
//
// A page's sums are taken in the pass that loads what attention multiplies. See [Span].
package kernel
