package kernel

import (
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
)

func TestSelfTest(t *testing.T) {
	for _, s := range append(native(), goSet) {
		if err := s.selfTest(); err != nil {
			t.Error(err)
		}
	}
	if len(Failed()) > 0 {
		t.Error(Failed())
	}
}

// Any one kernel that computes something else is found.
func TestSelfTestFinds(t *testing.T) {
	for name, spoil := range map[string]func(s *Set){
		"Q4_1": func(s *Set) { s.mul[q4_1Type] = []tile{{1, func(a *mulArgs) { mulQ4_1(a); a.dst[3] += 0.01 }}} },
		"quantize": func(s *Set) {
			s.quantize = func(q []int8, d []float32, n []int32, x []float32) { quantize(q, d, n, x); q[9]++ }
		},
		"attention: sums": func(s *Set) {
			s.widenBlocks = func(dst []float32, src []byte, lines int) bulkhead.Lines {
				l := widenBlocks(dst, src, lines)
				l.B[2]++
				return l
			}
		},
		"attention: value": func(s *Set) {
			s.softmax = func(x []float32, n int, scale float32) (m, d float32) {
				m, d = softmax(x, n, scale)
				return m, d * 1.01
			}
		},
		"store: sums": func(s *Set) {
			s.sumColumns = func(data []byte, pieces int) bulkhead.Columns { c := sumColumns(data, pieces); c.C[1]++; return c }
		},
		"store: other": func(s *Set) {
			s.storeV = func(dst []byte, v []float32) bulkhead.Lines { l := storeV(dst, v); dst[7] ^= 1; return l }
		},
		"store": func(s *Set) {
			s.storeK = func(lines []byte, in int, k []float32) (uint64, uint64) {
				a, b := storeK(lines, in, k)
				return a, b + 1
			}
		},
		"Rope":  func(s *Set) { s.rope = func(x, cos, sin []float32) { rope(x, cos, sin); x[11]++ } },
		"panic": func(s *Set) { s.siluMul = func(dst, gate, up []float32) { panic("panic") } },
	} {
		s := *goSet
		spoil(&s)
		if err := s.selfTest(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s spoilt: %v", name, err)
		}
	}
}

func TestNamed(t *testing.T) {
	for _, s := range All() {
		if got, err := Named(s.Name); got != s || err != nil {
			t.Errorf("%s: %v %v", s.Name, got, err)
		}
	}
	if _, err := Named("abacus"); err == nil || !strings.Contains(err.Error(), `"abacus"`) || !strings.Contains(err.Error(), "go") {
		t.Error(err)
	}
	if All()[len(All())-1] != goSet {
		t.Error("the Go set is not the last resort")
	}
	t.Setenv(Env, "go")
	if Best() != goSet {
		t.Error("the environment does not pick the set")
	}
	t.Setenv(Env, "abacus")
	if _, err := Named(""); err == nil {
		t.Error("the environment names a set that is not there: no error")
	}
	t.Setenv(Env, "")
	if Best() != All()[0] {
		t.Error("best is not the first")
	}
}

func BenchmarkSelfTest(b *testing.B) {
	for b.Loop() {
		if err := native()[0].selfTest(); err != nil {
			b.Fatal(err)
		}
	}
}
