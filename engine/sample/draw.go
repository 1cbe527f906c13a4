package sample

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/bulkhead-llm/bulkhead"
)

// buffer is the working memory of one draw.
type buffer struct {
	logits []float32
	weight []float32
	blocks []float64 // sums of weights
	some   []candidate
	border []candidate
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// candidate is a token that may be drawn: its logit, and its weight once that is known.
type candidate struct {
	logit, weight float32
	token         bulkhead.Token
}

// better orders candidates: most likely first, of equals the lowest id.
func better(a, b candidate) int {
	if c := cmp.Compare(b.logit, a.logit); c != 0 {
		return c
	}
	return cmp.Compare(a.token, b.token)
}

func (b *buffer) copy(logits []float32) []float32 {
	b.logits = append(b.logits[:0], logits...)
	return b.logits
}

// draw draws from logits whose largest is top; u is uniform in [0,1).
func (b *buffer) draw(logits []float32, top float32, p *bulkhead.Sampling, u float64) bulkhead.Token {
	perT := 1 / float64(p.Temperature)
	cutK := p.TopK > 0 && p.TopK < len(logits)
	cutP := p.TopP > 0 && p.TopP < 1
	if !cutK && !cutP && p.MinP == 0 {
		return b.drawAny(logits, top, perT, u)
	}
	least := math.Inf(-1) // what min_p asks for, as a logit
	if p.MinP > 0 {
		least = float64(top) + math.Log(float64(p.MinP))/perT
	}
	if cutK {
		b.topK(logits, p.TopK, least)
	} else {
		b.all(logits, least)
	}
	total := b.weigh(top, perT)
	if cutP {
		total = b.topP(total, float64(p.TopP), top, perT)
	}
	u *= total
	for _, c := range b.some {
		if u -= float64(c.weight); u < 0 {
			return c.token
		}
	}
	return b.mostLikely() // u was within rounding of the total
}

// weigh gives the candidates their weights, that of the most likely token being 1, and returns the sum.
func (b *buffer) weigh(top float32, perT float64) (total float64) {
	for i := range b.some {
		c := &b.some[i]
		c.weight = float32(exp((float64(c.logit) - float64(top)) * perT))
		total += float64(c.weight)
	}
	return total
}

// drawAny draws from all tokens. Their weights are added up in blocks, so that what is drawn is looked for in one of them.
func (b *buffer) drawAny(logits []float32, top float32, perT, u float64) bulkhead.Token {
	const block = 256
	b.weight = slices.Grow(b.weight[:0], len(logits))[:len(logits)]
	b.blocks = b.blocks[:0]
	var total float64
	for at := 0; at < len(logits); at += block {
		end := min(len(logits), at+block)
		sum := weights(b.weight[at:end], logits[at:end], float64(top), perT)
		b.blocks = append(b.blocks, sum)
		total += sum
	}
	u *= total
	last := len(b.blocks) - 1
	for i, sum := range b.blocks {
		if u < sum || i == last {
			at := i * block
			return bulkhead.Token(at + pick(b.weight[at:min(len(logits), at+block)], u))
		}
		u -= sum
	}
	panic("sample: no logits")
}

// pick is the place at which the sum of weights passes u; where rounding keeps it from that, the largest one's.
func pick(weights []float32, u float64) int {
	best := 0
	for i, w := range weights {
		if u -= float64(w); u < 0 {
			return i
		}
		if w > weights[best] {
			best = i
		}
	}
	return best
}

// all collects the tokens with at least this logit.
func (b *buffer) all(logits []float32, least float64) {
	b.some = b.some[:0]
	for i, l := range logits {
		if float64(l) >= least {
			b.some = append(b.some, candidate{logit: l, token: bulkhead.Token(i)})
		}
	}
}

// topK collects the k most likely tokens with at least this logit, in a heap with the worst at its root.
func (b *buffer) topK(logits []float32, k int, least float64) {
	h := b.some[:0]
	for i, l := range logits {
		switch {
		case float64(l) < least:
		case len(h) < k:
			h = append(h, candidate{logit: l, token: bulkhead.Token(i)})
			if len(h) == k {
				for root := k/2 - 1; root >= 0; root-- {
					sink(h, root)
				}
			}
		case l > h[0].logit: // an equal one has a higher id than any in the heap
			h[0] = candidate{logit: l, token: bulkhead.Token(i)}
			sink(h, 0)
		}
	}
	b.some = h
}

// sink restores the heap below a place whose candidate may be better than its children.
func sink(h []candidate, at int) {
	for {
		child := 2*at + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && better(h[child], h[child+1]) < 0 {
			child++
		}
		if better(h[at], h[child]) >= 0 {
			return
		}
		h[at], h[child] = h[child], h[at]
		at = child
	}
}

// topP keeps the most likely candidates that together make up the share p of the total weight, and returns their weight.
// They are counted in bins of likelihood first, so that only the bin in which the share is reached has to be sorted.
func (b *buffer) topP(total, p float64, top float32, perT float64) float64 {
	const bins, perNat = 512, 16
	bin := func(logit float32) int {
		return int(min(bins-1, (float64(top)-float64(logit))*perT*perNat))
	}
	var weight [bins]float64
	for _, c := range b.some {
		weight[bin(c.logit)] += float64(c.weight)
	}
	var sum float64
	last := 0
	for last < bins-1 && sum+weight[last] < p*total {
		sum += weight[last]
		last++
	}
	kept := b.some[:0]
	b.border = b.border[:0]
	for _, c := range b.some {
		switch i := bin(c.logit); {
		case i < last:
			kept = append(kept, c)
		case i == last:
			b.border = append(b.border, c)
		}
	}
	slices.SortFunc(b.border, better)
	for _, c := range b.border {
		kept = append(kept, c)
		if sum += float64(c.weight); sum >= p*total {
			break
		}
	}
	b.some = kept
	return sum
}

func (b *buffer) mostLikely() bulkhead.Token {
	best := b.some[0]
	for _, c := range b.some[1:] {
		if better(c, best) < 0 {
			best = c
		}
	}
	return best.token
}
