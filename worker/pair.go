package worker

import (
	"context"
	"crypto/rand"
	"encoding/binary"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff/inproc"
)

// Pair is a prefill and a decode worker of one process, joined by an in-process handoff and sharing one engine.
//
// They are the same two workers that run apart. What a pair adds is that each request is ordered from both at once, that
// they take turns at the engine, and that what decode computes for a tenant counts in prefill's shares. The client reads
// decode's stream; how prefill ends concerns decode alone. Everything that is queued is bounded by the workers' own bounds.
type Pair struct {
	cfg     Config
	link    *inproc.Link
	prefill *PrefillWorker
	decode  *DecodeWorker
}

// NewPair makes the pools and starts both loops. It refuses limits that contradict each other, among them a window that
// does not fit both pools.
func NewPair(cfg Config) (*Pair, error) {
	p, err := newPair(cfg)
	if err != nil {
		return nil, err
	}
	p.prefill.start(p.prefill.loop)
	p.decode.start(p.decode.loop)
	return p, nil
}

// newPair makes a pair whose loops do not run yet.
func newPair(cfg Config) (*Pair, error) {
	if err := cfg.check(bulkhead.RolePair); err != nil {
		return nil, err
	}
	p := &Pair{cfg: cfg, link: inproc.New()}
	t := newTurn()
	one := cfg
	one.Observer, one.Limits.Role = quiet{cfg.Observer}, bulkhead.RolePrefill
	var err error
	if p.prefill, err = newPrefill(one, p.link.Outlet(), t); err != nil {
		return nil, err
	}
	other := cfg
	other.Limits.Role = bulkhead.RoleDecode
	if p.decode, err = newDecode(other, p.link.Inlet(), t); err != nil {
		p.prefill.free()
		return nil, err
	}
	p.decode.charge, p.decode.busy = p.prefill.charge, pullBusy
	endPrefill, endDecode := p.prefill.die, p.decode.die
	both := func(err error) { endDecode(err); endPrefill(err) }
	p.prefill.die, p.decode.die = both, both
	return p, nil
}

// Limits are what the pair holds to now: pages that were set aside have left the pools, and where the window no longer fits
// it is smaller.
func (p *Pair) Limits() bulkhead.Limits {
	l := p.cfg.Limits
	l.PrefillPool, l.DecodePool = p.prefill.Limits().PrefillPool, p.decode.Limits().DecodePool
	l.Window = min(l.Window, l.FitWindow())
	return l
}

// Submit takes a request, or refuses it: over the limits as they are now, a token that the model does not have, queue
// full, draining. The admission that made a is not believed: it was by somebody else's limits. Where one worker refuses, the
// other is taken back.
func (p *Pair) Submit(a bulkhead.Admitted) (*Stream, *bulkhead.Refusal) {
	a, refusal := p.Limits().Admit(a.Request())
	if refusal == nil {
		o, c := Order{Request: a, Room: newRoom()}, new(cached)
		var prefill *Stream
		if prefill, refusal = p.prefill.take(o, c); refusal == nil {
			decode, refusal := p.decode.take(o, c)
			if refusal != nil {
				prefill.Leave()
			}
			return decode, refusal
		}
	}
	p.decode.count.refused(refusal.Code)
	return nil, refusal
}

// newRoom mints a room.
func newRoom() bulkhead.Room {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails: see crypto/rand
		if r := bulkhead.Room(binary.LittleEndian.Uint64(b[:]) >> 1); r != 0 {
			return r
		}
	}
}

// Drain takes no new requests from now on and waits until those that are there have ended. When Limits.DrainTimeout has
// passed or ctx is done, the rest end as Refused with server_draining; the error says how many.
func (p *Pair) Drain(ctx context.Context) error {
	p.prefill.close()
	return p.decode.Drain(ctx)
}

// Close ends what is left as Failed, waits until all pages are back and both loops have ended, and gives the arenas back.
// A second Close does nothing more.
func (p *Pair) Close() {
	p.prefill.close()
	p.decode.cut()
	p.prefill.cut()
	p.decode.wait()
	p.prefill.wait()
}

// Flush drops the cached pages of both pools that nobody reads, and says how many there were.
func (p *Pair) Flush() int { return p.prefill.Flush() + p.decode.Flush() }

// Snapshot is the state of the pair now, the pools as they were after each loop's last turn.
func (p *Pair) Snapshot() Snapshot {
	s, d := p.prefill.Snapshot(), p.decode.Snapshot()
	s.Limits, s.Draining, s.Decode = p.Limits(), d.Draining, d.Decode
	s.SetBack, s.Running, s.Counters = d.SetBack, d.Running, joined(s.Counters, d.Counters)
	return s
}
