package token

import "math"

// heap is a binary heap of work, the least key first. It is written out, not container/heap, since encoding pushes an
// element for each pair of neighbours, and boxing and calling for each of them costs more than the work itself.
type heap []item

// item is one merge that may be done. The key orders items, by what and by where (see key); the rest is the model's own.
type item struct {
	key     uint64
	a, b, c int32
}

// key puts the order of merging in front and the place in the text behind, so that the leftmost of equals is first.
func key(order uint32, left int32) uint64 { return uint64(order)<<32 | uint64(uint32(left)) }

// bestFirst turns a score into an order: the highest score comes first.
func bestFirst(score float32) uint32 {
	bits := math.Float32bits(score + 0) // -0 and 0 are one score
	if bits>>31 == 1 {
		return bits
	}
	return ^bits & (1<<31 - 1)
}

func (h *heap) push(x item) {
	s := append(*h, x)
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if s[parent].key <= x.key {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = x
	*h = s
}

func (h *heap) pop() item {
	s := *h
	top, last := s[0], len(s)-1
	x := s[last]
	s = s[:last]
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && s[child+1].key < s[child].key {
			child++
		}
		if x.key <= s[child].key {
			break
		}
		s[i] = s[child]
		i = child
	}
	if last > 0 {
		s[i] = x
	}
	*h = s
	return top
}
