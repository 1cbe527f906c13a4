package handoff

import "errors"

// ErrLost marks the end of a request whose room was lost: a worker does not reach the other one of the pair, or the connection
// between them has ended. It is neither worker's fault that is known, so whoever chose the pair can choose another.
var ErrLost = errors.New("the connection to the other worker of the pair was lost")
