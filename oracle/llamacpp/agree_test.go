package llamacpp_test

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/convert"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/engine/token"
	"github.com/bulkhead-llm/bulkhead/internal/testcache"
	"github.com/bulkhead-llm/bulkhead/kv"
	"github.com/bulkhead-llm/bulkhead/oracle/llamacpp"
)

// prompts are the user's side of 20 chats: questions, instructions, code, lists, numbers, other scripts.
var prompts = []string{
	"What is the capital of France?",
	"Write a story about a fox.",
	"Explain in two sentences why the sky is blue.",
	"List five fruits and a colour for each.",
	"What is 17 plus 25?",
	"Translate \"good morning\" into Spanish.",
	"Write a Python function that reverses a string.",
	"Who wrote Hamlet?",
	"Give me three tips for better sleep.",
	"Summarise the water cycle.",
	"What does HTTP 404 mean?",
	"Write a haiku about winter.",
	"How do I boil an egg?",
	"Name the planets of the solar system.",
	"Is a tomato a fruit or a vegetable?",
	"Fix the grammar: she don't like apples.",
	"What is the difference between TCP and UDP?",
	"Describe the city of Zürich – in one line.",
	"日本の首都はどこですか?",
	"Count from one to ten.",
}

const answerTokens = 64

// scoreBound is how far, in nats, llama.cpp's and our log-probability of a token may be apart where the two choose
// different tokens on a quantised file: both round activations, each in its own way, and near ties fall differently.
const scoreBound = 0.5

// On SmolLM2-135M-Instruct widened to F32, where nothing rounds but the last bits of sums, every token is llama.cpp's.
func TestAgreesOnF32(t *testing.T) {
	wide := filepath.Join(t.TempDir(), "wide.gguf")
	if err := convert.Path(wide, smolLM2(t), gguf.F32, nil); err != nil {
		t.Fatal(err)
	}
	compare(t, wide, func(t *testing.T, d difference) {
		t.Errorf("token %d is %d, llama.cpp says %d (its log-probabilities %.4f and %.4f)", d.at, d.ours, d.theirs, d.theirsOfOurs, d.theirsOfTheirs)
	})
}

// On the Q4_1 file itself every token is llama.cpp's, or at the first difference the two tokens are a near tie.
func TestAgreesOnQ4(t *testing.T) {
	compare(t, smolLM2(t), func(t *testing.T, d difference) {
		t.Logf("first difference at token %d: %d, llama.cpp %d; log-probabilities ours %.3f %.3f, theirs %.3f %.3f",
			d.at, d.ours, d.theirs, d.oursOfOurs, d.oursOfTheirs, d.theirsOfOurs, d.theirsOfTheirs)
		if math.Abs(d.oursOfOurs-d.theirsOfOurs) > scoreBound || math.Abs(d.oursOfTheirs-d.theirsOfTheirs) > scoreBound {
			t.Errorf("more than %.2f nat apart", scoreBound)
		}
	})
}

// difference is the first place where the two engines choose different tokens, with what each thinks of both.
type difference struct {
	at                           int
	ours, theirs                 bulkhead.Token
	oursOfOurs, oursOfTheirs     float64
	theirsOfOurs, theirsOfTheirs float64
}

func smolLM2(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("takes minutes")
	}
	return testcache.Path(t, "fetch-smollm2", testcache.SmolLM2)
}

func compare(t *testing.T, path string, differ func(*testing.T, difference)) {
	testcache.Path(t, "fetch-llamacpp", "oracle-llamacpp", "node_modules")
	theirs, err := llamacpp.Open(filepath.Join(testcache.Dir(), "oracle-llamacpp"), path, 1, 512)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	ours := open(t, path)
	equal := 0
	for i, prompt := range prompts {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			ids := ours.chat(t, prompt)
			want, err := theirs.Greedy(ids, answerTokens)
			if err != nil {
				t.Fatal(err)
			}
			d, ok := ours.follow(t, ids, want)
			if ok {
				equal++
				return
			}
			top, err := theirs.Top(append(ids, want[:d.at]...), 20)
			if err != nil {
				t.Fatal(err)
			}
			d.theirsOfOurs, d.theirsOfTheirs = among(top, d.ours), among(top, d.theirs)
			differ(t, d)
		})
	}
	t.Logf("%d of %d answers equal token for token", equal, len(prompts))
}

// runner is our engine with a pool for one sequence.
type runner struct {
	engine   *engine.Engine
	template *token.Template
	tok      *token.Tokenizer
	layout   bulkhead.Layout
}

func open(t *testing.T, path string) *runner {
	t.Helper()
	e, err := engine.Open(path, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	vocab, err := token.FromMetadata(e.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := token.New(vocab)
	if err != nil {
		t.Fatal(err)
	}
	template, err := tok.ChatTemplate()
	if err != nil {
		t.Fatal(err)
	}
	return &runner{engine: e, template: template, tok: tok, layout: e.Layout(32)}
}

func (r *runner) chat(t *testing.T, prompt string) []bulkhead.Token {
	t.Helper()
	p, err := r.template.Render([]token.Message{{Role: "user", Content: prompt}}, token.RenderOptions{AddGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	return r.tok.EncodePrompt(p)
}

// follow decodes greedily as long as the tokens are those wanted, and says what differs first.
func (r *runner) follow(t *testing.T, prompt, want []bulkhead.Token) (difference, bool) {
	t.Helper()
	pages := r.layout.Pages(bulkhead.Tokens(len(prompt) + len(want)))
	pool, err := kv.New(kv.Options{Layout: r.layout, Arena: make([]byte, pages*r.layout.PageBytes())})
	if err != nil {
		t.Fatal(err)
	}
	seq := pool.Begin(kv.NewIdentities([32]byte{}, "test", r.engine.Info().Fingerprint, r.layout), nil)
	defer seq.Release()
	if !pool.Grow(seq, bulkhead.Tokens(len(prompt)+len(want))) {
		t.Fatal("the pool is too small")
	}
	next := prompt
	for i, id := range want {
		var result [1]engine.Result
		r.engine.Step([]engine.Work{{Seq: seq, Tokens: next, Logits: true}}, result[:])
		if result[0].Violation != nil {
			t.Fatal(result[0].Violation)
		}
		if best := argmax(result[0].Logits); best != id {
			return difference{
				at: i, ours: best, theirs: id,
				oursOfOurs: logprob(result[0].Logits, best), oursOfTheirs: logprob(result[0].Logits, id),
			}, false
		}
		next = []bulkhead.Token{id}
	}
	return difference{}, true
}

func argmax(logits []float32) bulkhead.Token {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return bulkhead.Token(best)
}

func logprob(logits []float32, id bulkhead.Token) float64 {
	top, sum := float64(logits[argmax(logits)]), 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	return float64(logits[id]) - top - math.Log(sum)
}

// among is the log-probability of a token among the best that llama.cpp reported; minus infinity where it is not there.
func among(top []llamacpp.Logprob, id bulkhead.Token) float64 {
	for _, l := range top {
		if l.ID == id {
			return l.Logprob
		}
	}
	return math.Inf(-1)
}
