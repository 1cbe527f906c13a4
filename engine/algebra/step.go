package algebra

import (
	"encoding/binary"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/kv"
)

// Step computes the next tokens of each sequence, as engine.Runner says. A violation fails its own work only.
func (m *Model) Step(work []engine.Work, results []engine.Result) {
	for len(m.logits) < len(work) {
		m.logits = append(m.logits, make([]float32, m.vocab))
	}
	for i, w := range work {
		digest, v := m.run(w)
		results[i] = engine.Result{Violation: v}
		if v == nil && w.Logits {
			m.fill(m.logits[i], digest)
			results[i].Logits = m.logits[i]
		}
	}
}

// run computes one work and gives the digest of all that was read.
func (m *Model) run(w engine.Work) (uint64, *bulkhead.Violation) {
	if v := w.Seq.Check(); v != nil {
		return 0, v
	}
	m.pause()
	start := int(w.Seq.Len())
	var digest uint64
	for at := 0; at*m.layout.PageTokens < start; at++ {
		digest += m.read(w.Seq.Pages()[at], at, w.Seq.Filled(at))
	}
	a := w.Seq.Append(w.Tokens)
	for i, t := range w.Tokens {
		page, slot := a.Slot(i)
		m.write(a, i, t, page, slot, start+i, digest)
		digest += m.slot(page, slot, start+i) // as it lies in memory
	}
	m.pause()
	digest, v := m.readAll(a, w.Seq.Pages(), start+len(w.Tokens))
	if v != nil {
		a.Fail(v)
		return 0, v
	}
	a.Done()
	return digest, nil
}

// write stores one token's K and V in every layer and head and extends the seals by the values.
func (m *Model) write(a *kv.Append, i int, t bulkhead.Token, page []byte, slot, pos int, digest uint64) {
	l := m.layout
	for layer := range l.Layers {
		var sumK, sumV bulkhead.Sum
		for head := range l.KVHeads {
			k, v := m.values(digest, t, pos, layer, head)
			for d := range l.HeadSize {
				binary.LittleEndian.PutUint16(page[m.kAt(layer, head, slot, d):], k[d])
				binary.LittleEndian.PutUint16(page[m.vAt(layer, head, slot, d):], v[d])
			}
			sumK += l.AppendedK(head, slot, k)
			sumV += l.AppendedV(head, slot, v)
		}
		a.ExtendK(layer, i, sumK)
		a.ExtendV(layer, i, sumV)
	}
}

// readAll reads every page as it now lies, once: the digest and the sums are taken of the same copy.
func (m *Model) readAll(a *kv.Append, pages [][]byte, tokens int) (digest uint64, _ *bulkhead.Violation) {
	l := m.layout
	for at := range a.Pages() {
		filled := min(l.PageTokens, tokens-at*l.PageTokens)
		m.pause()
		copy(m.seen, pages[at])
		digest += m.read(m.seen, at, filled)
		m.pause()
		for layer := range l.Layers {
			k := l.SumK(m.seen, layer, filled) - bulkhead.FilledTerm(filled)
			v := l.SumV(m.seen, layer, filled) - bulkhead.FilledTerm(filled)
			if v := a.Compare(layer, at, k, v); v != nil {
				return 0, v
			}
		}
	}
	return digest, nil
}

// read is the part of the digest that lies in the page at a place of a sequence.
func (m *Model) read(page []byte, at, filled int) (digest uint64) {
	for slot := range filled {
		digest += m.slot(page, slot, at*m.layout.PageTokens+slot)
	}
	return digest
}

// slot is the part of the digest that lies in one slot.
func (m *Model) slot(page []byte, slot, pos int) (digest uint64) {
	l := m.layout
	k, v := m.kv[:l.HeadSize], m.kv[l.HeadSize:]
	for layer := range l.Layers {
		for head := range l.KVHeads {
			for d := range l.HeadSize {
				k[d] = half(page[m.kAt(layer, head, slot, d):])
				v[d] = half(page[m.vAt(layer, head, slot, d):])
			}
			digest += m.term(pos, layer, head, k, v)
		}
	}
	return digest
}

func (m *Model) kAt(layer, head, slot, d int) int {
	block := slot / bulkhead.BlockTokens * m.layout.HeadSize
	return m.layout.KOffset(layer, head) + ((block+d)*bulkhead.BlockTokens+slot%bulkhead.BlockTokens)*2
}

func (m *Model) vAt(layer, head, slot, d int) int {
	return m.layout.VOffset(layer, head) + (slot*m.layout.HeadStride()+d)*2
}
