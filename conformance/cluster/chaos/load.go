package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead/conformance/cluster/ask"
)

// hangLimit is the time in which every request must have ended, whatever is damaged.
const hangLimit = 45 * time.Second

// load is what the clients ask, and what they must hear.
type load struct {
	url       string
	questions []ask.Question
	want      []*ask.Answer
	tally     *tally
	abort     context.Context // ends when something is wrong: what is under way does not matter any more
}

// client asks one question after the other until ctx is done. The error is the first thing that is wrong.
func (l *load) client(ctx context.Context, rng *rand.Rand) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for ctx.Err() == nil {
		i := rng.IntN(len(l.questions))
		leave := time.Duration(-1)
		if rng.IntN(5) == 0 {
			leave = time.Duration(rng.IntN(400)) * time.Millisecond
		}
		before := l.tally.answers()
		if err := l.one(client, i, leave); err != nil {
			return fmt.Errorf("%s: %w", l.questions[i].Name, err)
		}
		if l.tally.answers() == before { // no answer, to anybody: clients do not hammer
			time.Sleep(time.Duration(50+rng.IntN(200)) * time.Millisecond)
		}
	}
	return nil
}

// one asks one question. A client that leaves hangs up after that time. The request is not cut short when the run is over:
// what has been asked must end.
func (l *load) one(client *http.Client, i int, leave time.Duration) error {
	ctx, cancel := context.WithTimeout(l.abort, hangLimit)
	defer cancel()
	left := make(chan struct{})
	if leave >= 0 {
		timer := time.AfterFunc(leave, func() { close(left); cancel() })
		defer timer.Stop()
	}
	start := time.Now()
	a, err := l.questions[i].Ask(ctx, client, l.url)
	took := time.Since(start)
	if d := a.Strays(l.want[i]); d != "" {
		return fmt.Errorf("a wrong token: %s", d)
	}
	select {
	case <-left:
		if err != nil { // an answer may have been whole before the client left
			l.tally.count(func() { l.tally.left++ })
			return nil
		}
	default:
	}
	switch {
	case l.abort.Err() != nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("no end within %v: it hangs", hangLimit)
	case err != nil:
		return err
	case a.Failure != nil:
		if err := clean(a); err != nil {
			return err
		}
		l.tally.fail(a)
	default:
		if d := a.Differs(l.want[i]); d != "" {
			return fmt.Errorf("a wrong answer: %s", d)
		}
		l.tally.count(func() { l.tally.right.Count(a) })
	}
	l.tally.count(func() { l.tally.longest = max(l.tally.longest, took) })
	return nil
}

// cleanCodes are what a request may end with when a worker was damaged under it. An integrity violation is none of them: no
// page is damaged here, so a page that is not its reader's own would have been mixed up.
var cleanCodes = map[string]bool{
	"internal_error": true, "service_unavailable": true, "server_draining": true, "rate_limit_exceeded": true, "deadline_exceeded": true,
}

// clean reports an error that does not say what it must: the questions are sound, so it is the server's, and one that sheds
// load says when to come back.
func clean(a *ask.Answer) error {
	f := a.Failure
	switch {
	case !cleanCodes[f.Code] || f.Message == "" || f.Type == "":
		return fmt.Errorf("HTTP %d with an error that may not be: %v", a.Status, f)
	case a.Status != 200 && a.Status < 500 && a.Status != http.StatusTooManyRequests:
		return fmt.Errorf("HTTP %d blames the client: %v", a.Status, f)
	case (a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable) && a.RetryAfter == "":
		return fmt.Errorf("HTTP %d without Retry-After: %v", a.Status, f)
	}
	return nil
}

// together runs clients and monkey for so long, and gives the first thing that is wrong. It returns when all have ended and
// everything is mended.
func together(ctx context.Context, limit time.Duration, rng *rand.Rand, l *load, m *monkey) error {
	abort, wrong := context.WithCancelCause(ctx)
	defer wrong(nil)
	l.abort = abort
	run, cancel := context.WithTimeout(abort, limit)
	defer cancel()
	var wg sync.WaitGroup
	start := func(f func(context.Context, *rand.Rand) error) {
		own := rand.New(rand.NewPCG(rng.Uint64(), 1))
		wg.Go(func() {
			if err := f(run, own); err != nil {
				wrong(err)
			}
		})
	}
	start(m.run)
	for range clientCount {
		start(l.client)
	}
	wg.Wait()
	l.abort = ctx
	return context.Cause(abort)
}
