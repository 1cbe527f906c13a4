package kv

import "github.com/bulkhead-llm/bulkhead"

// prove compares a page with what its reader expects and its bytes with its seal. It is the only pass over a page's bytes
// that is not attention itself: at the end of a transfer, while the page is still in cache.
//
// The sums of a page that another worker computed are known from that worker only, so its seal is believed for them, once
// the bytes agree. What the reader knows by itself it does not read from the seal: identity and number of tokens. Nor is it
// enough that the sums agree in the last, partly filled block of K: the places of tokens to come must be zero, because
// later appends count from there.
func (p *Pool) prove(i bulkhead.PageIndex, at int, id bulkhead.Identity, filled int) *bulkhead.Violation {
	return p.proveExamined(i, at, id, filled, nil)
}

// proveExamined is prove with sums that were taken already, in each layer K, then V; nil: they are taken here.
func (p *Pool) proveExamined(i bulkhead.PageIndex, at int, id bulkhead.Identity, filled int, sums []bulkhead.Sum) *bulkhead.Violation {
	page := p.view(i)
	seal := p.layout.SealOf(page)
	if seal.Identity() != id || seal.Filled() != filled {
		return p.sealViolation(i, at, id, filled)
	}
	for layer := range p.layout.Layers {
		var k, v bulkhead.Sum
		if sums != nil {
			k, v = sums[2*layer], sums[2*layer+1]
		} else {
			k, v = p.summer.SumK(&p.layout, page, layer, filled), p.summer.SumV(&p.layout, page, layer, filled)
		}
		switch {
		case k != seal.K(layer):
			return sumViolation(i, at, layer, bulkhead.PartK, seal.K(layer), k)
		case v != seal.V(layer):
			return sumViolation(i, at, layer, bulkhead.PartV, seal.V(layer), v)
		case !p.laterLanesZero(page, layer, filled):
			return &bulkhead.Violation{Page: i, At: at, Layer: layer, Part: bulkhead.PartK,
				Expected: "zero behind the filled tokens", Found: "something else"}
		}
	}
	return nil
}

func sumViolation(i bulkhead.PageIndex, at, layer int, part bulkhead.Part, want, got bulkhead.Sum) *bulkhead.Violation {
	return &bulkhead.Violation{Page: i, At: at, Layer: layer, Part: part, Expected: want.String(), Found: got.String()}
}

// laterLanesZero reports whether the last block of K holds nothing of tokens to come.
func (p *Pool) laterLanesZero(page []byte, layer, filled int) bool {
	used := filled % bulkhead.BlockTokens
	if used == 0 {
		return true
	}
	block := p.layout.HeadSize * bulkhead.LineBytes
	for head := range p.layout.KVHeads {
		off := p.layout.KOffset(layer, head) + filled/bulkhead.BlockTokens*block
		for d := range p.layout.HeadSize {
			if !isZero(page[off+d*bulkhead.LineBytes+2*used : off+(d+1)*bulkhead.LineBytes]) {
				return false
			}
		}
	}
	return true
}

// sealOfAnother compares what a page's seal says of its sums with the pool's own books: its bytes may agree with the seal
// and not be those that were appended.
func (p *Pool) sealOfAnother(i bulkhead.PageIndex, at int) *bulkhead.Violation {
	seal, want := p.seal(i), p.sumsOf(i)
	for layer := range p.layout.Layers {
		if k := seal.K(layer); k != want[2*layer] {
			return sumViolation(i, at, layer, bulkhead.PartK, want[2*layer], k)
		}
		if v := seal.V(layer); v != want[2*layer+1] {
			return sumViolation(i, at, layer, bulkhead.PartV, want[2*layer+1], v)
		}
	}
	return nil
}

// tidy takes the proven sums into the books, writes the page's seal anew and clears what lies behind its tokens, so that
// nothing that the sender chose and no sum covers stays.
func (p *Pool) tidy(i bulkhead.PageIndex, id bulkhead.Identity, filled int, sums []bulkhead.Sum) {
	page := p.view(i)
	l := p.layout
	copy(p.sumsOf(i), sums)
	p.rebuild(i, id, filled)
	blocks := (filled + bulkhead.BlockTokens - 1) / bulkhead.BlockTokens
	for layer := range l.Layers {
		for head := range l.KVHeads {
			k, v := l.KOffset(layer, head), l.VOffset(layer, head)
			clear(page[k+blocks*l.HeadSize*bulkhead.LineBytes : k+l.KHeadBytes()])
			clear(page[v+filled*l.HeadStride()*2 : v+l.VHeadBytes()])
		}
	}
}

// rebuild writes into a seal the sums of the books and what the reader knows by itself, and nothing else.
func (p *Pool) rebuild(i bulkhead.PageIndex, id bulkhead.Identity, filled int) {
	seal := p.seal(i)
	clear(seal.Bytes())
	seal.SetIdentity(id)
	seal.SetFilled(filled)
	setSums(seal, p.sumsOf(i))
}

func setSums(seal bulkhead.Seal, sums []bulkhead.Sum) {
	for i := 0; i < len(sums); i += 2 {
		seal.SetK(i/2, sums[i])
		seal.SetV(i/2, sums[i+1])
	}
}
