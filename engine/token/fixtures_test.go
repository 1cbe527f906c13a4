package token

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/internal/testcache"
	"github.com/bulkhead-llm/bulkhead/internal/testdata"
)

// fixtures are llama.cpp's vocabularies, each with 46 texts and their ids. Those without a GGUF come from tokenizer.json.
var fixtures = []struct {
	name string
	hf   string // folder of the cache, where the vocabulary is a tokenizer.json
}{
	{name: "deepseek-llm"},
	{name: "deepseek-r1-qwen", hf: "qwen3"},
	{name: "falcon"},
	{name: "gpt-2"},
	{name: "llama-bpe", hf: "llama3_1"},
	{name: "llama-spm"},
	{name: "mpt"},
	{name: "qwen2", hf: "qwen3"},
	{name: "refact"},
}

var loaded sync.Map // tokenizers by name of fixture or path

// load makes the tokenizer of a fixture, once.
func load(t testing.TB, name string) *Tokenizer {
	t.Helper()
	if tok, ok := loaded.Load(name); ok {
		return tok.(*Tokenizer)
	}
	var v Vocab
	for _, f := range fixtures {
		switch {
		case f.name != name:
		case f.hf != "":
			v = readHF(t, testcache.Path(t, "fetch-tokenizers", "tokenizers", f.hf, "tokenizer.json"), name)
		default:
			v = readGGUF(t, testdata.Path(t, "vocab", "ggml-vocab-"+name+".gguf"))
		}
	}
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	loaded.Store(name, tok)
	return tok
}

func readGGUF(t testing.TB, path string) Vocab {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := FromMetadata(f)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// readHF makes a vocabulary of a byte-level tokenizer.json, as llama.cpp's converter does.
func readHF(t testing.TB, path, pre string) Vocab {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Added []struct {
			ID      int
			Content string
			Special bool
		} `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int
			Merges []json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	v := Vocab{Model: ModelBPE, Pre: pre, BOS: none, EOS: none, UNK: none, EOT: none, EOM: none}
	v.Tokens = make([]string, len(file.Model.Vocab)+len(file.Added))
	v.Types = slices.Repeat([]int32{typeNormal}, len(v.Tokens))
	for text, id := range file.Model.Vocab {
		v.Tokens[id] = text
	}
	for _, a := range file.Added {
		v.Tokens[a.ID], v.Types[a.ID] = a.Content, typeUserDefined
		if a.Special {
			v.Types[a.ID] = typeControl
		}
		if a.Content == "<|begin_of_text|>" {
			v.BOS, v.AddBOS = bulkhead.Token(a.ID), true
		}
	}
	for _, raw := range file.Model.Merges {
		var one string
		var two []string
		if json.Unmarshal(raw, &one) != nil {
			if err := json.Unmarshal(raw, &two); err != nil {
				t.Fatal(err)
			}
			one = strings.Join(two, " ")
		}
		v.Merges = append(v.Merges, one)
	}
	return v
}

// cases reads the texts of a fixture and the ids that llama.cpp and Hugging Face agree on.
func cases(t testing.TB, name string) (texts []string, ids []string) {
	base := filepath.Join("vocab", "ggml-vocab-"+name+".gguf")
	in := string(testdata.Read(t, base+".inp"))
	out := string(testdata.Read(t, base+".out"))
	texts = strings.Split(strings.TrimSuffix(in, "\n__ggml_vocab_test__\n"), "\n__ggml_vocab_test__\n")
	for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		ids = append(ids, strings.TrimSpace(line))
	}
	return texts, ids
}

func TestFixtures(t *testing.T) {
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			tok := load(t, f.name)
			texts, want := cases(t, f.name)
			if len(texts) != 46 || len(want) != 46 {
				t.Fatalf("%d texts and %d lines of ids, want 46 of each", len(texts), len(want))
			}
			for i, text := range texts {
				ids := tok.Encode(text)
				if got := spell(ids); got != want[i] {
					t.Errorf("case %d %q:\n got %s\nwant %s", i, text, got, want[i])
				}
				if back := tok.Decode(ids, HideMarks); back != text {
					t.Errorf("case %d: %q came back as %q", i, text, back)
				}
			}
		})
	}
}

func spell(ids []bulkhead.Token) string {
	var words []string
	for _, id := range ids {
		words = append(words, fmt.Sprint(id))
	}
	return strings.Join(words, " ")
}
