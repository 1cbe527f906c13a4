package bulkhead

import (
	"errors"
	"fmt"
)

// ErrViolation marks every [Violation]; test with errors.Is.
var ErrViolation = errors.New("kv integrity violation")

// Part is what of a page was not as its reader expects.
type Part string

// The parts of a page that a reader compares.
const (
	PartIdentity Part = "identity" // who the page says it is
	PartFilled   Part = "filled"   // how many tokens it says it holds
	PartK        Part = "k"        // the bytes of a layer's K
	PartV        Part = "v"        // the bytes of a layer's V
)

// Violation is a page that is not what its reader expects. It fails the one request that met it, is never retried on the
// same pages, and sets the page aside. It says nothing of what the page holds, so it is fit for a log; a client is told
// its kind only.
type Violation struct {
	Page     PageIndex
	At       int // place of the page in its sequence
	Layer    int // -1 where the whole page is meant
	Part     Part
	Expected string
	Found    string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%v: page %d (number %d of its sequence), layer %d, %s: expected %s, found %s",
		ErrViolation, v.Page, v.At, v.Layer, v.Part, v.Expected, v.Found)
}

// Is makes errors.Is(v, ErrViolation) true.
func (v *Violation) Is(target error) bool { return target == ErrViolation }
