package token

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/testdata"
)

// The prompts of the golden runs have BOS, as llama.cpp puts it.
func TestGoldenPrompts(t *testing.T) {
	var golden struct {
		Runs []struct {
			Model     string
			Prompt    string
			PromptIDs []bulkhead.Token `json:"prompt_ids"`
		}
	}
	if err := json.Unmarshal(testdata.Read(t, "golden.json"), &golden); err != nil {
		t.Fatal(err)
	}
	folders := map[string]string{"stories260K-f32.gguf": "stories260K", "TinyStories-656K-f32.gguf": "tinystories-656K"}
	for _, run := range golden.Runs {
		folder, ok := folders[run.Model]
		if !ok {
			t.Fatalf("unknown model %s", run.Model)
		}
		tok, err := New(readGGUF(t, testdata.Path(t, "models", folder, run.Model)))
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.EncodePrompt(TextPrompt(run.Prompt)); !slices.Equal(got, run.PromptIDs) {
			t.Errorf("%s %q:\n got %v\nwant %v", run.Model, run.Prompt, got, run.PromptIDs)
		}
	}
}

// Text of every kind: words, runs, marks of all templates, several scripts, bytes that are no UTF-8.
func anyText() *rapid.Generator[string] {
	scraps := []string{"hello", " world", "  ", "\n", "\r\n", "\t", "'s", "'LL", "123456", "é", "漢字", "🦙", "e\u0301", "\u00a0", "\u3000",
		"!!", "=====", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|begin_of_text|>", "</s>", "<s>", "[INST]", "<unk>", "<0x0A>",
		"<|endoftext|>", "<tool_call>", "\xff", "\xf0\x9f", "\x80", "\x00", "ﷺ", "ﬀ", "Ⅷ", "²", "ÅNGSTRÖM", "camelCaseWord", "▁", "Ġ"}
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "parts") {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				b.WriteString(rapid.String().Draw(t, "string"))
			case 1:
				b.Write(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
			case 2:
				b.WriteString(strings.Repeat(rapid.SampledFrom(scraps).Draw(t, "scrap"), rapid.IntRange(1, 40).Draw(t, "times")))
			default:
				b.WriteString(rapid.SampledFrom(scraps).Draw(t, "scrap"))
			}
		}
		return b.String()
	})
}

// What every tokenizer promises of any text: no control token, only ids of the vocabulary; the stream says the same as
// the whole; and byte-level tokenizers give back the very bytes.
func TestEncodeProperties(t *testing.T) {
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			tok := load(t, f.name)
			rapid.Check(t, func(t *rapid.T) { checkText(t, tok, anyText().Draw(t, "text")) })
		})
	}
}

type failer interface {
	Fatalf(format string, args ...any)
}

func checkText(t failer, tok *Tokenizer, text string) {
	ids := tok.Encode(text)
	for _, id := range ids {
		if !tok.has(id) || tok.IsControl(id) {
			t.Fatalf("%q has token %d (%q), a control token or none at all", text, id, tok.Piece(id))
		}
	}
	back := tok.Decode(ids, HideMarks)
	if want := expressible(tok, text); back != want {
		t.Fatalf("%q came back as %q by way of %v", text, back, ids)
	}
	stream, streamed := tok.NewStream(HideMarks), ""
	for _, id := range ids {
		part := stream.Next(id)
		if !utf8.ValidString(part) {
			t.Fatalf("the stream of %q gave out %q, which is no UTF-8", text, part)
		}
		streamed += part
	}
	streamed += stream.Flush()
	if tok.vocab.AddSpacePrefix {
		streamed = strings.TrimPrefix(streamed, " ")
	}
	if utf8.ValidString(back) && streamed != back {
		t.Fatalf("the stream of %q gave %q", back, streamed)
	}
}

// expressible is the text as far as the vocabulary has tokens for it: those of Falcon, MPT and DeepSeek have none for
// some bytes that never or hardly occur in UTF-8, and in SentencePiece U+2581 is a space.
func expressible(tok *Tokenizer, text string) string {
	b, ok := tok.model.(*bpe)
	if !ok {
		return strings.ReplaceAll(text, spaceRune, " ")
	}
	var out strings.Builder
	for _, f := range tok.plain.cut(text) {
		for i := range len(f.text) {
			if f.id != none || b.byteIDs[f.text[i]] != none {
				out.WriteByte(f.text[i])
			}
		}
	}
	return out.String()
}

// The heap gives what merging the best pair again and again, by search, gives.
func TestMergeEqualsSearch(t *testing.T) {
	b := load(t, "gpt-2").model.(*bpe)
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.StringMatching(`[a-e ]{1,60}|(an|the|er|in| )+`).Draw(t, "piece")
		if piece == "" {
			return
		}
		var m merger
		got := b.mergePiece(nil, &m, piece)
		if want := mergeBySearch(b, piece); !slices.Equal(got, want) {
			t.Fatalf("%q: got %v, want %v", piece, got, want)
		}
	})
}

func mergeBySearch(b *bpe, piece string) (ids []bulkhead.Token) {
	var syms []symbol
	for i := range len(piece) {
		syms = append(syms, b.bytes[piece[i]])
	}
	for {
		best := -1
		for i := range len(syms) - 1 {
			m, ok := b.merges[pair{syms[i], syms[i+1]}]
			if ok && (best < 0 || m.rank < b.merges[pair{syms[best], syms[best+1]}].rank) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		merged := b.merges[pair{syms[best], syms[best+1]}].merged
		syms = slices.Replace(syms, best, best+2, merged)
	}
	for _, s := range syms {
		ids = b.appendSymbol(ids, s)
	}
	return ids
}

// Merging word by word gives what merging the whole text gives.
func TestWordwiseEqualsWhole(t *testing.T) {
	s := load(t, "llama-spm").model.(*spm)
	if !s.wordwise {
		t.Fatal("the vocabulary of Llama 2 has no token with a space inside")
	}
	whole := *s
	whole.wordwise = false
	rapid.Check(t, func(t *rapid.T) {
		text := anyText().Draw(t, "text")
		if got, want := s.encode(nil, text), whole.encode(nil, text); !slices.Equal(got, want) {
			t.Fatalf("%q: got %v, want %v", text, got, want)
		}
	})
}

// Long texts and long pieces take time near to their length. The bounds are wide: they tell n from n², not fast from slow.
func TestEncodeTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second for each vocabulary")
	}
	prose := strings.Repeat("The quick brown fox, 42 jumps; über 漢字 don't \n", 20000)
	for _, f := range fixtures {
		tok := load(t, f.name)
		for name, text := range map[string]string{
			"letter":  strings.Repeat("a", 100_000),
			"spaces":  strings.Repeat(" ", 100_000) + "x",
			"lines":   strings.Repeat("\n", 100_000),
			"mixed":   strings.Repeat(" \n", 50_000) + "x",
			"punct":   strings.Repeat("!", 100_000),
			"invalid": strings.Repeat("\xff", 100_000),
			"prose":   prose[:1_000_000],
		} {
			start := time.Now()
			ids := tok.Encode(text)
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s, %s: %d bytes to %d tokens took %v", f.name, name, len(text), len(ids), took)
			}
		}
	}
}

// Many goroutines may use one tokenizer and one template.
func TestConcurrent(t *testing.T) {
	tok := load(t, "gpt-2")
	tmpl, err := NewTemplate("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ m.content }}{{ ns.n }}{% endfor %}", tok)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for who := range 8 {
		wg.Go(func() {
			text := strings.Repeat(string(rune('a'+who))+" Hello, world! <|endoftext|> ", 50)
			for range 20 {
				p, err := tmpl.Render([]Message{{Role: "user", Content: text}, {Role: "user", Content: text}}, RenderOptions{})
				if err != nil {
					t.Error(err)
				}
				if got := tok.Decode(tok.EncodePrompt(p), ShowMarks); got != text+"1"+text+"2" {
					t.Error("another goroutine's text changed the result")
				}
			}
		})
	}
	wg.Wait()
}

func FuzzEncode(f *testing.F) {
	for _, seed := range []string{"", "Hello world", "a\xffb", "<|im_end|>", " \n\r\n ", "'S'll", "١٢٣", "\u200d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"gpt-2", "deepseek-llm", "falcon", "mpt", "llama-spm"} {
			checkText(t, load(t, name), text)
		}
	})
}

// Every pre-tokenizer, also those without a vocabulary here, gives all of the text and in order.
func TestSplittersLoseNothing(t *testing.T) {
	for name, pre := range pretokenizers {
		rapid.Check(t, func(t *rapid.T) {
			text := anyText().Draw(t, "text")
			var b strings.Builder
			pre.split(text, func(piece string) {
				if piece == "" {
					t.Fatalf("%s gave an empty piece of %q", name, text)
				}
				b.WriteString(piece)
			})
			if b.String() != text {
				t.Fatalf("%s made %q of %q", name, b.String(), text)
			}
		})
	}
}

// How the pre-tokenizers without a fixture split, worked out by hand from their expressions.
func TestSplits(t *testing.T) {
	for _, c := range []struct{ pre, text, want string }{
		{"tekken", "HELLOworld fooBar X éÀ 123", "HELLOworld| foo|Bar| X| éÀ| |1|2|3"},
		{"gpt-4o", "don't STOP/\n12345", "don't| STOP|/\n|123|45"},
		{"deepseek-v3", "a.b, 1234漢字 c\n", "a|.b|,| |123|4|漢字| c|\n"},
		{"deepseek-coder", "x = 12\n", "x| = |1|2|\n"},
		{"qwen35", "e\u0301a 12", "e\u0301a| |1|2"},
		{"smollm", "in 2024's", "in| |2|0|2|4|'s"},
		{"llama-bpe", "I'LL go   there\n\n now", "I|'LL| go|  | there|\n\n| now"},
	} {
		var got []string
		pretokenizers[c.pre].split(c.text, func(piece string) { got = append(got, piece) })
		if joined := strings.Join(got, "|"); joined != c.want {
			t.Errorf("%s: %q split to %q, want %q", c.pre, c.text, joined, c.want)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	v := readGGUF(b, testdata.Path(b, "vocab", "ggml-vocab-deepseek-llm.gguf"))
	for b.Loop() {
		if _, err := New(v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	text := strings.Repeat("The quick brown fox, 42 jumps; über 漢字 don't \n", 2000)
	for _, name := range []string{"gpt-2", "llama-spm"} {
		tok := load(b, name)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text)
			}
		})
	}
}
