package engine

import (
	"math"

	"github.com/bulkhead-llm/bulkhead/engine/arch"
)

// frequencies is by how much each pair of dimensions turns from position to position, and by what all are multiplied:
//
//	base^(-2i/dims) / linear / factor of pair i, where the file has factors
func frequencies(l *loader, s *arch.Spec) (f []float64, scale float64) {
	pairs := s.Rope.Dims / 2
	f = make([]float64, pairs)
	for i := range f {
		f[i] = math.Pow(float64(s.Rope.Base), -2*float64(i)/float64(s.Rope.Dims)) / float64(s.Rope.Linear)
	}
	if _, ok := l.file.Tensor(s.Names.RopeFactors); ok {
		for i, factor := range l.vector(s.Names.RopeFactors, pairs) {
			if !(factor > 0) {
				l.fail("tensor %q has a factor of %v, must be positive", s.Names.RopeFactors, factor)
			}
			f[i] /= float64(factor)
		}
	}
	if s.Rope.Yarn == nil {
		return f, 1
	}
	return f, yarn(f, &s.Rope)
}

// yarn stretches frequencies and returns the scale.
func yarn(f []float64, r *arch.Rope) float64 {
	y, dims := r.Yarn, float64(r.Dims)
	pair := func(turns float32) float64 { // the one that turns so often in the original window
		return dims * math.Log(float64(y.Original)/(float64(turns)*2*math.Pi)) / (2 * math.Log(float64(r.Base)))
	}
	fast, slow := max(0, math.Floor(pair(y.Fast))), min(dims-1, math.Ceil(pair(y.Slow)))
	for i := range f {
		stretched := min(1, max(0, (float64(i)-fast)/max(0.001, slow-fast)))
		f[i] = f[i]*(1-stretched) + f[i]/float64(y.Factor)*stretched
	}
	return float64(y.Attn) * (1 + 0.1*math.Log(float64(y.Factor)))
}

// turn writes the cosines and sines of a position.
func (m *model) turn(cos, sin []float32, pos int) {
	for i, f := range m.frequencies {
		s, c := math.Sincos(float64(pos) * f)
		cos[i], sin[i] = float32(c*m.ropeScale), float32(s*m.ropeScale)
	}
}
