package kernel

import (
	"fmt"
	"sync"
)

// Activations are the rows that weights are multiplied by, reused from step to step. F32 is written by the engine; the
// rest is [Set.Quantize]'s: values of 8 bit, and for each 32 of a row their scale and sum.
type Activations struct {
	Rows, Cols int
	F32        []float32 // row r at r*Cols
	Q          []int8    // row r at r*Cols
	Scale      []float32 // row r at r*(Cols/32)
	QSum       []int32   // likewise
}

// NewActivations has room for maxRows rows of maxCols columns. [Activations.Shape] says how much of it is in use.
func NewActivations(maxRows, maxCols int) *Activations {
	n := maxRows * maxCols
	a := &Activations{
		F32:   make([]float32, n),
		Q:     make([]int8, n),
		Scale: make([]float32, (n+QuantLen-1)/QuantLen),
		QSum:  make([]int32, (n+QuantLen-1)/QuantLen),
	}
	a.Shape(maxRows, maxCols)
	return a
}

// Shape sets the number of rows and columns. What the rows held is lost.
func (a *Activations) Shape(rows, cols int) {
	if rows < 0 || cols < 0 || rows*cols > len(a.F32) {
		panic(fmt.Sprintf("kernel: %d rows of %d columns in activations with room for %d values", rows, cols, len(a.F32)))
	}
	a.Rows, a.Cols = rows, cols
}

// Row is row r, to be written or read.
func (a *Activations) Row(r int) []float32 { return a.F32[r*a.Cols:][:a.Cols] }

// Quantize quantises rows [from,to). Cols is a multiple of 32.
func (s *Set) Quantize(a *Activations, from, to int) {
	if a.Cols%QuantLen != 0 || from < 0 || to > a.Rows {
		panic(fmt.Sprintf("kernel: quantise rows [%d,%d) of %d rows of %d columns", from, to, a.Rows, a.Cols))
	}
	blocks := a.Cols / QuantLen
	for r := from; r < to; r++ {
		s.quantize(a.Q[r*a.Cols:][:a.Cols], a.Scale[r*blocks:][:blocks], a.QSum[r*blocks:][:blocks], a.Row(r))
	}
}

// mulArgs is what a kernel of MatMul gets: panels of a weight, and as many rows of activations as its tile says. It writes
// dst[r*stride+16*p+lane] for every row r, panel p and lane. Kernels in assembly read it by offset.
type mulArgs struct {
	dst        []float32
	stride     int
	w          []byte
	panelBytes int
	panels     int
	x          []float32
	q          []int8
	cols       int // of x and q, from row to row
	scale      []float32
	qsum       []int32
	blocks     int // of 32 columns; from row to row in scale and qsum
}

// tile is a kernel that multiplies a fixed number of rows at once.
type tile struct {
	rows int
	mul  func(a *mulArgs)
}

// mulWork is what one call of MatMul works with. It comes from a pool, since what is handed to a kernel through a field of
// the set would otherwise be allocated by each call.
type mulWork struct {
	mulArgs
	part Activations                   // rows of the call, for the last panel
	last [lastRows * PanelRows]float32 // outputs of the last panel
}

// lastRows is how many rows go through the buffer for the last panel at once.
const lastRows = 8

var works = sync.Pool{New: func() any { return new(mulWork) }}

// MatMul multiplies: dst[r*stride+o] = sum over k of W[o,k]*x[r,k], for all rows r of x and the outputs o of panels
// [p0,p1). Quantised weights take x as [Set.Quantize] left it.
func (s *Set) MatMul(dst []float32, stride int, w *Weight, x *Activations, p0, p1 int) {
	if w.Cols != x.Cols || p0 < 0 || p1 > w.Panels() || stride < w.Rows {
		panic(fmt.Sprintf("kernel: panels [%d,%d) of %d x %d by rows of %d, %d apart", p0, p1, w.Rows, w.Cols, x.Cols, stride))
	}
	if p0 >= p1 || x.Rows == 0 {
		return
	}
	work := works.Get().(*mulWork)
	whole := min(p1, w.Rows/PanelRows)
	for p := p0; p < whole; {
		n := min(whole-p, s.panelsAtOnce(w, x.Rows))
		s.mulPanels(&work.mulArgs, dst[p*PanelRows:], stride, w, x, p, n)
		p += n
	}
	if whole < p1 {
		s.mulLast(work, dst, stride, w, x)
	}
	work.mulArgs, work.part = mulArgs{}, Activations{}
	works.Put(work)
}

// panelsAtOnce is how many panels are multiplied by all rows before the next ones are: all of them where one tile takes all
// rows, else what stays in cache from tile to tile, so that a weight is read from memory once.
func (s *Set) panelsAtOnce(w *Weight, rows int) int {
	const near = 64 << 10 // of the second cache, what weights may take
	if rows <= 2 || rows == s.mul[w.Type.id][0].rows {
		return w.Panels()
	}
	return max(1, near/w.Type.panelBytes(w.Cols))
}

// mulLast does the last panel where it is not full: kernels write whole panels, so it goes through a buffer.
func (s *Set) mulLast(work *mulWork, dst []float32, stride int, w *Weight, x *Activations) {
	panel := w.Panels() - 1
	from, n, blocks := panel*PanelRows, w.Rows-panel*PanelRows, x.Cols/QuantLen
	part := &work.part
	for r := 0; r < x.Rows; r += lastRows {
		*part = Activations{Rows: min(lastRows, x.Rows-r), Cols: x.Cols, F32: x.F32[r*x.Cols:]}
		if w.Type.Quantized {
			part.Q, part.Scale, part.QSum = x.Q[r*x.Cols:], x.Scale[r*blocks:], x.QSum[r*blocks:]
		}
		s.mulPanels(&work.mulArgs, work.last[:], PanelRows, w, part, panel, 1)
		for i := range part.Rows {
			copy(dst[(r+i)*stride+from:][:n], work.last[i*PanelRows:])
		}
	}
}

// mulPanels does whole panels [p,p+n), tile after tile of rows. Every slice that a kernel gets is cut to what it touches,
// so that one that is too short panics here.
func (s *Set) mulPanels(a *mulArgs, dst []float32, stride int, w *Weight, x *Activations, p, n int) {
	a.stride, a.panelBytes, a.panels, a.cols = stride, w.Type.panelBytes(w.Cols), n, x.Cols
	a.w = w.Data[p*a.panelBytes:][:n*a.panelBytes]
	if w.Type.Quantized {
		a.blocks = x.Cols / QuantLen
	}
	tiles := s.mul[w.Type.id]
	for r := 0; r < x.Rows; {
		for tiles[0].rows > x.Rows-r {
			tiles = tiles[1:]
		}
		t := tiles[0]
		a.dst = dst[r*stride:][:(t.rows-1)*stride+n*PanelRows]
		if w.Type.Quantized {
			a.q = x.Q[r*x.Cols:][:t.rows*x.Cols]
			a.scale = x.Scale[r*a.blocks:][:t.rows*a.blocks]
			a.qsum = x.QSum[r*a.blocks:][:t.rows*a.blocks]
		} else {
			a.x = x.F32[r*x.Cols:][:t.rows*x.Cols]
		}
		t.mul(a)
		r += t.rows
	}
}
