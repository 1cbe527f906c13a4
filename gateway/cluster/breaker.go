package cluster

import "time"

// breaker keeps requests away from what fails: a worker, or the link between the two of a pair. It counts what is its
// owner's fault and nothing else; a request that was refused for what it is moves nothing.
//
//	closed    -- Failures in a row, or half of the last Window --> open
//	open      -- the backoff has passed, one request is let through --> half open
//	half open -- it went well --> closed;  badly --> open, for twice as long;  neither --> open, to be tried at once
//
// An outcome belongs to the state under which its request was let through (a pass): what was on its way before the breaker
// opened says nothing of how things are after it.
type breaker struct {
	cfg BreakerConfig

	state    breakerState
	pass     pass // of the present state
	row      int  // failures in a row
	recent   []bool
	next     int // place in recent
	failures int // in recent
	until    time.Time
	backoff  time.Duration
}

// pass is the state under which a request was let through.
type pass uint64

type breakerState uint8

const (
	closed breakerState = iota
	open
	halfOpen
)

func (s breakerState) String() string { return [...]string{"closed", "open", "half_open"}[s] }

// BreakerConfig says when a breaker opens and for how long.
type BreakerConfig struct {
	Failures int           // in a row, that open it; 0: 3
	Window   int           // outcomes of which half may fail; 0: 20
	Backoff  time.Duration // of the first opening, doubled by each trial that fails; 0: 1 s
	Most     time.Duration // longest backoff; 0: 30 s
}

func (c BreakerConfig) withDefaults() BreakerConfig {
	c.Failures, c.Window = orDefault(c.Failures, 3), orDefault(c.Window, 20)
	c.Backoff, c.Most = orDefault(c.Backoff, time.Second), orDefault(c.Most, 30*time.Second)
	return c
}

func newBreaker(cfg BreakerConfig) *breaker {
	return &breaker{cfg: cfg, recent: make([]bool, 0, cfg.Window), backoff: cfg.Backoff}
}

// allows says whether a request may be let through now. It changes nothing.
func (b *breaker) allows(now time.Time) bool {
	return b.state == closed || b.state == open && !now.Before(b.until)
}

// enter lets a request through, which allows said may be.
func (b *breaker) enter(now time.Time) pass {
	if b.state == open && !now.Before(b.until) {
		b.become(halfOpen)
	}
	return b.pass
}

// good is a request that went well.
func (b *breaker) good(p pass) {
	if p != b.pass || b.state == open {
		return
	}
	if b.state == halfOpen {
		b.backoff = b.cfg.Backoff
		b.become(closed)
		return
	}
	b.row = 0
	b.note(false)
}

// bad is a request that failed, and says whether the breaker opened by it.
func (b *breaker) bad(p pass, now time.Time) (opened bool) {
	if p != b.pass || b.state == open {
		return false
	}
	if b.state == halfOpen {
		b.backoff = min(2*b.backoff, b.cfg.Most)
		b.open(now)
		return true
	}
	b.row++
	b.note(true)
	if b.row < b.cfg.Failures && (len(b.recent) < b.cfg.Window || 2*b.failures < b.cfg.Window) {
		return false
	}
	b.open(now)
	return true
}

// neither is a request that says nothing of its owner: refused for what it is, or left by its client. A trial that ends so
// is owed still.
func (b *breaker) neither(p pass, now time.Time) {
	if p == b.pass && b.state == halfOpen {
		b.until = now
		b.become(open)
	}
}

func (b *breaker) open(now time.Time) {
	b.until = now.Add(b.backoff)
	b.become(open)
}

// become changes the state and forgets what was counted in the one before.
func (b *breaker) become(s breakerState) {
	b.state, b.row, b.failures, b.next, b.recent = s, 0, 0, 0, b.recent[:0]
	b.pass++
}

// note keeps the last Window outcomes.
func (b *breaker) note(failed bool) {
	if len(b.recent) < b.cfg.Window {
		b.recent = append(b.recent, failed)
	} else {
		if b.recent[b.next] {
			b.failures--
		}
		b.recent[b.next] = failed
		b.next = (b.next + 1) % b.cfg.Window
	}
	if failed {
		b.failures++
	}
}
