package token

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead/internal/testcache"
	"github.com/bulkhead-llm/bulkhead/internal/testdata"
	"github.com/bulkhead-llm/bulkhead/oracle/llamacpp"
)

// llama.cpp itself, on random text: plain text gets its ids, and text with marks that a template wrote gets the ids that
// it gives with special tokens parsed. (TinyStories-656K is not here: on characters without tokens llama.cpp crashes.)
func TestAgainstLlamaCpp(t *testing.T) {
	if testing.Short() {
		t.Skip("starts llama.cpp")
	}
	for _, path := range []string{
		testcache.Path(t, "fetch-smollm2", testcache.SmolLM2),
		testdata.Path(t, "models", "stories260K", "stories260K-f32.gguf"),
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			oracle, err := llamacpp.Open(testcache.Path(t, "fetch-llamacpp", "oracle-llamacpp"), path, 1, 64)
			if errors.Is(err, llamacpp.ErrMissing) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer oracle.Close()
			tok, err := New(readGGUF(t, path))
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) { checkOracle(t, oracle, tok, anyText().Draw(t, "text")) })
		})
	}
}

func checkOracle(t *rapid.T, oracle *llamacpp.Oracle, tok *Tokenizer, text string) {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "") // it takes C strings of UTF-8
	want, err := oracle.Tokenize(text, false)
	if err != nil {
		t.Fatalf("llama.cpp: %v", err)
	}
	if got := tok.Encode(text); !slices.Equal(got, want) {
		t.Fatalf("%q: got %v, llama.cpp has %v", text, got, want)
	}
	want, err = oracle.Tokenize(text, true)
	if err != nil {
		t.Fatalf("llama.cpp: %v", err)
	}
	var p Prompt
	for _, f := range tok.control.cut(text) {
		p = append(p, Segment{Text: f.text, Control: f.id != none})
	}
	got := tok.EncodePrompt(p)
	if tok.vocab.AddBOS && !tok.startsWithBOS(p) {
		got = got[1:]
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q with marks: got %v, llama.cpp has %v", text, got, want)
	}
}
