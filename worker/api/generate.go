package api

import (
	"net/http"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/openai"
	"github.com/bulkhead-llm/bulkhead/sglang"
	"github.com/bulkhead-llm/bulkhead/worker"
)

const codeAborted = sglang.CodeAborted

// generation is one request of POST /generate, admitted to be submitted.
type generation struct {
	control *Control
	body    *sglang.Generate
	request bulkhead.Request
	stream  gateway.Stream
	texts   bool // the text of tokens is wanted beside their log-probabilities
	*note
}

// generate is POST /generate.
func (a *API) generate(p *reply, r *http.Request) *bulkhead.Refusal {
	n := &note{start: time.Now()}
	ref := a.run(p, r, n)
	a.close(p, n, ref)
	return ref
}

func (a *API) run(p *reply, r *http.Request, n *note) *bulkhead.Refusal {
	body, leave, ref := a.arrive(p, r)
	if ref != nil {
		return ref
	}
	defer leave()
	g, ref := a.parse(r, body)
	if ref != nil {
		return ref
	}
	body = nil // read and counted: it need not stay while the answer runs
	g.note = n
	o, ref := a.live.enter(g.control, n.start)
	if ref != nil {
		return ref
	}
	defer a.live.exit(o)
	n.id, n.tenant, n.prompt = o.id, g.control.tenant().Name, len(g.request.Prompt)
	if g.stream, ref = a.submit(o, g.request); ref != nil {
		return ref
	}
	defer g.stream.Leave() // after the End it does nothing
	if a.cfg.Role == worker.Prefill {
		return a.answerPrefill(p, r, g)
	}
	return a.answerDecode(p, r, g)
}

// generateBody is the fields of POST /generate that are not the router's.
type generateBody struct {
	sglang.Generate
	prompt, text bool // input_ids and text are there
	texts        bool
}

var generateFields = withInert(fields[generateBody]{
	"text": func(path string, v []byte, g *generateBody) *bulkhead.Refusal {
		if kind(v) == "an array" {
			return batch(path)
		}
		g.text = true
		return scalar(path, "a string", v, &g.Text)
	},
	"input_ids": func(path string, v []byte, g *generateBody) (ref *bulkhead.Refusal) {
		g.prompt = true
		g.InputIDs, ref = tokens(path, v)
		return ref
	},
	"sampling_params": func(path string, v []byte, g *generateBody) *bulkhead.Refusal {
		if kind(v) == "an array" {
			return batch(path)
		}
		return samplingFields.object(path, v, &g.Sampling)
	},
	"stream":         flag(func(g *generateBody) *bool { return &g.Stream }),
	"return_logprob": flag(func(g *generateBody) *bool { return &g.ReturnLogprob }),
	"top_logprobs_num": func(path string, v []byte, g *generateBody) *bulkhead.Refusal {
		return scalar(path, "a whole number", v, &g.TopLogprobsNum)
	},
	"return_text_in_logprobs": flag(func(g *generateBody) *bool { return &g.texts }),
	"model": func(path string, v []byte, _ *generateBody) *bulkhead.Refusal {
		return scalar(path, "a string", v, new(string))
	}, // one is served
})

// parse reads a body into a request whose prompt is counted, whose values are in range and whose sender may say what it says.
// The worker has not heard of it.
func (a *API) parse(r *http.Request, body []byte) (*generation, *bulkhead.Refusal) {
	done, ref := a.weigh(r, len(body))
	if ref != nil {
		return nil, ref
	}
	defer done()
	control, rest, ref := Separate(body)
	if ref != nil {
		return nil, ref
	}
	if ref := control.check(a.cfg.Role, a.peer(r)); ref != nil {
		return nil, ref
	}
	members, ref := openai.Split(rest)
	if ref != nil {
		return nil, ref
	}
	g := &generateBody{}
	if ref := generateFields.read("", members, g); ref != nil {
		return nil, ref
	}
	if ref := a.prompt(g); ref != nil {
		return nil, ref
	}
	g.Native = control.Native
	request, ref := g.Request()
	if ref != nil {
		return nil, ref
	}
	if ref := a.finish(g, &request); ref != nil {
		return nil, ref
	}
	return &generation{control: &control, body: &g.Generate, request: request, texts: g.texts}, nil
}

// prompt makes tokens of a text, and looks at tokens that came as such.
func (a *API) prompt(g *generateBody) *bulkhead.Refusal {
	if g.prompt == g.text {
		return bulkhead.Refuse(bulkhead.CodeInvalid, "input_ids", "exactly one of `text` and `input_ids` is needed")
	}
	if g.text {
		g.InputIDs = a.cfg.Text.Prompt(g.Text)
	}
	if n := g.Sampling.N; n != nil && *n != 1 {
		return bulkhead.Refuse(bulkhead.CodeUnsupported, "sampling_params.n", "`sampling_params.n` is %d: /generate makes one answer of one request; "+
			"/v1/completions makes several", *n)
	}
	return a.inVocabulary("input_ids", g.InputIDs)
}

func (a *API) inVocabulary(path string, ids []bulkhead.Token) *bulkhead.Refusal {
	for i, t := range ids {
		if int(t) >= a.cfg.Text.Size() {
			return bulkhead.Refuse(bulkhead.CodeInvalid, path, "`%s` has the token %d at place %d: the model's vocabulary ends at %d", path, t, i, a.cfg.Text.Size()-1)
		}
	}
	return nil
}

// finish fills in what the body leaves open, and holds tokens against the vocabulary.
func (a *API) finish(g *generateBody, r *bulkhead.Request) *bulkhead.Refusal {
	if ref := a.inVocabulary("sampling_params.stop_token_ids", r.StopIDs); ref != nil {
		return ref
	}
	for _, b := range r.Sampling.LogitBias {
		if ref := a.inVocabulary("sampling_params.logit_bias", []bulkhead.Token{b.Token}); ref != nil {
			return ref
		}
	}
	if g.Sampling.MaxNewTokens == nil {
		r.MaxTokens = sglang.DefaultMaxNewTokens
		if left := a.cfg.Worker.Limits().Window - bulkhead.Tokens(len(r.Prompt)); left > 0 {
			r.MaxTokens = min(r.MaxTokens, left)
		}
	}
	if g.Sampling.Seed == nil {
		r.Sampling.Seed = randomSeed()
	}
	return nil
}
