package ask

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Limit is the time that one question may take before the server is said to hang.
const Limit = 60 * time.Second

// Reference asks a server that is trusted, one question after the other, and gives its answers.
func Reference(ctx context.Context, client *http.Client, url string, questions []Question) ([]*Answer, error) {
	answers := make([]*Answer, len(questions))
	for i, q := range questions {
		a, err := q.limited(ctx, client, url)
		if err != nil {
			return nil, fmt.Errorf("the reference, %s: %w", q.Name, err)
		}
		answers[i] = a
	}
	return answers, nil
}

func (q Question) limited(ctx context.Context, client *http.Client, url string) (*Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Limit, fmt.Errorf("no end of the answer within %v", Limit))
	defer cancel()
	a, err := q.Ask(ctx, client, url)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return a, err
}

// Counts are what was compared and found equal.
type Counts struct {
	Answers  int // of which HTTP 200
	Refusals int
	Tokens   int // of answers, by usage
	Logprobs int // tokens whose log-probabilities were compared
}

// Add sums up.
func (c *Counts) Add(d Counts) {
	c.Answers += d.Answers
	c.Refusals += d.Refusals
	c.Tokens += d.Tokens
	c.Logprobs += d.Logprobs
}

// Count adds an answer.
func (c *Counts) Count(a *Answer) {
	if a.Failure != nil {
		c.Refusals++
		return
	}
	c.Answers++
	c.Tokens += a.Tokens()
	for _, choice := range a.Choices {
		c.Logprobs += len(choice.Logprobs)
	}
}

func (c Counts) String() string {
	return fmt.Sprintf("%d answers and %d refusals equal (%d tokens, %d of them with log-probabilities)", c.Answers, c.Refusals, c.Tokens, c.Logprobs)
}

// Compare asks each question, in the given order, by so many clients at once, and stops at the first answer that is not the
// one wanted.
func Compare(ctx context.Context, client *http.Client, url string, questions []Question, want []*Answer, order []int, clients int) (Counts, error) {
	var counts Counts
	err := Each(ctx, client, url, questions, order, clients, func(i int, a *Answer, err error) error {
		if err == nil {
			err = differs(a, want[i])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", questions[i].Name, err)
		}
		counts.Count(a)
		return nil
	})
	return counts, err
}

// differs is Differs as an error.
func differs(a, want *Answer) error {
	if d := a.Differs(want); d != "" {
		return errors.New(d)
	}
	return nil
}

// Each asks each question, in the given order, by so many clients at once, and has every answer judged, one at a time. It stops
// at the first error of the judge.
func Each(ctx context.Context, client *http.Client, url string, questions []Question, order []int, clients int,
	judge func(i int, a *Answer, err error) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for range clients {
		wg.Go(func() {
			for i := range next {
				a, err := questions[i].limited(ctx, client, url)
				mu.Lock()
				if ctx.Err() == nil {
					err = judge(i, a, err)
				}
				mu.Unlock()
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for _, i := range order {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}
