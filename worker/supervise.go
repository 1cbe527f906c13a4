package worker

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/internal/invariant"
)

// farewell is how long clients may be told of the end of a process that cannot go on.
const farewell = 200 * time.Millisecond

// supervise runs a loop. A panic in it is a bug, of the loop or of the engine under it, and nobody knows any more whose the
// pages are. So nothing is given back, tried again or computed for anybody: every request ends as Failed, no new one is
// taken, and the process ends with the panic. A supervisor outside starts it again, with empty pools.
func (c *core) supervise(loop func()) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		c.cfg.Log.Error("a loop panicked: every request ends and so does the process", "side", c.side.String(), "panic", fmt.Sprint(v),
			"stack", string(debug.Stack()))
		told := make(chan struct{})
		go func() { // it may wait for a lock that the loop held
			defer close(told)
			c.die(fmt.Errorf("the %v loop panicked: %v", c.side, v))
		}()
		bye := time.After(farewell)
		select {
		case <-told:
			<-bye // whoever reads the ends passes them on meanwhile
		case <-bye:
		}
		panic(v)
	}()
	loop()
}

// ran holds a result against the sequence that it speaks of, before anything of it leaves: the runner has checked, compared
// and appended, or it has found a violation and the sequence is dead. Anything else is a bug of the runner's.
func ran(w *engine.Work, before bulkhead.Tokens, r *engine.Result) {
	if r.Violation != nil {
		invariant.Check(w.Seq.Dead(), "worker: a violation, and its sequence goes on")
		return
	}
	invariant.Check(!w.Seq.Dead(), "worker: a result of a sequence that is dead")
	invariant.Check(w.Seq.Len() == before+bulkhead.Tokens(len(w.Tokens)), "worker: a result of tokens that the sequence does not hold")
	invariant.Check(!w.Logits || r.Logits != nil, "worker: a result without the logits that were asked for")
}
