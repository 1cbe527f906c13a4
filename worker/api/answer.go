package api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/internal/stop"
	"github.com/bulkhead-llm/bulkhead/openai"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// answerPrefill waits for the outcome and then answers. Nothing is written before, so the status is the truth.
func (a *API) answerPrefill(p *reply, r *http.Request, g *generation) *bulkhead.Refusal {
	e, ok := g.stream.Next(r.Context())
	if !ok {
		return g.gone(r) // the deferred Leave tells the worker
	}
	if e.End == nil {
		return a.broken(g, "a token of a prefill worker")
	}
	if ref := refusalOf(e.End); ref != nil {
		return ref
	}
	out := sglang.Answer{OutputIDs: []bulkhead.Token{}, Meta: g.meta(e.End)}
	out.Meta.FinishReason = &sglang.Finish{Type: "length"}
	g.send(p, out, true)
	return nil
}

// answerDecode answers with tokens: as a whole at the end, or event by event.
func (a *API) answerDecode(p *reply, r *http.Request, g *generation) *bulkhead.Refusal {
	w := &writing{g: g, text: a.cfg.Text, decoder: a.cfg.Text.Decoder(), stop: stop.Finder{Stops: g.body.Sampling.Stop}}
	for {
		e, ok := g.stream.Next(r.Context())
		switch {
		case !ok:
			return g.gone(r)
		case e.End != nil:
			if ref := w.end(e.End); ref != nil {
				return ref
			}
			g.send(p, w.answer(), true)
			return nil
		case w.finish != nil:
			continue // a stop string was complete; the worker had not heard of it yet
		}
		if w.take(e); w.finish != nil {
			g.stream.Leave()
			continue // the End follows, and has the counts
		}
		g.completion = len(w.ids)
		if g.body.Stream && g.send(p, w.answer(), false) != nil {
			return nil
		}
	}
}

// gone is why a stream gave no event and no End: nobody waits for them any more.
func (g *generation) gone(r *http.Request) *bulkhead.Refusal {
	if r.Context().Err() == nil {
		return internal()
	}
	g.left = true
	return nil
}

// send writes one event of a stream, or the whole answer. An error means that nobody reads it.
func (g *generation) send(p *reply, out sglang.Answer, last bool) (err error) {
	defer func() { g.left = g.left || err != nil }()
	if !g.body.Stream {
		return p.json(http.StatusOK, out)
	}
	events := p.stream()
	if err := events.Send(out); err != nil || !last {
		return err
	}
	return events.Done()
}

// meta is what both workers say of a request at its end; nil: in its middle.
func (g *generation) meta(end *bulkhead.End) sglang.Meta {
	m := sglang.Meta{ID: string(g.id), PromptTokens: len(g.request.Prompt)}
	if end != nil {
		m.CompletionTokens, m.CachedTokens = int(end.Completion), int(end.Cached)
		m.Latency = time.Since(g.start).Seconds()
	}
	return m
}

// broken ends a request whose stream did what no stream does.
func (a *API) broken(g *generation, what string) *bulkhead.Refusal {
	a.cfg.Log.Error("a stream broke its promise", "request", string(g.id), "what", what)
	return internal()
}

func internal() *bulkhead.Refusal {
	return bulkhead.Refuse(bulkhead.CodeInternal, "", "the worker failed to answer this request; it is logged under the request id")
}

// refusalOf is why a request has no answer; nil where it has one.
func refusalOf(end *bulkhead.End) *bulkhead.Refusal {
	switch end.Reason {
	case bulkhead.Stopped, bulkhead.Length, bulkhead.HandedOver:
		return nil
	case bulkhead.Violated:
		return openai.Violated()
	case bulkhead.Aborted:
		return aborted()
	}
	switch {
	case end.Refusal != nil:
		return end.Refusal
	case errors.Is(end.Err, handoff.ErrLost):
		return bulkhead.Refuse(sglang.CodeHandoff, "", "the connection between the two workers of this request was lost; send it again")
	}
	return internal()
}

// writing is one answer on its way from tokens to SGLang's shapes.
type writing struct {
	g       *generation
	text    gateway.Text
	decoder gateway.Decoder
	stop    stop.Finder

	ids      []bulkhead.Token
	logprobs []sglang.TokenLogprob
	top      [][]sglang.TokenLogprob
	raw      strings.Builder // all that the decoder gave
	out      strings.Builder // what was let out of it
	finish   *sglang.Finish
	ended    *bulkhead.End
	sent     int // of ids, in events that hold only what is new
	sentLogs int
}

func (w *writing) incremental() bool {
	n := w.g.body.Native
	return n != nil && n.Incremental
}

// take adds a token.
func (w *writing) take(e bulkhead.Event) {
	w.ids = append(w.ids, e.Token)
	if l := e.Logprobs; l != nil {
		w.logprobs = append(w.logprobs, w.logprob(e.Token, l.Token))
		if w.g.request.Sampling.TopLogprobs > 0 {
			top := make([]sglang.TokenLogprob, len(l.Top))
			for i, t := range l.Top {
				top[i] = w.logprob(t.Token, t.Logprob)
			}
			w.top = append(w.top, top)
		}
	}
	if !w.incremental() || len(w.stop.Stops) > 0 {
		w.add(w.decoder.Next(e.Token))
	}
}

func (w *writing) logprob(t bulkhead.Token, logprob float32) sglang.TokenLogprob {
	out := sglang.TokenLogprob{Logprob: float32(openai.Logprob(logprob)), Token: t}
	if w.g.texts {
		s := strings.ToValidUTF8(string(w.text.Piece(t)), "\uFFFD")
		out.Text = &s
	}
	return out
}

// add lets out what more text makes possible.
func (w *writing) add(text string) {
	w.raw.WriteString(text)
	out, found := w.stop.Next(text)
	w.out.WriteString(out)
	if found {
		w.finish = &sglang.Finish{Type: openai.FinishStop, MatchedText: w.matched()}
	}
}

// matched is the stop string behind what was let out; of two, the longer.
func (w *writing) matched() (longest string) {
	rest := w.raw.String()[w.out.Len():]
	for _, s := range w.stop.Stops {
		if strings.HasPrefix(rest, s) && len(s) > len(longest) {
			longest = s
		}
	}
	return longest
}

// end takes the End. The refusal says why there is no answer.
func (w *writing) end(end *bulkhead.End) *bulkhead.Refusal {
	w.ended = end
	if w.finish != nil { // a stop string ended it, whatever the worker says
		return nil
	}
	if ref := refusalOf(end); ref != nil {
		return ref
	}
	if w.add(w.decoder.Flush()); w.finish != nil {
		return nil
	}
	w.out.WriteString(w.stop.Flush())
	w.finish = &sglang.Finish{Type: openai.FinishLength, Length: len(w.ids)}
	if end.Reason == bulkhead.Stopped {
		token := end.StopToken
		w.finish = &sglang.Finish{Type: openai.FinishStop, Matched: &token}
		if !w.incremental() {
			w.ids = append(w.ids, token) // SGLang has it among the ids
		}
	}
	return nil
}

// answer is the body now: all there is, or only what is new.
func (w *writing) answer() sglang.Answer {
	a := sglang.Answer{Text: w.out.String(), OutputIDs: w.ids, Meta: w.g.meta(w.ended)}
	a.Meta.FinishReason = w.finish
	a.Meta.CompletionTokens = len(w.ids)
	a.Meta.OutputLogprobs, a.Meta.OutputTop = w.logprobs, w.top
	if w.incremental() {
		if w.finish != nil && w.finish.Matched != nil {
			a.Meta.CompletionTokens++
		}
		a.Text, a.OutputIDs = "", w.ids[w.sent:]
		a.Meta.OutputLogprobs = w.logprobs[w.sentLogs:]
		if w.top != nil {
			a.Meta.OutputTop = w.top[w.sentLogs:]
		}
		w.sent, w.sentLogs = len(w.ids), len(w.logprobs)
	}
	if a.OutputIDs == nil {
		a.OutputIDs = []bulkhead.Token{}
	}
	return a
}
