package engine

import (
	"math"

	"github.com/bulkhead-llm/bulkhead/engine/arch"
)

// frequencies is by how much each pair of dimensions turns from position to position:
//
//	base^(-2i/dims) / linear / factor of pair i, where the file has factors
func frequencies(l *loader, s *arch.Spec) []float64 {
	pairs := s.Rope.Dims / 2
	f := make([]float64, pairs)
	for i := range f {
		f[i] = math.Pow(float64(s.Rope.Base), -2*float64(i)/float64(s.Rope.Dims)) / float64(s.Rope.Linear)
	}
	if _, ok := l.file.Tensor(s.Names.RopeFactors); !ok {
		return f
	}
	for i, factor := range l.vector(s.Names.RopeFactors, pairs) {
		if !(factor > 0) {
			l.fail("tensor %q has a factor of %v, must be positive", s.Names.RopeFactors, factor)
		}
		f[i] /= float64(factor)
	}
	return f
}

// turn writes the cosines and sines of a position.
func (m *model) turn(cos, sin []float32, pos int) {
	for i, f := range m.frequencies {
		s, c := math.Sincos(float64(pos) * f)
		cos[i], sin[i] = float32(c), float32(s)
	}
}
