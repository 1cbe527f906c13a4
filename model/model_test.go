package model

import (
	"os"
	"regexp"
	"testing"

	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/engine/token"
)

func open(t *testing.T) (*gguf.File, *token.Tokenizer) {
	t.Helper()
	f, err := gguf.Parse(Builtin())
	if err != nil {
		t.Fatal(err)
	}
	v, err := token.FromMetadata(f)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := token.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return f, tok
}

// The file is what docs/model.md says it is.
func TestFile(t *testing.T) {
	const most = 4_000_000
	if n := len(Builtin()); n > most {
		t.Errorf("%d bytes, at most %d belong into git", n, most)
	}
	f, tok := open(t)
	if name, err := f.String("general.name"); err != nil || name != Name {
		t.Errorf("general.name %q, %v; want %q", name, err, Name)
	}
	if n, err := f.Uint32("llama.context_length"); err != nil || n < 2048 {
		t.Errorf("window %d, %v; want 2048 at least", n, err)
	}
	for _, tensor := range f.Tensors() {
		if len(tensor.Dims) == 2 && tensor.Type.String() != "Q8_0" {
			t.Errorf("%s is %s, want Q8_0", tensor.Name, tensor.Type)
		}
	}
	if _, err := tok.ChatTemplate(); err != nil {
		t.Error(err)
	}
}

// Every name of docs/names.md is one token with and without a space before it, and a code one token a character.
func TestNamesAndCodes(t *testing.T) {
	text, err := os.ReadFile("../docs/names.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tok := open(t)
	names := regexp.MustCompile(`(?m)^## .*$|\b[A-Z][a-z]+\b`).FindAllString(regexp.MustCompile(`(?s)^.*?\n## `).
		ReplaceAllString(string(text), "## "), -1)
	count := 0
	for _, name := range names {
		if name[0] == '#' {
			continue
		}
		count++
		for _, spelled := range []string{name, " " + name} {
			if ids := tok.Encode(spelled); len(ids) != 1 {
				t.Errorf("%q is %d tokens", spelled, len(ids))
			}
		}
	}
	if count < 200 {
		t.Errorf("%d names, want 200 at least", count)
	}
	if ids := tok.Encode("Harbor is 7QK2M"); len(ids) != 1+1+1+5 {
		t.Errorf("name, verb, space and a code of five characters are %d tokens", len(ids))
	}
}
