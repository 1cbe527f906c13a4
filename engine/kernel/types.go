package kernel

import "fmt"

// PanelRows is how many rows of a weight lie side by side in a panel. Each is a lane of the kernels.
const PanelRows = 16

// QuantLen is how many columns share a scale, in every quantised type and in quantised activations.
const QuantLen = 32

// Type is a weight type: one row of the table below. It knows two forms of a matrix. The file's form is GGUF's: row after
// row, a row being blocks of BlockLen columns in BlockBytes. The packed form is for the kernels, whichever set: panels of
// 16 rows, the last one filled up with zeros, and within a panel
//
//	float types: for each column a line of the 16 rows' values
//	Q8_0:        for each 32 columns 16 scales (F16), then 8 lines: 16 rows x 4 columns
//	Q4_0:        for each 32 columns 16 scales (F16), then 4 lines: 16 rows x 4 bytes as in the file,
//	             4 columns in the low and the 4 that are 16 further on in the high halves
//	Q4_1:        as Q4_0, with 16 minima (F16) behind the scales
//
// so that a vector register holds 8 or 16 rows and no reduction crosses lanes.
type Type struct {
	Name       string
	GGML       uint32 // id in GGUF files
	BlockLen   int    // columns of a block
	BlockBytes int    // bytes of a block in the file
	Quantized  bool   // is multiplied by quantised activations

	id     typeID
	packed int                             // bytes of a block of one panel when packed
	block  func(dst []float32, src []byte) // widens one block
	pack   func(dst, src []byte, row int)  // places one block of one of the 16 rows
}

type typeID int

const (
	f32Type typeID = iota
	f16Type
	bf16Type
	q8_0Type
	q4_0Type
	q4_1Type
	numTypes
)

var types = [numTypes]*Type{
	f32Type:  {"F32", 0, 1, 4, false, f32Type, 64, blockF32, packF32},
	f16Type:  {"F16", 1, 1, 2, false, f16Type, 32, blockF16, packF16},
	bf16Type: {"BF16", 30, 1, 2, false, bf16Type, 32, blockBF16, packF16},
	q8_0Type: {"Q8_0", 8, 32, 34, true, q8_0Type, 32 + 512, blockQ8_0, packQ8_0},
	q4_0Type: {"Q4_0", 2, 32, 18, true, q4_0Type, 32 + 256, blockQ4_0, packQ4_0},
	q4_1Type: {"Q4_1", 3, 32, 20, true, q4_1Type, 64 + 256, blockQ4_1, packQ4_1},
}

// TypeOf finds a type by its id in GGUF files.
func TypeOf(ggml uint32) (*Type, bool) {
	for _, t := range types {
		if t.GGML == ggml {
			return t, true
		}
	}
	return nil, false
}

// Types lists all weight types.
func Types() []*Type { return types[:] }

func (t *Type) String() string { return t.Name }

// RowBytes is the size of a row in the file. It panics where cols is no multiple of BlockLen.
func (t *Type) RowBytes(cols int) int { return t.blocks(cols) * t.BlockBytes }

func (t *Type) blocks(cols int) int {
	if cols < 0 || cols%t.BlockLen != 0 {
		panic(fmt.Sprintf("kernel: a row of %d columns in %s, must be a multiple of %d", cols, t.Name, t.BlockLen))
	}
	return cols / t.BlockLen
}

// Row widens a row of the file's form; dst has its columns.
func (t *Type) Row(dst []float32, src []byte) {
	n := t.blocks(len(dst))
	src = src[:n*t.BlockBytes]
	for b := range n {
		t.block(dst[b*t.BlockLen:][:t.BlockLen], src[b*t.BlockBytes:][:t.BlockBytes])
	}
}

// PackedBytes is the size of a packed matrix.
func (t *Type) PackedBytes(rows, cols int) int { return panels(rows) * t.panelBytes(cols) }

func (t *Type) panelBytes(cols int) int { return t.blocks(cols) * t.packed }

// Pack packs src, a matrix in the file's form, into dst. Rows can be packed by many goroutines at once: a part that
// starts at a multiple of 16 rows packs into dst from PackedBytes of the rows before it.
func (t *Type) Pack(dst, src []byte, rows, cols int) {
	blocks, rowBytes, panel := t.blocks(cols), t.RowBytes(cols), t.panelBytes(cols)
	dst, src = dst[:t.PackedBytes(rows, cols)], src[:rows*rowBytes]
	if rows%PanelRows != 0 {
		clear(dst[len(dst)-panel:])
	}
	for r := range rows {
		to, from := dst[r/PanelRows*panel:][:panel], src[r*rowBytes:][:rowBytes]
		for b := range blocks {
			t.pack(to[b*t.packed:][:t.packed], from[b*t.BlockBytes:][:t.BlockBytes], r%PanelRows)
		}
	}
}

// Weight is a packed matrix.
type Weight struct {
	Type       *Type
	Rows, Cols int
	Data       []byte // PackedBytes of them, 64-byte aligned for speed
}

// Panels is how many panels of 16 rows the matrix has.
func (w *Weight) Panels() int { return panels(w.Rows) }

func panels(rows int) int { return (rows + PanelRows - 1) / PanelRows }
