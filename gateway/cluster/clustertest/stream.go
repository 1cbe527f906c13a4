package clustertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// decodeStream writes one answer.
type decodeStream struct {
	w     *Worker
	rw    http.ResponseWriter
	q     *Request
	fault Fault
}

// Token is the token at place i of an answer to a prompt: the prompt's sum and the place, within a vocabulary of 256.
func Token(prompt []bulkhead.Token, i int) bulkhead.Token {
	sum := 0
	for _, t := range prompt {
		sum += int(t)
	}
	return bulkhead.Token((sum + i) % 256)
}

func (s *decodeStream) run(r *http.Request) {
	s.w.mu.Lock()
	n, gap, failure := s.w.tokens, s.w.gap, s.w.failure
	s.w.mu.Unlock()
	most, length := *s.q.Sampling.MaxNewTokens, false
	if n == 0 || n >= most {
		n, length = most, true
	}
	if s.fault == TooMany {
		n = most + 1
	}
	for i := range n {
		if !s.pause(r, gap) {
			s.event(s.answer(nil, i, &sglang.Finish{Type: "abort", Status: sglang.StatusAborted, Message: "aborted"}))
			return
		}
		if i == 2 && s.breaks(r, failure) {
			return
		}
		t := Token(s.q.InputIDs, i)
		if s.fault == BadToken {
			t = 1000
		}
		s.event(s.answer([]bulkhead.Token{t}, i+1, nil))
	}
	end := &sglang.Finish{Type: "length", Length: n}
	if !length {
		stop := bulkhead.Token(255)
		end = &sglang.Finish{Type: "stop", Matched: &stop}
		n++
	}
	s.event(s.answer(nil, n, end))
	fmt.Fprint(s.rw, "data: [DONE]\n\n")
}

func (s *decodeStream) pause(r *http.Request, gap time.Duration) bool {
	select {
	case <-time.After(gap):
		select {
		case <-s.q.done:
			return false
		default:
			return true
		}
	case <-s.q.done:
		return false
	case <-r.Context().Done():
		return false
	case <-s.w.quit:
		panic(http.ErrAbortHandler)
	}
}

// breaks does the fault that comes after some tokens.
func (s *decodeStream) breaks(r *http.Request, f sglang.Failure) bool {
	switch s.fault {
	case CutStream:
		panic(http.ErrAbortHandler)
	case ErrorEvent:
		s.event(f)
	case Garbage:
		fmt.Fprint(s.rw, "data: {\"text\":\n\n")
	case LongLine:
		s.rw.Write([]byte("data: "))
		s.rw.Write(make([]byte, 2<<20))
		s.w.wait(r, nil)
	case HangAfter:
		s.w.wait(r, s.q)
	default:
		return false
	}
	return true
}

func (s *decodeStream) answer(ids []bulkhead.Token, n int, end *sglang.Finish) sglang.Answer {
	a := sglang.Answer{OutputIDs: ids, Meta: sglang.Meta{ID: s.q.Rid, PromptTokens: len(s.q.InputIDs), CompletionTokens: n, FinishReason: end}}
	if s.q.ReturnLogprob {
		for _, t := range ids {
			own := sglang.TokenLogprob{Logprob: -0.5, Token: t}
			a.Meta.OutputLogprobs = append(a.Meta.OutputLogprobs, own)
			a.Meta.OutputTop = append(a.Meta.OutputTop, []sglang.TokenLogprob{own}[:min(1, s.q.TopLogprobsNum)])
		}
	}
	if s.fault == Miscount {
		a.Meta.PromptTokens = 1
	}
	return a
}

func (s *decodeStream) event(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(s.rw, "data: %s\n\n", data)
	http.NewResponseController(s.rw).Flush()
}
