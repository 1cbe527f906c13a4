package jinja

import "fmt"

// Limits bound what a template may do, since it comes out of a file that somebody else made. They are far above what
// real templates need. Not bounded is the memory that the parsed template itself takes: a few hundred bytes for each
// byte of at most SourceBytes.
const (
	// SourceBytes is the longest template. The longest known ones have 30 kB.
	SourceBytes = 1 << 20
	// nestingLimit is how deep expressions, blocks and values may be nested.
	nestingLimit = 100
	// callLimit is how deep macros may call one another.
	callLimit = 50
	// stepsLimit is how many nodes a rendering may evaluate, and elements it may handle.
	stepsLimit = 4 << 20
	// growthLimit is how many bytes all the strings that a rendering makes may have, together, beyond growthFactor times
	// the size of what was given to it.
	growthLimit  = 64 << 20
	growthFactor = 64
)

// Error is a template that cannot be parsed or rendered.
type Error struct {
	Line int // of the template, 0 where it is not known
	Text string
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("chat template, line %d: %s", e.Line, e.Text)
	}
	return "chat template: " + e.Text
}

// Raised is the template's own refusal (raise_exception): its author's words, meant for whoever sent the messages.
type Raised struct{ Text string }

func (e *Raised) Error() string { return e.Text }

// fail ends parsing or rendering: the interpreter unwinds by panic, as text/template does, and only this package's
// errors are caught.
func fail(format string, args ...any) { panic(&Error{Text: fmt.Sprintf(format, args...)}) }

func failAt(line int, format string, args ...any) { panic(&Error{line, fmt.Sprintf(format, args...)}) }

// catch turns the panic of fail into an error. Anything else is a bug and goes on.
func catch(err *error) {
	switch e := recover().(type) {
	case nil:
	case *Error:
		*err = e
	case *Raised:
		*err = e
	default:
		panic(e)
	}
}

// meter counts what a rendering does.
type meter struct {
	steps int
	bytes int
	depth int
	calls int
}

func newMeter(given int) *meter {
	return &meter{steps: stepsLimit, bytes: growthLimit + growthFactor*given}
}

func (m *meter) step(n int) {
	if m.steps -= n; m.steps < 0 || n < 0 {
		fail("rendering takes more than %d steps", stepsLimit)
	}
}

func (m *meter) grow(n int) {
	if m.bytes -= n; m.bytes < 0 || n < 0 {
		fail("rendering makes more text than is allowed")
	}
}

// enter and leave go round everything that nests.
func (m *meter) enter() {
	if m.depth++; m.depth > nestingLimit*callLimit {
		fail("nested too deeply")
	}
}

func (m *meter) leave() { m.depth-- }
