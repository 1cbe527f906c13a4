package kernel

import (
	"math/bits"

	"github.com/bulkhead-llm/bulkhead"
)

// folding is what kernels that take sums fold them with before they return: the weights of what they add up, which depend on
// the head and on how many rows there are, and so are the same for all full pages of a span. Kernels in assembly read and
// write this by offset.
type folding struct {
	part  [3][4]uint64 // where a kernel keeps what it has no registers for
	by    [3][4]uint64 // weights: of A and B, for V of C too
	cross [3][4]uint64 // the same, both halves of each lane changed over
	sum   bulkhead.Sum // out

	head, rows int // that the weights are for; rows is 0 where there are none yet
}

// lines makes the weights those of rows of K, n of them counted from the page's start.
func (f *folding) lines(head, n int) {
	if f.head != head || f.rows != n {
		f.newLines(head, n)
	}
}

func (f *folding) newLines(head, n int) {
	f.head, f.rows = head, n
	f.by[0], f.by[1] = bulkhead.LinesWeights(head, n)
	f.turn()
}

// columns makes the weights those of tokens of V of so many pieces, n of them counted from the page's start.
func (f *folding) columns(head, pieces, n int) {
	if f.head != head || f.rows != n {
		f.newColumns(head, pieces, n)
	}
}

func (f *folding) newColumns(head, pieces, n int) {
	f.head, f.rows = head, n
	f.by[0], f.by[1], f.by[2] = bulkhead.ColumnsWeights(head, pieces, n)
	f.turn()
}

func (f *folding) turn() {
	for i := range f.by {
		for j, w := range f.by[i] {
			f.cross[i][j] = bits.RotateLeft64(w, 32)
		}
	}
}
