// Package model holds the built-in model: a GGUF small enough to live in git and in the binary.
//
// It is a llama of about two and a half million weights, trained from scratch by the scripts in train/ on text that they
// make. It can do what a demonstration of isolation needs: recall a fact that stands in its prompt (the access code of
// Harbor), say "I do not know." where the fact is not there, and hold a very short chat. It knows nothing of the world;
// whatever it tells about a code, it has read in the pages of its own request. That is what makes it a witness: an
// answer with a code that the prompt does not hold has been read from somebody else's page.
//
// docs/model.md has its figures, its limits and how it was trained; docs/names.md has the names that it knows.
//
//	file, err := gguf.Parse(model.Builtin())
package model

import _ "embed"

// Name is what the server calls the built-in model; the file's general.name says the same.
const Name = "bulkhead-keeper-2m"

//go:embed builtin.gguf
var builtin []byte

// Builtin returns the GGUF file's bytes. They are shared: the caller must not change them.
func Builtin() []byte { return builtin }
