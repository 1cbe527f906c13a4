package openai

import "github.com/bulkhead-llm/bulkhead"

// Member is one member of an object as it stands in the text.
type Member struct {
	Name  string
	Value []byte // as it was written: numbers keep their digits

	key, end int // from the first byte of the key to the one behind the value
}

// Split reads a body as strictly as the parsers here do (duplicate keys at any depth, invalid UTF-8, half surrogates and
// numbers of absurd length are refused, nesting is bounded) and gives the members of the object in their order. It
// understands nothing of their values.
func Split(body []byte) (members []Member, ref *bulkhead.Refusal) {
	ref = parse(body, func(r *reader) {
		key := r.pos
		r.object(func(name string) {
			for body[key] != '"' { // space, and the brace or comma in front
				key++
			}
			r.space()
			start := r.pos
			r.skip()
			members = append(members, Member{name, body[start:r.pos], key, r.pos})
			key = r.pos
		})
	})
	if ref != nil {
		return nil, ref
	}
	return members, nil
}

// Without is the body that Split read, without the members that drop names. What stays is byte for byte what it was.
func Without(body []byte, members []Member, drop func(Member) bool) []byte {
	out := append(make([]byte, 0, len(body)), '{')
	for _, m := range members {
		if drop(m) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, body[m.key:m.end]...)
	}
	return append(out, '}')
}
