package worker

import "time"

// turn is the right to use the engine. The two loops that share it get it in the order in which they asked: a channel
// hands over to whoever has waited longest, so the loop that has just had its turn stands behind the other. Chunks of
// prefill and steps of decode alternate while both have work, and neither waits for more than one of the other's.
type turn chan struct{}

func newTurn() turn {
	t := make(turn, 1)
	t <- struct{}{}
	return t
}

func (t turn) take() { <-t }
func (t turn) pass() { t <- struct{}{} }

// bell wakes a loop that waits for something to do. Ringing twice is ringing once.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// wait returns when the bell rings, or at the deadline, if there is one.
func (b bell) wait(deadline time.Time) {
	var timeout <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-b:
	case <-timeout:
	}
}
