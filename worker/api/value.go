package api

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// Values are valid JSON when they come here: openai.Split has read the whole body. What is left to look at is whether they
// are what the field wants.

func isNull(v []byte) bool { return string(v) == "null" }

// kind is a value's type, as errors call it.
func kind(v []byte) string {
	switch v[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func wrong(path, want string, v []byte) *bulkhead.Refusal {
	return bulkhead.Refuse(bulkhead.CodeInvalid, path, "`%s` must be %s, got %s", path, want, kind(v))
}

// scalar reads a value into dst, which is no list and no object. want is what errors call it.
func scalar[T any](path, want string, v []byte, dst *T) *bulkhead.Refusal {
	if json.Unmarshal(v, dst) == nil {
		return nil
	}
	if kind(v) == "a number" {
		return bulkhead.Refuse(bulkhead.CodeInvalid, path, "`%s` is %s: must be %s", path, short(string(v)), want)
	}
	return wrong(path, want, v)
}

// optional reads a value that may be absent.
func optional[T any](path, want string, v []byte, dst **T) *bulkhead.Refusal {
	x := new(T)
	if ref := scalar(path, want, v, x); ref != nil {
		return ref
	}
	*dst = x
	return nil
}

// elements are those of an array, at most limit.
func elements(path string, v []byte, limit int) (list []json.RawMessage, _ *bulkhead.Refusal) {
	if kind(v) != "an array" {
		return nil, wrong(path, "an array", v)
	}
	if err := json.Unmarshal(v, &list); err != nil {
		return nil, wrong(path, "an array", v)
	}
	if len(list) > limit {
		return nil, bulkhead.Refuse(bulkhead.CodeInvalid, path, "`%s` has %d elements: at most %d are taken", path, len(list), limit)
	}
	return list, nil
}

// one or many are a value, or a list of them with the same meaning.
func oneOrMany[T any](path, want string, v []byte, limit int) (out []T, ref *bulkhead.Refusal) {
	list := []json.RawMessage{v}
	if kind(v) == "an array" {
		if list, ref = elements(path, v, limit); ref != nil {
			return nil, ref
		}
	}
	out = make([]T, len(list))
	for i, e := range list {
		if isNull(e) {
			return nil, wrong(path, want, e)
		}
		if ref := scalar(path, want, e, &out[i]); ref != nil {
			return nil, ref
		}
	}
	return out, nil
}

// tokens reads a flat array of token ids. It is by hand because a prompt has many, and because null and 1.0 are no ids.
func tokens(path string, v []byte) ([]bulkhead.Token, *bulkhead.Refusal) {
	if kind(v) != "an array" {
		return nil, wrong(path, "an array of token ids", v)
	}
	inside := bytes.TrimSpace(v[1 : len(v)-1])
	if len(inside) == 0 {
		return []bulkhead.Token{}, nil
	}
	if inside[0] == '[' {
		return nil, batch(path)
	}
	out := make([]bulkhead.Token, 0, bytes.Count(inside, []byte{','})+1)
	for rest, more := inside, true; more; {
		var item []byte
		item, rest, more = bytes.Cut(rest, []byte{','})
		item = bytes.TrimSpace(item)
		id, err := strconv.ParseInt(string(item), 10, 32)
		if err != nil || id < 0 {
			return nil, bulkhead.Refuse(bulkhead.CodeInvalid, path, "`%s` has %s at place %d: each must be a token id", path, short(string(item)), len(out))
		}
		out = append(out, bulkhead.Token(id))
	}
	return out, nil
}

// batch refuses several requests in one body.
func batch(path string) *bulkhead.Refusal {
	return bulkhead.Refuse(bulkhead.CodeUnsupported, path, "`%s` is a batch: a worker takes one request in one body; send each by itself", path)
}

// fields is every field that one object may have, with what reads it. A name that is not in it is refused.
type fields[T any] map[string]func(path string, v []byte, into *T) *bulkhead.Refusal

// read reads an object that has been split. null counts as absent.
func (f fields[T]) read(prefix string, members []openai.Member, into *T) *bulkhead.Refusal {
	for _, m := range members {
		path := prefix + short(m.Name)
		read, known := f[m.Name]
		if !known {
			return bulkhead.Refuse(bulkhead.CodeInvalid, path, "unknown field `%s`", path)
		}
		if isNull(m.Value) {
			continue
		}
		if ref := read(path, m.Value, into); ref != nil {
			return ref
		}
	}
	return nil
}

// object reads a value that is an object.
func (f fields[T]) object(path string, v []byte, into *T) *bulkhead.Refusal {
	if kind(v) != "an object" {
		return wrong(path, "an object", v)
	}
	members, ref := openai.Split(v)
	if ref != nil {
		return ref
	}
	return f.read(path+".", members, into)
}

// Readers of common kinds.
func flag[T any](at func(*T) *bool) func(string, []byte, *T) *bulkhead.Refusal {
	return func(path string, v []byte, into *T) *bulkhead.Refusal { return scalar(path, "a boolean", v, at(into)) }
}

func text[T any](at func(*T) *string) func(string, []byte, *T) *bulkhead.Refusal {
	return func(path string, v []byte, into *T) *bulkhead.Refusal { return scalar(path, "a string", v, at(into)) }
}

func whole[T any](at func(*T) **int) func(string, []byte, *T) *bulkhead.Refusal {
	return func(path string, v []byte, into *T) *bulkhead.Refusal {
		return optional(path, "a whole number", v, at(into))
	}
}

func real[T any](at func(*T) **float32) func(string, []byte, *T) *bulkhead.Refusal {
	return func(path string, v []byte, into *T) *bulkhead.Refusal { return optional(path, "a number", v, at(into)) }
}
