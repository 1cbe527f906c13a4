package worker

import (
	"context"
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
)

// ended takes a job that has ended off the list, and tells Drain when it was the last.
func (c *core) ended(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.jobs, j.ticket)
	c.tellIdle()
}

func (c *core) tellIdle() {
	if !c.draining || len(c.jobs) > 0 {
		return
	}
	select {
	case <-c.idle:
	default:
		close(c.idle)
	}
}

// close takes no new requests from now on.
func (c *core) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	c.tellIdle()
}

func (c *core) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// Drain takes no new requests from now on and waits until those that are there have ended. When Limits.DrainTimeout has
// passed or ctx is done, the rest end as Refused with server_draining; the error says how many.
func (c *core) Drain(ctx context.Context) error {
	if d := c.cfg.Limits.DrainTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	c.close()
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
	}
	if n := c.endAll(func(j *job) { c.refuse(j, c.drainingRefusal()) }); n > 0 {
		return fmt.Errorf("%d requests had not ended and were cut off: %w", n, ctx.Err())
	}
	return nil
}

// endAll ends all jobs that are left and says how many there were.
func (c *core) endAll(end func(*job)) int {
	c.mu.Lock()
	c.draining = true
	c.tellIdle()
	rest := make([]*job, 0, len(c.jobs))
	for _, j := range c.jobs {
		rest = append(rest, j)
	}
	c.mu.Unlock()
	for _, j := range rest {
		end(j)
	}
	return len(rest)
}

// Close ends what is left as Failed, waits until all pages are back and the loop has ended, and gives the arena back. A page
// is back when the other side has said, or its carrier, that nobody reads or writes it: close the carrier first where
// that is not to be waited for. A second Close does nothing more.
func (c *core) Close() {
	c.cut()
	c.wait()
}

// cut ends what is left and has the loop end when nothing is held any more.
func (c *core) cut() {
	c.endAll(func(j *job) { c.end(j, bulkhead.End{Reason: bulkhead.Failed, Err: errClosed}) })
	c.stop()
	c.bell.ring()
}

func (c *core) wait() {
	c.loops.Wait()
	c.free()
	c.free = func() {}
}

// Flush drops the cached pages that nobody reads, and says how many there were.
func (c *core) Flush() int {
	freed := make(chan int, 1)
	if !c.ask(func() { freed <- c.pool.Flush() }) {
		return 0
	}
	return <-freed
}

// ask has the loop do something between two steps. False where it has ended.
func (c *core) ask(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.done:
		return false
	default:
	}
	c.asks = append(c.asks, f)
	c.bell.ring()
	return true
}

// answer does what the loop was asked for.
func (c *core) answer() {
	c.mu.Lock()
	asks := c.asks
	c.asks = nil
	c.mu.Unlock()
	for _, f := range asks {
		f()
	}
}

// hush says that the loop has ended, after a last look at what it was asked.
func (c *core) hush() {
	c.mu.Lock()
	close(c.done)
	c.mu.Unlock()
	c.answer()
}
