// Package gatewaytest has workers and a tokenizer for tests of the gateway: in memory, deterministic, with faults to
// order. They compute nothing; what they say is set by the test.
package gatewaytest

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
)

// Backend answers each request with the tokens that Answer gives, up to the request's limits, one each Pace.
type Backend struct {
	Answer func(bulkhead.Request) []bulkhead.Token
	Pace   time.Duration
	// Fault, if set, is asked before each event: an End that it returns comes instead. i counts tokens from 0.
	Fault func(r bulkhead.Request, i int) *bulkhead.End
	// Refuse, if set, may refuse a submission.
	Refuse func(bulkhead.Request) *bulkhead.Refusal

	mu     sync.Mutex
	limits bulkhead.Limits
	taken  []bulkhead.Request
	open   int
	left   int
}

// NewBackend holds to limits and says what each prompt's last message says.
func NewBackend(limits bulkhead.Limits) *Backend {
	return &Backend{limits: limits, Answer: Repeat}
}

// Limits are those it was made with.
func (b *Backend) Limits() bulkhead.Limits { return b.limits }

// Submit takes a request.
func (b *Backend) Submit(_ context.Context, a bulkhead.Admitted) (gateway.Stream, *bulkhead.Refusal) {
	r := a.Request()
	if b.Refuse != nil {
		if ref := b.Refuse(r); ref != nil {
			return nil, ref
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = append(b.taken, r)
	b.open++
	return &stream{b: b, r: r, answer: b.Answer(r), gone: make(chan struct{})}, nil
}

// Taken are the requests that were submitted, in order.
func (b *Backend) Taken() []bulkhead.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]bulkhead.Request(nil), b.taken...)
}

// Open is how many streams have neither ended nor been left; Left, how many were left before their end.
func (b *Backend) Open() int { b.mu.Lock(); defer b.mu.Unlock(); return b.open }

// Left is how many streams were left before their end.
func (b *Backend) Left() int { b.mu.Lock(); defer b.mu.Unlock(); return b.left }

type stream struct {
	b      *Backend
	r      bulkhead.Request
	answer []bulkhead.Token
	sent   int
	ended  bool
	gone   chan struct{}
	once   sync.Once
	closed bool // under b.mu: counted as not open
}

// Next implements [gateway.Stream].
func (s *stream) Next(ctx context.Context) (bulkhead.Event, bool) {
	if s.ended || ctx.Err() != nil {
		return bulkhead.Event{}, false
	}
	if s.b.Pace > 0 {
		select {
		case <-time.After(s.b.Pace):
		case <-s.gone:
		case <-ctx.Done():
			return bulkhead.Event{}, false
		}
	}
	end := s.next()
	if end == nil {
		t := s.answer[s.sent]
		s.sent++
		return bulkhead.Event{Token: t, Logprobs: s.logprobs(t)}, true
	}
	s.ended = true
	s.close(false)
	return bulkhead.Event{End: end}, true
}

// next is the end, if it comes now.
func (s *stream) next() *bulkhead.End {
	cached := bulkhead.Tokens(len(s.r.Prompt) / 2)
	select {
	case <-s.gone:
		return &bulkhead.End{Reason: bulkhead.Aborted, Cached: cached}
	default:
	}
	if s.b.Fault != nil {
		if end := s.b.Fault(s.r, s.sent); end != nil {
			return end
		}
	}
	switch {
	case s.sent > 0 && s.answer[s.sent-1] == EOS && !s.r.IgnoreEOS, s.sent == len(s.answer):
		return &bulkhead.End{Reason: bulkhead.Stopped, Cached: cached}
	case bulkhead.Tokens(s.sent) == s.r.MaxTokens:
		return &bulkhead.End{Reason: bulkhead.Length, Cached: cached}
	}
	for _, id := range s.r.StopIDs {
		if s.sent > 0 && s.answer[s.sent-1] == id {
			return &bulkhead.End{Reason: bulkhead.Stopped, Cached: cached}
		}
	}
	return nil
}

func (s *stream) logprobs(t bulkhead.Token) *bulkhead.Logprobs {
	if !s.r.Sampling.Logprobs {
		return nil
	}
	l := &bulkhead.Logprobs{Token: -0.5}
	for i := range s.r.Sampling.TopLogprobs {
		l.Top = append(l.Top, bulkhead.TokenLogprob{Token: (t + bulkhead.Token(i)) % Size, Logprob: -0.5 - float32(i)})
	}
	return l
}

// Leave implements [gateway.Stream].
func (s *stream) Leave() {
	s.once.Do(func() { close(s.gone) })
	s.close(true)
}

func (s *stream) close(left bool) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.b.open--
	if left {
		s.b.left++
	}
}
