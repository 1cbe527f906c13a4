package cluster

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// read turns an event of decode's stream into events, and refuses what is no part of an answer to this request: another prompt,
// more tokens than were asked for, tokens that the model does not have, log-probabilities of something else.
func (e expectation) read(m *sglang.Answer, passed bulkhead.Tokens) ([]bulkhead.Event, error) {
	if m.Meta.PromptTokens != int(e.prompt) {
		return nil, fmt.Errorf("it says that the prompt has %d tokens, and it has %d", m.Meta.PromptTokens, e.prompt)
	}
	if n := bulkhead.Tokens(len(m.OutputIDs)); n > e.most-passed {
		return nil, fmt.Errorf("it sends %d tokens after %d, and %d were asked for", n, passed, e.most)
	}
	if err := e.checkLogprobs(m); err != nil {
		return nil, err
	}
	events := make([]bulkhead.Event, 0, len(m.OutputIDs))
	for i, t := range m.OutputIDs {
		if t < 0 || int(t) >= e.vocab {
			return nil, fmt.Errorf("it sends the token %d, and the model has %d", t, e.vocab)
		}
		event := bulkhead.Event{Token: t}
		if e.logprobs {
			lp, err := e.logprobsOf(m, i)
			if err != nil {
				return nil, err
			}
			event.Logprobs = lp
		}
		events = append(events, event)
	}
	return events, nil
}

func (e expectation) checkLogprobs(m *sglang.Answer) error {
	if e.logprobs && (len(m.Meta.OutputLogprobs) < len(m.OutputIDs) || e.top > 0 && len(m.Meta.OutputTop) < len(m.OutputIDs)) {
		return fmt.Errorf("it sends %d tokens with %d log-probabilities and %d lists of the likeliest",
			len(m.OutputIDs), len(m.Meta.OutputLogprobs), len(m.Meta.OutputTop))
	}
	return nil
}

func (e expectation) logprobsOf(m *sglang.Answer, i int) (*bulkhead.Logprobs, error) {
	own := m.Meta.OutputLogprobs[i]
	if own.Token != m.OutputIDs[i] {
		return nil, fmt.Errorf("it sends the token %d with the log-probability of %d", m.OutputIDs[i], own.Token)
	}
	lp := &bulkhead.Logprobs{Token: own.Logprob}
	if e.top == 0 {
		return lp, nil
	}
	if n := len(m.Meta.OutputTop[i]); n > e.top {
		return nil, fmt.Errorf("it sends the %d likeliest tokens, and %d were asked for", n, e.top)
	}
	for _, t := range m.Meta.OutputTop[i] {
		if t.Token < 0 || int(t.Token) >= e.vocab {
			return nil, fmt.Errorf("among the likeliest is the token %d, and the model has %d", t.Token, e.vocab)
		}
		lp.Top = append(lp.Top, bulkhead.TokenLogprob{Token: t.Token, Logprob: t.Logprob})
	}
	return lp, nil
}

// finish reads the last event of decode's stream: how the answer ended, and the event without its stop token, which clients
// do not get. unread says that what came before was not counted, since nobody wants the answer any more.
func (e expectation) finish(m *sglang.Answer, passed bulkhead.Tokens, unread bool) (outcome, *sglang.Answer, error) {
	fin := m.Meta.FinishReason
	o := outcome{kind: done, prompt: m.Meta.PromptTokens, cached: m.Meta.CachedTokens, completion: m.Meta.CompletionTokens,
		detail: fin.Type}
	rest := *m
	total := int(passed) + len(m.OutputIDs)
	switch fin.Type {
	case "stop":
		o.reason = bulkhead.Stopped
		if fin.Matched == nil {
			break
		}
		o.stop = *fin.Matched
		if n := len(m.OutputIDs); n > 0 && m.OutputIDs[n-1] == o.stop && (o.completion == total || unread) {
			rest.OutputIDs = m.OutputIDs[:n-1]
		} else {
			total++
		}
	case "length":
		o.reason = bulkhead.Length
		if !unread && total != int(e.most) {
			return outcome{}, nil, fmt.Errorf("it ends for its length after %d tokens, and %d were asked for", total, e.most)
		}
	case "abort":
		o.kind, o.detail = aborted, fmt.Sprintf("abort, status %d: %.200s", fin.Status, fin.Message)
		return o, &rest, nil
	default:
		return outcome{}, nil, fmt.Errorf("it ends for the unknown reason %.40q", fin.Type)
	}
	if !unread && o.completion != total {
		return outcome{}, nil, fmt.Errorf("it counts %d tokens of the answer, and %d have come", o.completion, total)
	}
	return o, &rest, nil
}
