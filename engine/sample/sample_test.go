package sample_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/sample"
)

func mustNew(t rapid.TB, p bulkhead.Sampling, vocab int, prompt ...bulkhead.Token) *sample.Sampler {
	t.Helper()
	s, err := sample.New(p, vocab, prompt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustNext(t rapid.TB, s *sample.Sampler, logits []float32) bulkhead.Token {
	t.Helper()
	token, _, err := s.Next(logits)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// genLogits draws logits of which some are equal.
func genLogits(t *rapid.T) []float32 {
	value := rapid.OneOf(rapid.Float32Range(-20, 20), rapid.SampledFrom([]float32{-3, 0, 5, 5.5}))
	return rapid.SliceOfN(value, 1, 60).Draw(t, "logits")
}

// ranked is the ids, most likely first, of equals the lowest.
func ranked(logits []float32) []int {
	ids := make([]int, len(logits))
	for i := range ids {
		ids[i] = i
	}
	slices.SortStableFunc(ids, func(a, b int) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	return ids
}

// allowed is what temperature, min_p, top_k and top_p leave, by the book. Tokens on the very edge of top_p are allowed too.
func allowed(logits []float32, p bulkhead.Sampling) map[int]bool {
	ids := ranked(logits)
	weight := func(i int) float64 {
		return math.Exp(float64(logits[i]-logits[ids[0]]) / float64(p.Temperature))
	}
	if p.MinP > 0 {
		ids = slices.DeleteFunc(ids, func(i int) bool { return weight(i) < float64(p.MinP)*(1-1e-6) })
	}
	if p.TopK > 0 {
		ids = ids[:min(len(ids), p.TopK)]
	}
	total := 0.0
	for _, i := range ids {
		total += weight(i)
	}
	set, sum := map[int]bool{}, 0.0
	for _, i := range ids {
		if p.TopP > 0 && p.TopP < 1 && sum >= float64(p.TopP)*total*(1+1e-6) {
			break
		}
		set[i] = true
		sum += weight(i)
	}
	return set
}

func TestDrawsOnlyWhatIsAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := genLogits(t)
		p := bulkhead.Sampling{
			Temperature: rapid.Float32Range(0.05, 3).Draw(t, "temperature"),
			TopK:        rapid.IntRange(0, 70).Draw(t, "top_k"),
			TopP:        rapid.SampledFrom([]float32{0, 0.1, 0.5, 0.9, 1}).Draw(t, "top_p"),
			MinP:        rapid.SampledFrom([]float32{0, 0.01, 0.3, 1}).Draw(t, "min_p"),
			Seed:        rapid.Uint64().Draw(t, "seed"),
		}
		set := allowed(logits, p)
		s := mustNew(t, p, len(logits))
		for range 20 {
			if token := mustNext(t, s, logits); !set[int(token)] {
				t.Fatalf("drew %d, allowed are %v", token, set)
			}
		}
	})
}

func TestGreedy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := genLogits(t)
		want := bulkhead.Token(ranked(logits)[0])
		for _, p := range []bulkhead.Sampling{{}, {Temperature: 1e-6}, {Temperature: 1, TopK: 1}, {Temperature: 2, TopP: 1e-9}} {
			if got := mustNext(t, mustNew(t, p, len(logits)), logits); got != want {
				t.Fatalf("%+v: drew %d, want %d", p, got, want)
			}
		}
	})
}

// The same seed draws the same tokens; what was drawn before does not matter.
func TestSeedAndPlaceDecide(t *testing.T) {
	flat := make([]float32, 1000)
	p := bulkhead.Sampling{Temperature: 1, Seed: 7}
	a, b := mustNew(t, p, len(flat)), mustNew(t, p, len(flat))
	peak := slices.Clone(flat)
	peak[3] = 1000
	differ := 0
	p.Seed = 8
	c := mustNew(t, p, len(flat))
	for i := range 100 {
		x := mustNext(t, a, flat)
		if i%2 == 0 {
			mustNext(t, b, peak)
			mustNext(t, c, peak)
			continue
		}
		if y := mustNext(t, b, flat); y != x {
			t.Fatalf("token %d: %d and %d", i, x, y)
		}
		if mustNext(t, c, flat) != x {
			differ++
		}
	}
	if differ < 45 {
		t.Errorf("another seed drew other tokens only %d of 50 times", differ)
	}
}

// Frequencies are those of the softmax, over seeds and over places.
func TestDistribution(t *testing.T) {
	logits := []float32{0, 1, 2, -1, 1.5, -30}
	const draws = 40000
	for _, p := range []bulkhead.Sampling{{Temperature: 1}, {Temperature: 0.7}, {Temperature: 1.3, TopK: 4}, {Temperature: 1, TopP: 0.9}, {Temperature: 1, MinP: 0.2}} {
		set := allowed(logits, p)
		var total float64
		for i := range set {
			total += math.Exp(float64(logits[i]) / float64(p.Temperature))
		}
		for _, over := range []string{"places", "seeds"} {
			count := make([]float64, len(logits))
			s := mustNew(t, p, len(logits))
			for i := range draws {
				if over == "seeds" {
					p.Seed = uint64(i)
					s = mustNew(t, p, len(logits))
				}
				count[mustNext(t, s, logits)]++
			}
			for i := range logits {
				want := 0.0
				if set[i] {
					want = math.Exp(float64(logits[i])/float64(p.Temperature)) / total
				}
				if got := count[i] / draws; math.Abs(got-want) > 0.012 {
					t.Errorf("%+v over %s: token %d drawn with %.4f, want %.4f", p, over, i, got, want)
				}
			}
		}
	}
}

func TestPenaltiesAndBias(t *testing.T) {
	for _, c := range []struct {
		name   string
		p      bulkhead.Sampling
		prompt []bulkhead.Token
		logits []float32
		want   []bulkhead.Token
	}{
		{"presence counts once", bulkhead.Sampling{PresencePenalty: 1}, nil, []float32{5, 4.5, 4.2}, []bulkhead.Token{0, 1, 2, 0, 0, 0}},
		{"frequency counts each time", bulkhead.Sampling{FrequencyPenalty: 1}, nil, []float32{5, 4.5, 4.2}, []bulkhead.Token{0, 1, 2, 0, 1, 2}},
		{"the prompt is free of both", bulkhead.Sampling{FrequencyPenalty: 1, PresencePenalty: 1}, []bulkhead.Token{0}, []float32{5, 4.5}, []bulkhead.Token{0}},
		{"repetition divides", bulkhead.Sampling{RepetitionPenalty: 2}, []bulkhead.Token{0}, []float32{5, 2.6, 2}, []bulkhead.Token{1, 0, 0}},
		{"repetition multiplies what is negative", bulkhead.Sampling{RepetitionPenalty: 2}, []bulkhead.Token{0}, []float32{-1, -1.5}, []bulkhead.Token{1, 0}},
		{"bias", bulkhead.Sampling{LogitBias: []bulkhead.TokenBias{{Token: 1, Bias: 3}, {Token: 0, Bias: -1}}}, nil, []float32{5, 1.5}, []bulkhead.Token{1}},
		{"a negative penalty rewards", bulkhead.Sampling{FrequencyPenalty: -1, LogitBias: []bulkhead.TokenBias{{Token: 0, Bias: 1}}}, nil, []float32{1, 1.5}, []bulkhead.Token{0, 0}},
	} {
		s := mustNew(t, c.p, len(c.logits), c.prompt...)
		before := slices.Clone(c.logits)
		for i, want := range c.want {
			if got := mustNext(t, s, c.logits); got != want {
				t.Errorf("%s: token %d is %d, want %d", c.name, i, got, want)
			}
		}
		if !slices.Equal(before, c.logits) {
			t.Errorf("%s: the caller's logits were changed", c.name)
		}
	}
}

func TestNotFinite(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, bad := range []float32{float32(math.NaN()), inf, -inf} {
		for at := range 3 {
			logits := []float32{1, 2, 3}
			logits[at] = bad
			for _, p := range []bulkhead.Sampling{{}, {Temperature: 1}, {Temperature: 1, TopP: 0.5}} {
				if _, _, err := mustNew(t, p, 3).Next(logits); !errors.Is(err, sample.ErrNotFinite) {
					t.Errorf("%v: %v", logits, err)
				}
			}
		}
	}
	huge := []float32{3e38, 3e38}
	p := bulkhead.Sampling{LogitBias: []bulkhead.TokenBias{{Token: 1, Bias: 3e38}}}
	if _, _, err := mustNew(t, p, 2).Next(huge); !errors.Is(err, sample.ErrNotFinite) {
		t.Errorf("a bias that overflows: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	nan := float32(math.NaN())
	for _, p := range []bulkhead.Sampling{
		{Temperature: -1}, {Temperature: nan}, {TopP: 1.1}, {TopP: nan}, {MinP: -0.1}, {RepetitionPenalty: -1}, {PresencePenalty: nan},
		{FrequencyPenalty: nan}, {LogitBias: []bulkhead.TokenBias{{Token: 4}}}, {LogitBias: []bulkhead.TokenBias{{Bias: nan}}},
	} {
		if _, err := sample.New(p, 4, nil); err == nil {
			t.Errorf("%+v was taken", p)
		}
	}
	if _, err := sample.New(bulkhead.Sampling{RepetitionPenalty: 2}, 4, []bulkhead.Token{4}); err == nil {
		t.Error("a prompt outside of the vocabulary was taken")
	}
	if _, _, err := mustNew(t, bulkhead.Sampling{}, 4).Next(make([]float32, 3)); err == nil {
		t.Error("three logits for a vocabulary of four were taken")
	}
}

func TestLogprobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := genLogits(t)
		n := rapid.IntRange(0, 20).Draw(t, "top_logprobs")
		p := bulkhead.Sampling{Logprobs: true, TopLogprobs: n, Temperature: 1, FrequencyPenalty: 2, Seed: 3}
		token, lp, err := mustNew(t, p, len(logits)).Next(logits)
		if err != nil {
			t.Fatal(err)
		}
		var sum float64
		for _, l := range logits {
			sum += math.Exp(float64(l))
		}
		check := func(token bulkhead.Token, got float32) {
			want := float64(logits[token]) - math.Log(sum)
			if math.Abs(float64(got)-want) > 1e-5 {
				t.Fatalf("token %d: log-probability %v, want %v", token, got, want)
			}
		}
		check(token, lp.Logprob)
		if len(lp.Top) != min(n, len(logits)) {
			t.Fatalf("%d alternatives, want %d", len(lp.Top), n)
		}
		for i, id := range ranked(logits)[:len(lp.Top)] {
			if lp.Top[i].Token != bulkhead.Token(id) {
				t.Fatalf("alternative %d is %d, want %d", i, lp.Top[i].Token, id)
			}
			check(lp.Top[i].Token, lp.Top[i].Logprob)
		}
	})
}

func vocabLogits() []float32 {
	logits := make([]float32, 49152)
	x := uint32(1)
	for i := range logits {
		x = x*1664525 + 1013904223
		logits[i] = float32(x>>8)/(1<<24)*20 - 10
	}
	return logits
}

var kinds = map[string]bulkhead.Sampling{
	"greedy":    {},
	"plain":     {Temperature: 1},
	"topk":      {Temperature: 1, TopK: 40},
	"topp":      {Temperature: 1, TopP: 0.95},
	"minp":      {Temperature: 1, MinP: 0.05},
	"penalties": {Temperature: 1, TopP: 0.9, TopK: 50, FrequencyPenalty: 0.1, RepetitionPenalty: 1.1},
}

func TestNoAllocation(t *testing.T) {
	logits := vocabLogits()
	for name, p := range kinds {
		s := mustNew(t, p, len(logits))
		mustNext(t, s, logits)
		if n := testing.AllocsPerRun(20, func() { mustNext(t, s, logits) }); n >= 1 && !race {
			t.Errorf("%s: %v allocations a token", name, n)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	logits := vocabLogits()
	for name, p := range kinds {
		b.Run(name, func(b *testing.B) {
			s := mustNew(b, p, len(logits))
			for b.Loop() {
				mustNext(b, s, logits)
			}
		})
	}
}
