package handoff

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
)

// Source is the side of a room that has the pages.
//
//	publishing --Sealed--> publishing ... --Commit--> retired
//	     |                                --Abandon-> retired
//	     +--Stop, nothing offered------------------> retired
//	     +--Stop--> stopping --Commit or Abandon---> retired
//	     +--------------+--Lost--------------------> retired
//
// The pages are pinned until it is retired, and Retired is the only thing that may unpin them.
type Source struct {
	room    bulkhead.Room
	pages   int // by its own count
	sealed  int
	offered bool // the target has been told of something, so it may be reading
	state   sourceState
	outcome Outcome
}

type sourceState uint8

const (
	publishing sourceState = iota
	stopping
	retired
)

func (s sourceState) String() string { return [...]string{"publishing", "stopping", "retired"}[s] }

// NewSource opens a room for a prefix of so many pages.
func NewSource(room bulkhead.Room, pages int) *Source {
	if room == 0 || pages < 0 {
		panic("handoff: room 0, or a negative number of pages")
	}
	return &Source{room: room, pages: pages}
}

// Room is the room's name.
func (s *Source) Room() bulkhead.Room { return s.room }

// Sealed says that the first n pages are sealed, and gives the offer to be sent. The last page may be partly filled, so it
// counts only when the prefix is complete. With no pages in the room, the first Sealed(0) makes an empty offer.
func (s *Source) Sealed(n int) (Message, error) {
	if s.state != publishing || n < s.sealed || n > s.pages {
		return Message{}, s.error(fmt.Sprintf("%d of %d pages sealed after %d", n, s.pages, s.sealed))
	}
	s.sealed, s.offered = n, true
	return Message{Room: s.room, Kind: Offer, Pages: n}, nil
}

// Stop says that there will be no more pages: the request has ended or left, or a page was not its own. It gives the
// message for the target, the first time. Where nothing was offered yet nobody can be reading: the room is retired at once.
func (s *Source) Stop() (Message, bool) {
	if s.state != publishing {
		return Message{}, false
	}
	s.state = stopping
	if !s.offered {
		s.state, s.outcome = retired, Abandoned
	}
	return Message{Room: s.room, Kind: Stop}, true
}

// Receive takes the target's end, or the carrier's word that the target is lost. What an Abandon says of a page is to be
// believed of pages that were offered only. An end may come before anything was offered: a target whose own cache has every
// page commits without pulling, and one whose request has left abandons.
func (s *Source) Receive(m Message) error {
	outcomes := map[Kind]Outcome{Commit: Committed, Abandon: Abandoned, Lost: Broken}
	outcome, ok := outcomes[m.Kind]
	if m.Room != s.room || s.state == retired || !ok {
		return s.error(m.Kind.String() + " of room " + m.Room.String())
	}
	s.state, s.outcome = retired, outcome
	return nil
}

// Publishing reports whether prefill should go on computing.
func (s *Source) Publishing() bool { return s.state == publishing }

// Retired reports whether the room is over: nobody reads its pages any more.
func (s *Source) Retired() bool { return s.state == retired }

// Outcome is how the room ended.
func (s *Source) Outcome() Outcome { return s.outcome }

func (s *Source) error(event string) error {
	return &Error{Room: s.room, Event: event, State: s.state.String()}
}
