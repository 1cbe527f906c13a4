// Package stop finds stop strings in an answer as it comes.
package stop

import "strings"

// Finder looks for stop strings in an answer as it comes. The answer ends where the first stop string is complete, and
// what is given out is the text in front of it; of two that are complete at the same place, the longer one counts. So
// what comes out does not depend on how the text was cut into tokens.
//
// What may be the beginning of a stop string is held back until it is one or cannot be one: no part of a stop string ever
// leaves.
type Finder struct {
	Stops []string // none is empty
	held  string
}

// Next takes more text and gives out what can be; found says that a stop string is complete.
func (s *Finder) Next(text string) (out string, found bool) {
	if len(s.Stops) == 0 {
		return text, false
	}
	old := len(s.held)
	s.held += text
	at, end := -1, len(s.held)+1
	for _, stop := range s.Stops {
		from := max(0, old-len(stop)+1) // whatever is complete now ends in the new text
		if i := strings.Index(s.held[from:], stop); i >= 0 {
			i += from
			if e := i + len(stop); e < end || e == end && i < at {
				at, end = i, e
			}
		}
	}
	if at >= 0 {
		out, s.held = s.held[:at], ""
		return out, true
	}
	keep := s.begun()
	out, s.held = s.held[:len(s.held)-keep], s.held[len(s.held)-keep:]
	return out, false
}

// begun is how many bytes at the end may be the beginning of a stop string.
func (s *Finder) begun() int {
	longest := 0
	for _, stop := range s.Stops {
		for n := min(len(stop)-1, len(s.held)); n > longest; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// Flush is what was held back: the answer has ended otherwise.
func (s *Finder) Flush() string {
	out := s.held
	s.held = ""
	return out
}
