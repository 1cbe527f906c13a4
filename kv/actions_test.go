package kv

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
)

// The actions of the model: each is done to the real pool and on paper.

func (m *model) Begin(t *rapid.T) {
	d := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "domain")
	tokens := drawTokens(t, 70)
	s := &mseq{real: m.rig.Begin(m.domains[d], tokens), domain: d}
	for end := 16; end <= len(tokens); end += 16 {
		p := m.find[key(d, tokens[:end])]
		if p == nil {
			break
		}
		m.pin(p)
		s.pages = append(s.pages, p)
		s.tokens = tokens[:end:end]
	}
	m.seqs = append(m.seqs, s)
}

func (m *model) pick(t *rapid.T, ok func(*mseq) bool) *mseq {
	var fit []*mseq
	for _, s := range m.seqs {
		if ok(s) {
			fit = append(fit, s)
		}
	}
	if len(fit) == 0 {
		t.Skip("no sequence fits")
	}
	return rapid.SampledFrom(fit).Draw(t, "sequence")
}

func idle(s *mseq) bool { return s.append == nil && !s.real.Dead() }

func (m *model) Grow(t *rapid.T) {
	s := m.pick(t, idle)
	to := rapid.IntRange(1, 80).Draw(t, "to")
	need := max(0, small.Pages(bulkhead.Tokens(to))-len(s.pages))
	want := need <= m.free+m.doubted+len(m.lru)
	if got := m.rig.Grow(s.real, bulkhead.Tokens(to)); got != want {
		t.Fatalf("grow by %d pages: %v, want %v", need, got, want)
	}
	for i := 0; want && i < need; i++ {
		s.pages = append(s.pages, m.take())
	}
}

// Step is a whole step, or its first half where it is drawn so.
func (m *model) Step(t *rapid.T) {
	s := m.pick(t, func(s *mseq) bool { return idle(s) && len(s.pages)*16 > len(s.tokens) })
	tokens := drawTokens(t, len(s.pages)*16-len(s.tokens))
	m.rig.t = t
	if v := s.real.Check(); v != nil {
		t.Fatal(v)
	}
	s.append, s.open = s.real.Append(tokens), tokens
	var v *bulkhead.Violation
	for layer := 0; layer < small.Layers && v == nil; layer++ {
		m.rig.write(s.append, layer)
		v = m.rig.read(s.append, layer)
	}
	if at := hurt(s); (v != nil) != (at >= 0) || v != nil && !s.pages[v.At].hurt {
		t.Fatalf("page %d is damaged, found %v", at, v)
	}
	if v != nil {
		s.append.Fail(v)
		s.append = nil
		m.spoil(s.pages[v.At])
		return
	}
	if rapid.Bool().Draw(t, "whole") {
		m.done(s)
	}
}

// hurt is the first damaged page of a sequence, -1 where none is.
func hurt(s *mseq) int { return slices.IndexFunc(s.pages, func(p *mpage) bool { return p.hurt }) }

func (m *model) done(s *mseq) {
	s.append.Done()
	s.append = nil
	before := len(s.tokens)
	s.tokens = append(s.tokens, s.open...)
	for at := before / 16; at*16 < len(s.tokens); at++ {
		s.pages[at].doubted = false
	}
	for end := (before/16 + 1) * 16; end <= len(s.tokens); end += 16 {
		m.publish(s.pages[end/16-1], key(s.domain, s.tokens[:end]))
	}
}

func (m *model) Done(t *rapid.T) {
	m.done(m.pick(t, func(s *mseq) bool { return s.append != nil }))
}

func (m *model) GiveUp(t *rapid.T) {
	s := m.pick(t, func(s *mseq) bool { return s.append != nil })
	s.append.Fail(nil)
	s.append = nil
}

// Flip damages one bit of what a sequence holds, and whoever shares the page or finds it later holds.
func (m *model) Flip(t *rapid.T) {
	s := m.pick(t, func(s *mseq) bool { return idle(s) && len(s.tokens) > 0 && hurt(s) < 0 })
	at := rapid.IntRange(0, (len(s.tokens)-1)/16).Draw(t, "at")
	s.real.Pages()[at][small.KOffset(rapid.IntRange(0, 1).Draw(t, "layer"), 0)] ^= 4
	s.pages[at].hurt = true
}

func (m *model) Release(t *rapid.T) {
	s := m.pick(t, func(s *mseq) bool { return true })
	dead, full := s.real.Dead(), len(s.tokens)/16
	gain, before := s.real.Gain(), m.rig.FreePages()
	s.real.Release()
	if got := m.rig.FreePages() - before; got != gain {
		t.Fatalf("release gave %d pages, Gain said %d", got, gain)
	}
	m.seqs = slices.DeleteFunc(m.seqs, func(o *mseq) bool { return o == s })
	for at := len(s.pages) - 1; at >= 0; at-- {
		p := s.pages[at]
		p.readers--
		if s.append != nil {
			p.writers++
		} else if at < full && !dead {
			m.publish(p, key(s.domain, s.tokens[:(at+1)*16]))
		}
		m.settle(p)
	}
	if s.append != nil {
		m.orphans = append(m.orphans, s)
	}
}

func (m *model) Drain(t *rapid.T) {
	if len(m.orphans) == 0 {
		t.Skip("none")
	}
	s := m.orphans[0]
	m.orphans = m.orphans[1:]
	if rapid.Bool().Draw(t, "done") {
		s.append.Done()
	} else {
		s.append.Fail(nil)
	}
	for at := len(s.pages) - 1; at >= 0; at-- {
		s.pages[at].writers--
		m.settle(s.pages[at])
	}
}

func (m *model) Reserve(t *rapid.T) {
	d := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "domain")
	r := &mres{domain: d, tokens: drawTokens(t, 70)}
	var need int
	for at := 0; at < len(r.tokens); at += 16 {
		end := min(at+16, len(r.tokens))
		p := m.find[key(d, r.tokens[:end])]
		if p != nil {
			m.pin(p)
		} else {
			need++
		}
		r.pages = append(r.pages, p)
		r.proven = append(r.proven, p != nil)
	}
	r.lands = make([]*Landing, len(r.pages))
	real, ok := m.rig.Reserve(m.domains[d], r.tokens)
	if want := need <= m.free+m.doubted+len(m.lru); ok != want {
		t.Fatalf("reserve %d pages: %v, want %v", need, ok, want)
	}
	for i, p := range r.pages {
		switch {
		case p == nil && ok:
			r.pages[i] = m.take()
		case p != nil && !ok:
			p.readers--
			m.settle(p)
		}
		if ok && real.Have(i) != r.proven[i] {
			t.Fatalf("page %d: have %v", i, real.Have(i))
		}
	}
	if ok {
		r.real = real
		m.res = append(m.res, r)
	}
}

// Land opens a landing, or copies and closes one that is open.
func (m *model) Land(t *rapid.T) {
	if len(m.res) == 0 {
		t.Skip("none")
	}
	r := rapid.SampledFrom(m.res).Draw(t, "reservation")
	at := rapid.IntRange(0, len(r.pages)-1).Draw(t, "at")
	switch {
	case r.proven[at] || r.pages[at].failed:
		t.Skip("there")
	case r.lands[at] == nil:
		r.lands[at] = r.real.Land(at)
		r.pages[at].writers++
		return
	}
	l := r.lands[at]
	r.lands[at] = nil
	r.pages[at].writers--
	source := newRig(t, small, 5, Options{})
	copy(l.Bytes(), source.compute(m.domains[r.domain], r.tokens, 80).Pages()[at])
	switch rapid.SampledFrom([]string{"good", "good", "torn", "fenced"}).Draw(t, "copy") {
	case "good":
		if v := l.Prove(); v != nil {
			t.Fatal(v)
		}
		r.proven[at], r.pages[at].doubted = true, false
	case "torn":
		clear(l.Bytes()[small.VOffset(small.Layers-1, 0):])
		if v := l.Prove(); v == nil {
			t.Fatal("a torn page was proven")
		}
		if r.pages[at].doubted {
			m.spoil(r.pages[at])
		}
		r.pages[at].doubted, r.pages[at].failed = true, true
	case "fenced":
		l.Fence()
	}
}

func (m *model) Commit(t *rapid.T) {
	if len(m.res) == 0 {
		t.Skip("none")
	}
	r := rapid.SampledFrom(m.res).Draw(t, "reservation")
	s, err := r.real.Commit()
	if all := !slices.Contains(r.proven, false); (err == nil) != all {
		t.Fatalf("proven %v, commit: %v", r.proven, err)
	}
	if err != nil {
		return
	}
	m.res = slices.DeleteFunc(m.res, func(o *mres) bool { return o == r })
	m.seqs = append(m.seqs, &mseq{real: s, domain: r.domain, tokens: r.tokens, pages: r.pages})
	for end := 16; end <= len(r.tokens); end += 16 {
		m.publish(r.pages[end/16-1], key(r.domain, r.tokens[:end]))
	}
}

func (m *model) Abandon(t *rapid.T) {
	if len(m.res) == 0 {
		t.Skip("none")
	}
	r := rapid.SampledFrom(m.res).Draw(t, "reservation")
	r.real.Abandon()
	m.res = slices.DeleteFunc(m.res, func(o *mres) bool { return o == r })
	for at := len(r.pages) - 1; at >= 0; at-- {
		r.pages[at].readers--
		m.settle(r.pages[at])
		if r.lands[at] != nil {
			m.fenced, m.fencedAt = append(m.fenced, r.lands[at]), append(m.fencedAt, r.pages[at])
		}
	}
}

// Fence closes a landing whose reservation is gone, after it has written once more.
func (m *model) Fence(t *rapid.T) {
	if len(m.fenced) == 0 {
		t.Skip("none")
	}
	for i := range m.fenced[0].Bytes() {
		m.fenced[0].Bytes()[i] = 0xaa
	}
	m.fenced[0].Fence()
	p := m.fencedAt[0]
	m.fenced, m.fencedAt = m.fenced[1:], m.fencedAt[1:]
	p.writers--
	m.settle(p)
}
