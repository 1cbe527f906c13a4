package tcp

import (
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// A batch is what the writer takes in hand at once: few system calls, and not so much that a control frame waits long.
const (
	batchBytes = 1 << 20
	batchPages = 16
)

// next is what to write now: control frames, offers, and pages straight from where the source has pinned them.
func (s *serving) next() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return nil
	}
	s.makeOffers()
	s.iov = s.iov[:0]
	if out := s.take(); len(out) > 0 {
		s.iov = append(s.iov, out)
	}
	s.takeSends()
	s.fillSlots()
	s.frame()
	return s.iov
}

// makeOffers turns what was published since into frames: one a room, however often it published.
func (s *serving) makeOffers() {
	for i, e := range s.offers {
		s.offers[i] = nil
		e.offering = false
		if !e.stopped.IsZero() || e.ending != nil || e.room == nil || e.room.ended {
			continue
		}
		e.offered = len(e.room.pages)
		s.out = wire.AppendOffer(s.out, e.id, e.offered)
	}
	s.offers = s.offers[:0]
}

// takeSends takes pages in hand, as many as a batch has, and with a ring as many as it has slots for.
func (s *serving) takeSends() {
	s.hand = s.hand[:0]
	for size := 0; s.sends.len() > 0 && len(s.hand) < batchPages && size < batchBytes; {
		slot := -1
		if s.ring != nil {
			var ok bool
			if slot, ok = s.ring.take(); !ok {
				return
			}
		}
		x := s.sends.pop()
		x.slot = slot
		x.e.queued--
		x.e.writing++
		size += len(x.data)
		s.hand = append(s.hand, x)
	}
}

// fillSlots copies the pages in hand into their slots of the ring. The lock is let go meanwhile: the pages are pinned until
// written has given them back.
func (s *serving) fillSlots() {
	if len(s.hand) == 0 || s.ring == nil || s.hand[0].slot < 0 {
		return
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	for _, x := range s.hand {
		copy(s.ring.slot(x.slot), x.data)
	}
}

// frame puts the frames of the pages in hand, and those that go by the stream, behind each other.
func (s *serving) frame() {
	s.head = s.head[:0]
	const size = wire.HeaderBytes + 24
	if need := size * batchPages; cap(s.head) < need {
		s.head = make([]byte, 0, need)
	}
	for _, x := range s.hand {
		at := len(s.head)
		p := wire.Page{Page: x.page, Bytes: len(x.data)}
		if x.slot >= 0 {
			p.Ring, p.Offset = true, s.ring.offset(x.slot)
		}
		s.head = wire.AppendPage(s.head, x.e.id, p)
		s.iov = append(s.iov, s.head[at:])
		if x.slot < 0 {
			s.iov = append(s.iov, x.data)
		}
	}
}

// written gives back what the writer had in hand: the write has returned, well or not.
func (s *serving) written(well bool) {
	told := false
	s.mu.Lock()
	for i, x := range s.hand {
		s.hand[i] = send{}
		x.e.writing--
		s.pulls--
		s.flight -= int64(len(x.data))
		s.o.tally.page(len(x.data), x.slot >= 0, well)
		told = told || x.e.ending != nil
		x.e.settle()
	}
	s.hand = s.hand[:0]
	s.mu.Unlock()
	if told {
		s.o.wake()
	}
}
