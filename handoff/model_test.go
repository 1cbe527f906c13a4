package handoff

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
)

const testRoom bulkhead.Room = 7

// world is both sides of one room and the messages on their way. The model is small enough to be walked as a whole: every
// order of events that two loops and two first-in-first-out channels allow.
type world struct {
	s        Source
	t        Target
	toTarget []Message
	toSource []Message
	ends     int  // how often End said something
	stopped  bool // some side stopped
	alone    bool // the source stopped before it had offered anything, and is gone
	cut      bool // the connection is lost: nothing is on its way any more
	told     bool // and the source has been told
}

func (w world) clone() world {
	w.t.pages = slices.Clone(w.t.pages)
	w.toTarget, w.toSource = slices.Clone(w.toTarget), slices.Clone(w.toSource)
	return w
}

func (w world) key() string { return fmt.Sprintf("%+v", w) }

// moves are all events that may come next, each with its name.
func (w world) moves() map[string]func(*world) error {
	m := make(map[string]func(*world) error)
	if w.s.Publishing() {
		for n := w.s.sealed + 1; n <= w.s.pages; n++ {
			m[fmt.Sprint("seal ", n)] = func(w *world) error {
				msg, err := w.s.Sealed(n)
				w.toTarget = append(w.toTarget, msg)
				return err
			}
		}
		m["source stops"] = func(w *world) error {
			w.stopped = true
			if msg, ok := w.s.Stop(); ok {
				w.toTarget = append(w.toTarget, msg)
			}
			if w.s.Retired() {
				w.alone = true
			}
			return nil
		}
	}
	if len(w.toTarget) > 0 && w.ends == 0 { // the loop forgets a room that has ended
		m["target receives"] = func(w *world) error {
			msg := w.toTarget[0]
			w.toTarget = w.toTarget[1:]
			return w.t.Receive(msg)
		}
	}
	if len(w.toSource) > 0 && !w.alone { // and so does the source's
		m["source receives"] = func(w *world) error {
			msg := w.toSource[0]
			w.toSource = w.toSource[1:]
			return w.s.Receive(msg)
		}
	}
	if w.t.state == waiting {
		for _, have := range []int{-1, 0, 1, 2} { // none, one page, both
			m[fmt.Sprint("reserve, have ", have)] = func(w *world) error {
				return w.t.Reserved(func(i int) bool { return i == have || have == 2 })
			}
		}
	}
	w.lose(m)
	if i, ok := w.t.Next(); ok && !w.cut {
		m["pull"] = func(w *world) error { return w.t.Pulling(i) }
	}
	for _, i := range w.t.Landing() {
		if w.t.state == pulling {
			m[fmt.Sprint("prove ", i)] = func(w *world) error { return w.t.Proven(i) }
			m[fmt.Sprint("fail ", i)] = func(w *world) error { w.stopped = true; return w.t.Failed(i) }
		} else {
			m[fmt.Sprint("fence ", i)] = func(w *world) error { return w.t.Fenced(i) }
		}
	}
	if w.t.Outcome() == Pending {
		m["target stops"] = func(w *world) error { w.stopped = true; w.t.Stop(); return nil }
	}
	return m
}

// lose are the events of a connection that breaks, in every state of either side. What is on its way is gone. The target hears
// of it, and pages that were landing arrive with an error or have arrived before; the source hears of it when the carrier
// reads no more, unless the target's end was there already.
func (w world) lose(m map[string]func(*world) error) {
	if over := w.s.Retired() && w.t.Outcome() != Pending; !w.cut && !over {
		m["lost"] = func(w *world) error {
			w.cut, w.stopped, w.toTarget = true, true, nil
			if w.t.Outcome() == Pending {
				w.toTarget = []Message{{Room: testRoom, Kind: Lost}}
			}
			return nil
		}
	}
	if w.cut && !w.told && !w.alone && !w.s.Retired() && len(w.toSource) == 0 {
		m["source hears of it"] = func(w *world) error {
			w.told = true
			return w.s.Receive(Message{Room: testRoom, Kind: Lost})
		}
	}
	if w.cut {
		for _, i := range w.t.Landing() {
			m[fmt.Sprint("not arrived ", i)] = func(w *world) error {
				w.t.Stop()
				return w.t.Fenced(i)
			}
		}
	}
}

// check is what must hold after every event.
func (w *world) check() error {
	if out, msg := w.t.End(); out != Pending {
		if w.ends++; !w.cut {
			w.toSource = append(w.toSource, msg)
		}
	}
	switch {
	case w.ends > 1:
		return fmt.Errorf("%d ends", w.ends)
	case w.t.open > 0 && w.s.Retired() && !w.told:
		return fmt.Errorf("the source let go while the target reads")
	case w.t.Outcome() == Pending && w.s.Retired() && !w.alone && !w.told:
		return fmt.Errorf("the source let go and the target is still at it")
	case w.t.Outcome() == Committed && w.t.missing > 0:
		return fmt.Errorf("committed with %d pages missing", w.t.missing)
	case w.t.Outcome() != Pending && w.t.open > 0:
		return fmt.Errorf("over with %d landings open", w.t.open)
	case w.told && w.s.Outcome() != Broken:
		return fmt.Errorf("lost, and the source says %v", w.s.Outcome())
	case w.s.Retired() && !w.alone && !w.told && w.s.Outcome() != w.t.Outcome():
		return fmt.Errorf("the source says %v, the target %v", w.s.Outcome(), w.t.Outcome())
	}
	return nil
}

// Every order of events keeps the pages pinned while they can be read and ends in one outcome on which both sides agree;
// and wherever the room has got to, it can still end.
func TestEveryOrder(t *testing.T) {
	type node struct {
		world
		path []string
	}
	start := world{s: *NewSource(testRoom, 2), t: *NewTarget(testRoom, 2)}
	seen := map[string]bool{start.key(): true}
	outcomes := map[string]int{}
	for queue := []node{{world: start}}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		moves := n.moves()
		if len(moves) == 0 {
			if !n.s.Retired() || n.t.Outcome() == Pending {
				t.Fatalf("nothing more can happen and the room is not over, after %v: %+v", n.path, n.world)
			}
			outcomes[fmt.Sprintf("%v, stopped %v", n.s.Outcome(), n.stopped)]++
		}
		for name, move := range moves {
			next := node{n.clone(), append(slices.Clone(n.path), name)}
			if err := move(&next.world); err != nil {
				t.Fatalf("%v: %v", next.path, err)
			}
			if err := next.check(); err != nil {
				t.Fatalf("%v: %v", next.path, err)
			}
			if key := next.key(); !seen[key] {
				seen[key] = true
				queue = append(queue, next)
			}
		}
	}
	t.Logf("%d states; ends: %v", len(seen), outcomes)
	for _, want := range []string{"committed, stopped false", "committed, stopped true", "abandoned, stopped true", "lost, stopped true"} {
		if outcomes[want] == 0 {
			t.Errorf("no order ends %s", want)
		}
	}
	if outcomes["abandoned, stopped false"] > 0 {
		t.Error("abandoned though nobody stopped")
	}
}
