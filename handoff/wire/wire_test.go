package wire

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
)

// Whatever a source says of an end, a target can read it; and what fits, it reads as it was.
func TestStopOfAnyEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringN(1100, 1200, -1), rapid.Just("a\nb\xff\x1b[2J"))
		count := rapid.OneOf(rapid.IntRange(0, 1<<20), rapid.SampledFrom([]int{-1, math.MinInt, math.MaxInt}))
		why := &bulkhead.End{Reason: bulkhead.Reason(rapid.IntRange(-1, 9).Draw(t, "reason")),
			Prompt: bulkhead.Tokens(count.Draw(t, "prompt")), Cached: bulkhead.Tokens(count.Draw(t, "cached"))}
		if rapid.Bool().Draw(t, "refusal") {
			why.Refusal = &bulkhead.Refusal{Code: bulkhead.Code(text.Draw(t, "code")), Message: text.Draw(t, "message"), Param: text.Draw(t, "param"),
				Limit: bulkhead.Tokens(count.Draw(t, "limit")), RetryAfter: time.Duration(count.Draw(t, "retry"))}
		}
		if rapid.Bool().Draw(t, "err") {
			why.Err = errors.New(text.Draw(t, "err text"))
		}
		f, err := NewReader(bytes.NewReader(AppendStop(nil, 5, why))).Next()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseStop(f)
		if err != nil {
			t.Fatal(err)
		}
		if known := why.Reason >= bulkhead.Stopped && why.Reason <= bulkhead.HandedOver; (got != nil) != known {
			t.Fatalf("reason %v became %v", why.Reason, got)
		}
		if got != nil && (got.Reason == bulkhead.Refused) != (got.Refusal != nil) {
			t.Fatalf("reason %v, refusal %v", got.Reason, got.Refusal)
		}
		again := AppendStop(nil, 5, got)
		if !bytes.Equal(again, AppendStop(nil, 5, why)) {
			t.Fatal("what was read is written otherwise")
		}
	})
}

// A refusal keeps its code, message, field and numbers; a violation at the source is one at the target.
func TestStopKeepsReason(t *testing.T) {
	parse := func(why *bulkhead.End) *bulkhead.End {
		f, err := NewReader(bytes.NewReader(AppendStop(nil, 5, why))).Next()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseStop(f)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := parse(refusal()); *got.Refusal != *refusal().Refusal || got.Prompt != 5000 {
		t.Errorf("got %+v", got.Refusal)
	}
	v := parse(&bulkhead.End{Reason: bulkhead.Violated, Err: &bulkhead.Violation{Page: 4, Part: bulkhead.PartK}})
	if !errors.Is(v.Err, bulkhead.ErrViolation) {
		t.Errorf("%v is no violation", v.Err)
	}
	if f := parse(&bulkhead.End{Reason: bulkhead.Failed, Err: errors.New("x")}); errors.Is(f.Err, bulkhead.ErrViolation) || f.Err.Error() != "x" {
		t.Errorf("got %v", f.Err)
	}
}

// Each difference is named with both values.
func TestCompare(t *testing.T) {
	for _, x := range []struct {
		code   Code
		change func(h *Hello)
		words  []string
	}{
		{CodeRole, func(h *Hello) { h.Role = Target }, []string{"target"}},
		{CodeModel, func(h *Hello) { h.Fingerprint[0] = 9 }, []string{"09f1f2", "f0f1f2"}},
		{CodeKVType, func(h *Hello) { h.KVType = 2 }, []string{"type 2", "worker 1"}},
		{CodeLayout, func(h *Hello) { h.Layout.Layers = 31 }, []string{"31 layers", "30 of 3"}},
		{CodeLayout, func(h *Hello) { h.Layout.KVHeads = 4 }, []string{"4 KV heads", "30 of 3"}},
		{CodeLayout, func(h *Hello) { h.Layout.HeadSize = 32 }, []string{"heads of 32", "of 64"}},
		{CodePageSize, func(h *Hello) { h.Layout.PageTokens = 64 }, []string{"64 tokens", "of 32"}},
		{CodePageSize, func(h *Hello) { h.PageBytes = 64 }, []string{"64 bytes", "737856"}},
		{CodeLimit, func(h *Hello) { h.InFlight = 100 }, []string{"100 bytes", "737856"}},
	} {
		peer := exampleHello()
		peer.Role = Source
		if e := exampleHello().Compare(peer); e != nil {
			t.Fatal(e)
		}
		x.change(peer)
		e := exampleHello().Compare(peer)
		if e == nil || e.Code != x.code {
			t.Errorf("want %v, got %v", x.code, e)
			continue
		}
		for _, w := range x.words {
			if !strings.Contains(e.Text, w) {
				t.Errorf("%q does not say %q", e.Text, w)
			}
		}
	}
}

// A proof is of one use, one secret and one connection.
func TestProofs(t *testing.T) {
	base := NewTranscript([]byte("ab"), []byte("c"), []byte("k"))
	secret := [32]byte{1}
	p := base.Prove(&secret, ProofTarget)
	for name, q := range map[string]Proof{
		"sent back":         base.Prove(&secret, ProofSource),
		"the ring's":        base.Prove(&secret, ProofRing),
		"another secret":    base.Prove(&[32]byte{2}, ProofTarget),
		"another boundary":  NewTranscript([]byte("a"), []byte("bc"), []byte("k")).Prove(&secret, ProofTarget),
		"another channel":   NewTranscript([]byte("ab"), []byte("c"), nil).Prove(&secret, ProofTarget),
		"exchanged HELLOs":  NewTranscript([]byte("c"), []byte("ab"), []byte("k")).Prove(&secret, ProofTarget),
		"another HELLO":     NewTranscript([]byte("aB"), []byte("c"), []byte("k")).Prove(&secret, ProofTarget),
		"another's channel": NewTranscript([]byte("ab"), []byte("c"), []byte("K")).Prove(&secret, ProofTarget),
	} {
		if p.Equal(q) {
			t.Errorf("%s: the proof is the same", name)
		}
	}
	if !p.Equal(base.Prove(&secret, ProofTarget)) {
		t.Error("a proof is not itself")
	}
}

// Random bytes, and vectors that were tampered with, never panic and never make the reader allocate.
func FuzzReader(f *testing.F) {
	for _, all := range []map[string]vector{good(), bad()} {
		for _, v := range all {
			f.Add(v.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rd := NewReader(bytes.NewReader(data))
		for taken := 0; ; {
			frame, err := rd.Next()
			if err != nil {
				var e *Error
				if !errors.As(err, &e) && err != io.EOF && err != io.ErrUnexpectedEOF {
					t.Fatalf("error %T", err)
				}
				return
			}
			_, again, err := reencode(frame)
			raw := data[taken : taken+HeaderBytes+len(frame.Body)]
			if err == nil && !bytes.Equal(again, raw) {
				t.Fatalf("%x is written as %x", raw, again)
			}
			if taken += len(raw); len(rd.buf) > 2*bufferBytes {
				t.Fatal("the buffer has grown")
			}
		}
	})
}
