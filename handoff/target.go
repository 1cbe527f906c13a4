package handoff

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
)

// Target is the side of a room that pulls.
//
//	waiting --Reserved--> pulling --all proven--> Commit --> committed
//	   |                     +--Stop, Lost, Failed--> fencing --nothing lands--> Abandon --> abandoned
//	   +--Stop, Lost------------------------------------------------------------> Abandon --> abandoned
//
// After each event the loop asks End: it says when the reservation is to be committed or abandoned, once, and with which
// message to the source.
type Target struct {
	room    bulkhead.Room
	state   targetState
	begun   bool        // an offer has come, if only of no pages
	offered int         // pages the source has sealed
	pages   []pageState // by the target's own count
	open    int         // pages that are landing
	missing int         // pages that are not proven
	bad     int         // a page that could not be proven, or -1
	ended   bool
}

type targetState uint8

const (
	waiting targetState = iota
	pulling
	fencing
	committed
	abandoned
)

func (s targetState) String() string {
	return [...]string{"waiting", "pulling", "fencing", "committed", "abandoned"}[s]
}

type pageState uint8

const (
	absent pageState = iota
	landing
	proven
)

// NewTarget enters a room whose prefix takes so many pages by the target's own count.
func NewTarget(room bulkhead.Room, pages int) *Target {
	if room == 0 || pages < 0 {
		panic("handoff: room 0, or a negative number of pages")
	}
	return &Target{room: room, pages: make([]pageState, pages), missing: pages, bad: -1}
}

// Room is the room's name.
func (t *Target) Room() bulkhead.Room { return t.room }

// Receive takes an Offer or a Stop of the source, or the carrier's word that the source is lost, which is a stop. An offer of more pages than the target's own tokens call for, or of fewer
// than before, is an error.
func (t *Target) Receive(m Message) error {
	over := t.state == committed || t.state == abandoned
	switch {
	case m.Room != t.room:
	case m.Kind == Stop, m.Kind == Lost:
		// The room may be over already: the two ends have crossed, and the source will hear of this side's.
		t.Stop()
		return nil
	case m.Kind == Offer && over, m.Kind == Offer && t.state == fencing:
		return nil // crossed as well
	case m.Kind == Offer && m.Pages >= t.offered && m.Pages <= len(t.pages):
		t.begun, t.offered = true, m.Pages
		return nil
	}
	return t.error(fmt.Sprintf("%v of %d pages in room %v, after %d of %d", m.Kind, m.Pages, m.Room, t.offered, len(t.pages)))
}

// Begun reports whether the source has begun: it has offered something, if only no pages.
func (t *Target) Begun() bool { return t.begun }

// Fencing reports whether the room was stopped and pages of it are landing: each is to be fenced as it arrives.
func (t *Target) Fencing() bool { return t.state == fencing }

// Missing is how many pages the source has not offered yet.
func (t *Target) Missing() int { return len(t.pages) - t.offered }

// Reserved says that pages have been reserved, and which of them the target's own cache had.
func (t *Target) Reserved(have func(page int) bool) error {
	if t.state != waiting {
		return t.error("reserved")
	}
	t.state = pulling
	for i := range t.pages {
		if have(i) {
			t.pages[i] = proven
			t.missing--
		}
	}
	t.settle()
	return nil
}

// Next is a page that can be pulled now.
func (t *Target) Next() (page int, ok bool) {
	if t.state != pulling {
		return 0, false
	}
	for i := range t.offered {
		if t.pages[i] == absent {
			return i, true
		}
	}
	return 0, false
}

// Pulling says that a landing was opened for the page.
func (t *Target) Pulling(page int) error {
	if t.state != pulling || page < 0 || page >= t.offered || t.pages[page] != absent {
		return t.error(fmt.Sprintf("pulling page %d", page))
	}
	t.pages[page] = landing
	t.open++
	return nil
}

// Proven says that the page's landing was closed with a proof.
func (t *Target) Proven(page int) error {
	if err := t.close(page, "proven"); err != nil {
		return err
	}
	if t.state == pulling {
		t.pages[page] = proven
		t.missing--
	}
	t.settle()
	return nil
}

// Failed says that the page's landing was closed and it could not be proven. There is no second try.
func (t *Target) Failed(page int) error {
	if err := t.close(page, "failed"); err != nil {
		return err
	}
	t.bad = page
	t.Stop()
	return nil
}

// Fenced says that the page's landing was closed without a proof, because the target stopped.
func (t *Target) Fenced(page int) error {
	if t.state != fencing {
		return t.error(fmt.Sprintf("fenced page %d", page))
	}
	if err := t.close(page, "fenced"); err != nil {
		return err
	}
	t.settle()
	return nil
}

func (t *Target) close(page int, event string) error {
	if page < 0 || page >= len(t.pages) || t.pages[page] != landing {
		return t.error(fmt.Sprintf("%s page %d", event, page))
	}
	t.pages[page] = absent
	t.open--
	return nil
}

// Stop ends the room without a commit: the request has left, or the source has stopped or is lost. What lands is to be
// fenced first: Landing names it. After the room is over it does nothing.
func (t *Target) Stop() {
	if t.state == waiting || t.state == pulling {
		t.state = fencing
		t.settle()
	}
}

// Landing are the pages with an open landing.
func (t *Target) Landing() (pages []int) {
	for i, s := range t.pages {
		if s == landing {
			pages = append(pages, i)
		}
	}
	return pages
}

// settle makes the end where everything for it is there.
func (t *Target) settle() {
	switch {
	case t.state == pulling && t.missing == 0:
		t.state = committed
	case t.state == fencing && t.open == 0:
		t.state = abandoned
	}
}

// End is the room's outcome and the message that tells the source, the first time that there is one; Pending before and
// after. The loop commits or abandons the reservation, and then sends.
func (t *Target) End() (Outcome, Message) {
	if t.ended || t.state != committed && t.state != abandoned {
		return Pending, Message{}
	}
	t.ended = true
	if t.state == committed {
		return Committed, Message{Room: t.room, Kind: Commit}
	}
	return Abandoned, Message{Room: t.room, Kind: Abandon, Page: t.bad}
}

// Outcome is how the room ended.
func (t *Target) Outcome() Outcome {
	switch t.state {
	case committed:
		return Committed
	case abandoned:
		return Abandoned
	}
	return Pending
}

func (t *Target) error(event string) error {
	return &Error{Room: t.room, Event: event, State: t.state.String()}
}
