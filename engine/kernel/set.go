package kernel

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/bulkhead-llm/bulkhead"
)

// Set is one implementation of all kernels. Its methods check lengths, cut the work into the tiles that its kernels take
// and call them; the kernels themselves are the fields, one row of code each. All methods may be called by many goroutines
// at once, as long as they write to different places.
type Set struct {
	Name string

	mul      [numTypes][]tile // by weight type: kernels that multiply some rows at once, most rows first
	quantize func(q []int8, scale []float32, qsum []int32, x []float32)

	f32 []linesTile // attention over lines of float32, most rows first
	// Over lines of F16 as they lie in a page, for every number of rows up to some; empty where going by f32 is as good.
	keys   []linesTile // blocks of K, taking their sum
	values []linesTile // columns of V, taking their sum
	raw    []linesTile // either, without sums

	softmax     func(x []float32, n int, scale float32) (maximum, den float32)
	widen       func(dst []float32, src []byte)                           // whole lines of F16
	widenBlocks func(dst []float32, src []byte, lines int) bulkhead.Lines // blocks of K of so many lines each
	sumBlocks   func(data []byte, lines int) bulkhead.Lines
	sumColumns  func(data []byte, pieces int) bulkhead.Columns // tokens of V of so many pieces each
	storeK      func(lines []byte, in int, k []float32) (plain, placed uint64)
	storeV      func(dst []byte, v []float32) bulkhead.Lines

	square   func(x []float32) float32
	scaleMul func(dst, x, weight []float32, scale float32)
	rope     func(x, cos, sin []float32) // adjacent pairs
	siluMul  func(dst, gate, up []float32)
	add      func(dst, x []float32)
	addMul   func(dst, x []float32, scale float32)
}

// Env names the variable that picks a set by name.
const Env = "BULKHEAD_KERNELS"

// choice is what start-up found out about the sets, once.
type choice struct {
	sets   []*Set   // that this CPU can run and that passed their self-test, best first
	failed []string // sets that the CPU claims to run and that failed
}

var choose = sync.OnceValue(func() choice {
	var c choice
	for _, s := range append(native(), goSet) {
		if s != goSet {
			if err := s.selfTest(); err != nil {
				c.failed = append(c.failed, err.Error())
				continue
			}
		}
		c.sets = append(c.sets, s)
	}
	return c
})

// All lists the sets that this CPU can run, best first. The last one is "go".
func All() []*Set { return choose().sets }

// Failed says which sets the CPU claims to run but that gave other results than the Go set when they were tried at
// start-up. It is empty on a sound machine; a log should show it.
func Failed() []string { return choose().failed }

// Best is the set to use: what the environment names in [Env], else the fastest that this CPU runs. It panics where the
// environment names a set that is not there; [Named] with no name gives an error instead.
func Best() *Set {
	s, err := Named("")
	if err != nil {
		panic(err)
	}
	return s
}

// Named finds a set by name. Without one it is what the environment names in [Env], else the fastest that this CPU runs.
func Named(name string) (*Set, error) {
	if name == "" {
		name = os.Getenv(Env)
	}
	var names []string
	for _, s := range All() {
		if s.Name == name || name == "" {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("kernels: no set %q on this machine, there is %s", name, strings.Join(names, ", "))
}

// goSet is the set that every other one is measured by.
var goSet = &Set{
	Name: "go",
	mul: [numTypes][]tile{
		f32Type:  {{1, mulF32}},
		f16Type:  {{1, mulF16}},
		bf16Type: {{1, mulBF16}},
		q8_0Type: {{1, mulQ8_0}},
		q4_0Type: {{1, mulQ4_0}},
		q4_1Type: {{1, mulQ4_1}},
	},
	quantize:    quantize,
	f32:         []linesTile{{1, linesF32}},
	softmax:     softmax,
	widen:       widen,
	widenBlocks: widenBlocks,
	sumBlocks:   sumBlocks,
	sumColumns:  sumColumns,
	storeK:      storeK,
	storeV:      storeV,
	square:      square,
	scaleMul:    scaleMul,
	rope:        rope,
	siluMul:     siluMul,
	add:         add,
	addMul:      addMul,
}
