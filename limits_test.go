package bulkhead

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func testLimits(window Tokens) Limits {
	return Limits{Window: window, PrefillPool: 4096, DecodePool: 4096, ModelWindow: 8192, PageTokens: 32,
		Queue: 1, QueueTenant: 1, Running: 1, Chunk: 1}
}

// Admission on both sides of every limit: one less, the limit, one more.
func TestAdmitBorders(t *testing.T) {
	l := testLimits(100)
	for _, c := range []struct {
		prompt int
		answer Tokens
		ok     bool
	}{
		{99, 0, true}, {100, 0, false}, {101, 0, false},
		{99, 1, true}, {98, 1, true}, {99, 2, false},
		{50, 49, true}, {50, 50, true}, {50, 51, false},
		{1, 99, true}, {1, 100, false}, {1, 1<<63 - 1, false},
		{0, 1, false}, {1, -1, false},
	} {
		adm, ref := l.Admit(Request{Prompt: make([]Token, c.prompt), MaxTokens: c.answer})
		if (ref == nil) != c.ok {
			t.Errorf("prompt %d, answer %d: refusal %v, want ok %v", c.prompt, c.answer, ref, c.ok)
			continue
		}
		if c.ok && adm.Request().MaxTokens < 1 {
			t.Errorf("prompt %d, answer %d: admitted with MaxTokens %d", c.prompt, c.answer, adm.Request().MaxTokens)
		}
	}
}

// Pools of which nothing is left refuse every request, and do not tell clients to send less.
func TestNoWindowLeft(t *testing.T) {
	for window := range Tokens(2) {
		_, ref := testLimits(window).Admit(Request{Prompt: make([]Token, 1)})
		if ref == nil || ref.Code != CodeUnavailable {
			t.Errorf("window %d: %v", window, ref)
		}
	}
}

// What is admitted fits the window and both pools, whatever the limits.
func TestAdmittedFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := testLimits(Tokens(rapid.IntRange(2, 5000).Draw(t, "window")))
		l.PrefillPool = Tokens(rapid.IntRange(1, 5000).Draw(t, "prefill"))
		l.DecodePool = Tokens(rapid.IntRange(1, 5000).Draw(t, "decode"))
		if l.Check() != nil {
			if l.Window <= l.FitWindow() {
				t.Fatalf("window %d fits %d and was refused", l.Window, l.FitWindow())
			}
			return
		}
		r := Request{Prompt: make([]Token, rapid.IntRange(0, 6000).Draw(t, "prompt")), MaxTokens: Tokens(rapid.IntRange(0, 6000).Draw(t, "answer"))}
		adm, ref := l.Admit(r)
		if ref != nil {
			return
		}
		n := Tokens(len(r.Prompt)) + adm.Request().MaxTokens
		if n > l.Window || n > l.PrefillPool || n > l.DecodePool {
			t.Fatalf("%d tokens admitted into %+v", n, l)
		}
	})
}

// Rule I7, every worker for itself: a prefill and a decode worker hold the window against their own pool alone, on both
// sides of its border, and a pair against both.
func TestRoles(t *testing.T) {
	for _, c := range []struct {
		role            Role
		prefill, decode Tokens
		fit             Tokens
	}{
		{RolePair, 1024, 2048, 1024}, {RolePair, 2048, 1024, 1024}, {RolePair, 1024, 0, 0},
		{RolePrefill, 1024, 0, 1024}, {RolePrefill, 1055, 64, 1024}, {RoleDecode, 0, 1024, 1024}, {RoleDecode, 64, 1087, 1056},
		{RolePrefill, 1 << 20, 0, 8192}, {RoleDecode, 0, 1 << 20, 8192},
	} {
		l := testLimits(0)
		l.Role, l.PrefillPool, l.DecodePool = c.role, c.prefill, c.decode
		if fit := l.FitWindow(); fit != c.fit {
			t.Errorf("%v of %d and %d: the window that fits is %d, want %d", c.role, c.prefill, c.decode, fit, c.fit)
		}
		for more, ok := range map[Tokens]bool{-1: true, 0: true, 1: false} {
			if l.Window = c.fit + more; l.Window >= 2 && (l.Check() == nil) != ok {
				t.Errorf("%v of %d and %d, window %d: %v", c.role, c.prefill, c.decode, l.Window, l.Check())
			}
		}
	}
	l := testLimits(100)
	if l.Role = RoleDecode + 1; l.Check() == nil {
		t.Error("an unknown role was taken")
	}
	l = testLimits(100)
	if l.HandoffTimeout = -1; l.Check() == nil {
		t.Error("a negative time-out was taken")
	}
}

// The refusal to start names both numbers, the flag and the way out.
func TestCheckSaysWhy(t *testing.T) {
	l := testLimits(4096)
	l.PrefillPool = 1024
	err := l.Check()
	if err == nil {
		t.Fatal("a window that no pool holds was taken")
	}
	for _, want := range []string{"4096", "1024", "--window", "--prefill-pool"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestZeroAdmittedPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an Admitted that Admit did not make was taken")
		}
	}()
	Admitted{}.Request()
}
