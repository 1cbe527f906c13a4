package token

// memory remembers where in the result of an encoding the tokens of a piece stand, since texts repeat their words. It
// lives for one text.
type memory map[string]span

type span struct{ from, to int }

// What is remembered: short pieces, and not too many.
const (
	memoryPieces = 4096
	memoryBytes  = 64
)

func (m memory) keep(piece string, from, to int) {
	if len(piece) <= memoryBytes && len(m) < memoryPieces {
		m[piece] = span{from, to}
	}
}
