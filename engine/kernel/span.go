package kernel

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
)

// SegmentTokens is how many keys make a segment. Segments start at multiples of it, whatever the page size.
const SegmentTokens = 512

// Span is one unit of attention: query rows that share one KV head, over one segment of one sequence. Spans of different
// heads or segments can be worked on by different threads; [Set.Merge] joins the segments of a row.
//
// A span reads every filled block of K and every filled slot of V of its pages exactly once, also those that lie behind its
// rows' positions, so that the sums that it takes cover the pages whole. It takes them in the pass that loads: few rows are
// multiplied straight by the lines of a page, many by a copy that the pass widens into scratch, which is all that the rows
// then see. Either way a line is loaded for its sum behind the loads that are used: right behind them, but for V that is
// widened, where it is when the part of up to 64 tokens is done. A thread's loads are seen in order: what the multiplication
// saw changed, the sum has too.
//
// Keys behind a row's position count exactly nothing, whatever bits they have: their scores are set to minus infinity
// before anything looks at them, and their values are not multiplied.
type Span struct {
	Layout      *bulkhead.Layout
	Layer, Head int
	Pages       [][]byte // all pages of the sequence: page i holds positions from i*PageTokens. PageTokens divides 512
	Len         int      // filled positions of the sequence, those appended in this step included
	Segment     int      // keys from Segment*512 to min(Len, that + 512); there must be one

	Rows    int
	Q       []float32 // row r at r*QStride, HeadSize long: turned by rope, not scaled
	QStride int
	Pos     []int32 // row r attends over the keys up to Pos[r]
	Scale   float32 // of scores

	Max, Den []float32      // out, by row: largest score and sum of exponentials; -Inf and 0 where nothing was attended
	Acc      []float32      // out: row r at r*HeadSize: sum of exponentials times values
	SumK     []bulkhead.Sum // in and out, by page of the segment: what was read of this head is added, without FilledTerm
	SumV     []bulkhead.Sum
}

// Scratch is the working memory of one thread's spans.
type Scratch struct {
	size, stride int       // HeadSize and HeadStride
	k, v         []float32 // a segment, widened: blocks of K as in a page, slots of V
	score        []float32 // groupRows x 512
	acc          []float32 // groupRows x stride
	limit        [groupRows]int
	foldK, foldV folding
	args         linesArgs
	parts        [SegmentTokens / bulkhead.BlockTokens]part
}

// groupRows is how many rows keep their scores at once.
const groupRows = 48

// NewScratch is scratch for spans of a layout.
func NewScratch(l *bulkhead.Layout) *Scratch {
	return &Scratch{
		size:   l.HeadSize,
		stride: l.HeadStride(),
		k:      make([]float32, SegmentTokens*l.HeadSize),
		v:      make([]float32, SegmentTokens*l.HeadStride()),
		score:  make([]float32, groupRows*SegmentTokens),
		acc:    make([]float32, groupRows*l.HeadStride()),
	}
}

// part is up to 64 keys of a segment that lie in one page: what is worked on at once, while the next is fetched.
type part struct {
	at, keys int    // first key, counted from the segment's start, and how many
	page     int    // of the segment
	slot     int    // of its page at which it starts
	k, v     []byte // whole blocks of K, filled slots of V
}

// blocks is how many blocks of K the part has.
func (p *part) blocks() int { return (p.keys + bulkhead.BlockTokens - 1) / bulkhead.BlockTokens }

// firstRow is the row of its page's sum at which the part's K starts.
func (p *part) firstRow() int { return p.slot / bulkhead.BlockTokens * bulkhead.BlockRows }

// partTokens is the largest part.
const partTokens = 64

// cut cuts the segment into parts.
func (sp *Span) cut(s *Scratch) []part {
	l, keys := sp.Layout, sp.keys()
	offK, offV := l.KOffset(sp.Layer, sp.Head), l.VOffset(sp.Layer, sp.Head)
	pages, parts := sp.Pages[sp.Segment*SegmentTokens/l.PageTokens:], s.parts[:0]
	line := s.size * bulkhead.LineBytes // bytes of a block of K
	for i, at := 0, 0; at < keys; i, at = i+1, at+l.PageTokens {
		filled := min(l.PageTokens, keys-at)
		for from := 0; from < filled; from += partTokens {
			n := min(partTokens, filled-from)
			p := part{at: at + from, keys: n, page: i, slot: from}
			p.k = pages[i][offK+from/bulkhead.BlockTokens*line:][:p.blocks()*line]
			p.v = pages[i][offV+from*s.stride*2:][:n*s.stride*2]
			parts = append(parts, p)
		}
	}
	return parts
}

// keys is how many keys the segment has.
func (sp *Span) keys() int { return min(SegmentTokens, sp.Len-sp.Segment*SegmentTokens) }

// limit is how many keys of the segment row r attends over.
func (sp *Span) limit(r int) int {
	return max(0, min(sp.keys(), int(sp.Pos[r])+1-sp.Segment*SegmentTokens))
}

// check panics where the span is not one.
func (sp *Span) check(s *Scratch, guarded bool) {
	l := sp.Layout
	switch {
	case SegmentTokens%l.PageTokens != 0:
		panic(fmt.Sprintf("kernel: pages of %d tokens do not divide segments of %d", l.PageTokens, SegmentTokens))
	case sp.Segment < 0 || sp.keys() < 1:
		panic(fmt.Sprintf("kernel: segment %d of %d tokens", sp.Segment, sp.Len))
	case sp.Head < 0 || sp.Head >= l.KVHeads || sp.Layer < 0 || sp.Layer >= l.Layers:
		panic(fmt.Sprintf("kernel: head %d of layer %d", sp.Head, sp.Layer))
	case s.size != l.HeadSize:
		panic(fmt.Sprintf("kernel: scratch for heads of %d, heads have %d", s.size, l.HeadSize))
	case sp.Rows < 1 || len(sp.Pos) < sp.Rows || len(sp.Max) < sp.Rows || len(sp.Den) < sp.Rows,
		len(sp.Acc) < sp.Rows*l.HeadSize, len(sp.Q) < (sp.Rows-1)*sp.QStride+l.HeadSize:
		panic(fmt.Sprintf("kernel: span of %d rows with room for fewer", sp.Rows))
	case guarded && min(len(sp.SumK), len(sp.SumV))*l.PageTokens < sp.keys():
		panic(fmt.Sprintf("kernel: span of %d keys with %d and %d sums", sp.keys(), len(sp.SumK), len(sp.SumV)))
	}
}
