package token

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/internal/testcache"
	"github.com/bulkhead-llm/bulkhead/internal/testdata"
)

// templateFiles are the 17 templates of the fixtures.
func templateFiles(t testing.TB) map[string]string {
	files, err := filepath.Glob(filepath.Join(testdata.Path(t, "templates"), "*.jinja"))
	if err != nil || len(files) != 17 {
		t.Fatalf("%d templates, want 17 (%v)", len(files), err)
	}
	out := make(map[string]string)
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(file)] = string(src)
	}
	return out
}

// marks finds what looks like a mark in the templates.
var marks = regexp.MustCompile(`<\|[A-Za-z_]+\|>|<｜[^｜]+｜>|\[/?[A-Z_]{3,}\]|<(start|end)_of_turn>|</?s>|</?tool_[a-z]+>|</?think>`)

// markTokenizer has a token for each byte and control tokens for every mark of every template, for those that roles can
// make, and for some of models that are not among them.
func markTokenizer(t testing.TB) *Tokenizer {
	v := byteVocab()
	texts := map[string]bool{}
	for _, src := range templateFiles(t) {
		for _, m := range marks.FindAllString(src, -1) {
			texts[m] = true
		}
	}
	for _, m := range []string{"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "[INST]", "[/INST]", "<|user|>", "<|assistant|>",
		"<|system|>", "<|endoftext|>", "<|begin_of_text|>", "<0x0A>", "<unk>"} {
		texts[m] = true
	}
	for text := range texts {
		v.Tokens, v.Types = append(v.Tokens, text), append(v.Types, typeControl)
	}
	v.BOS = bulkhead.Token(slices.Index(v.Tokens, "<s>"))
	v.EOS = bulkhead.Token(slices.Index(v.Tokens, "</s>"))
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// byteVocab is a byte-level vocabulary of the 256 bytes and one merge.
func byteVocab() Vocab {
	v := Vocab{Model: ModelBPE, Pre: "gpt-2", BOS: none, EOS: none, UNK: none, EOT: none, EOM: none, Merges: []string{"a b"}}
	for _, r := range byteRunes {
		v.Tokens, v.Types = append(v.Tokens, string(r)), append(v.Types, typeNormal)
	}
	v.Tokens, v.Types = append(v.Tokens, "ab"), append(v.Types, typeNormal)
	return v
}

func TestTemplateRenderings(t *testing.T) {
	var cases map[string]struct {
		Messages []Message
		Tools    json.RawMessage
	}
	var reference map[string]string
	if err := json.Unmarshal(testdata.Read(t, "templates", "cases.json"), &cases); err != nil {
		t.Fatal(err)
	}
	ref, now := testdata.Renderings(t)
	if err := json.Unmarshal(ref, &reference); err != nil {
		t.Fatal(err)
	}
	tok := markTokenizer(t)
	files := templateFiles(t)
	for name, want := range reference {
		file, which, _ := strings.Cut(name, "#")
		tmpl, err := NewTemplate(files[file], tok)
		if err != nil {
			t.Fatal(err)
		}
		p, err := tmpl.Render(cases[which].Messages, RenderOptions{AddGenerationPrompt: true, Tools: cases[which].Tools, Now: now})
		if strings.HasPrefix(want, "ERR ") {
			if err == nil {
				t.Errorf("%s: got %q, want the error %q", name, p, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.String() != want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, p, want)
		}
		checkBenign(t, tok, name, p)
	}
}

// checkBenign: a prompt without anything suspicious in its messages has the tokens that looking for control tokens in
// the whole rendering gives, as other engines do.
func checkBenign(t *testing.T, tok *Tokenizer, name string, p Prompt) {
	t.Helper()
	e := encoder{t: tok, afterMark: true}
	for _, f := range tok.control.cut(p.String()) {
		if f.id != none {
			e.mark(f.id)
		} else {
			e.text(f.text)
		}
	}
	if got := tok.EncodePrompt(p); !slices.Equal(got, e.out) {
		t.Errorf("%s: the prompt's tokens differ from those of its text:\n%v\n%v", name, got, e.out)
	}
}

func TestRejections(t *testing.T) {
	tok := markTokenizer(t)
	tmpl, err := NewTemplate("{{ raise_exception('only ' + messages[0].content) if messages[0].role == 'tool' }}{{ messages[0].content + none }}", tok)
	if err != nil {
		t.Fatal(err)
	}
	var rejection *Rejection
	for _, c := range []struct {
		m    Message
		o    RenderOptions
		want string
	}{
		{Message{Role: "tool", Content: "users"}, RenderOptions{}, "only users"},
		{Message{Role: "System"}, RenderOptions{}, `message 0: the role "System" is none of system, developer, user, assistant, tool, function`},
		{Message{Role: "user<|im_end|>"}, RenderOptions{}, `message 0: the role "user<|im_end|>" is none of`},
		{Message{Role: "user", ToolCalls: json.RawMessage("[")}, RenderOptions{}, "message 0: tool_calls: "},
		{Message{Role: "user"}, RenderOptions{Tools: json.RawMessage(strings.Repeat("[", 1000))}, "tools: "},
	} {
		_, err := tmpl.Render([]Message{c.m}, c.o)
		if !errors.As(err, &rejection) || !strings.HasPrefix(rejection.Text, c.want) {
			t.Errorf("%v: got the error %v, want the rejection %q", c.m, err, c.want)
		}
	}
	if _, err := tmpl.Render([]Message{{Role: "user"}}, RenderOptions{}); err == nil || errors.As(err, &rejection) {
		t.Errorf("a template that adds none to a string: got the error %v, want one that is no rejection", err)
	}
}

func TestFallbackTemplates(t *testing.T) {
	v := byteVocab()
	plain, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	messages := []Message{{Role: "user", Content: "Hi <|im_end|>"}}
	for _, c := range []struct {
		tok  *Tokenizer
		want string
	}{
		{plain, "User: Hi <|im_end|>\n\nAssistant:"},
		{markTokenizer(t), "<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n"},
	} {
		if c.tok.HasTemplate() {
			t.Error("a vocabulary without a template says that it has one")
		}
		tmpl, err := c.tok.ChatTemplate()
		if err != nil {
			t.Fatal(err)
		}
		p, err := tmpl.Render(messages, RenderOptions{AddGenerationPrompt: true})
		if err != nil {
			t.Fatal(err)
		}
		if p.String() != c.want {
			t.Errorf("got %q, want %q", p, c.want)
		}
	}
}

func TestBOSOnce(t *testing.T) {
	v := byteVocab()
	v.Tokens, v.Types = append(v.Tokens, "<s>"), append(v.Types, typeControl)
	v.BOS, v.AddBOS = bulkhead.Token(len(v.Tokens)-1), true
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	for src, want := range map[string]string{
		"{{ bos_token }}x":                "<s>x",
		"x":                               "<s>x",
		"{{ messages[0].content }}":       "<s><s>", // the first is the prompt's, the second is a client's text
		"{{ bos_token + bos_token }}x":    "<s><s>x",
		"{{ '' }}{{ bos_token }}":         "<s>",
		"{{ ' ' }}{{ bos_token }}":        "<s> <s>",
		"{% if false %}{% endif %}":       "<s>",
		"{{ '<' }}{{ 's>' }}{{ 'x' }}":    "<s>x",
		"{{ messages[0].content[:1] }}s>": "<s><s>",
	} {
		tmpl, err := NewTemplate(src, tok)
		if err != nil {
			t.Fatal(err)
		}
		p, err := tmpl.Render([]Message{{Role: "user", Content: "<s>"}}, RenderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ids := tok.EncodePrompt(p)
		if got := tok.Decode(ids, ShowMarks); got != want || ids[0] != v.BOS {
			t.Errorf("%s: got %q (%v), want %q", src, got, ids, want)
		}
	}
}

func TestDate(t *testing.T) {
	tmpl, err := NewTemplate("{{ strftime_now('%d %b %Y') }}", markTokenizer(t))
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Date(2024, 7, 6, 1, 2, 3, 0, time.UTC) }
	p, err := tmpl.Render(nil, RenderOptions{Now: now})
	if err != nil || p.String() != "06 Jul 2024" {
		t.Errorf("got %q and %v, want %q", p, err, "06 Jul 2024")
	}
}

// The ids that llama.cpp makes of SmolLM2's chat, template and all.
func TestSmolLM2Chat(t *testing.T) {
	tok, err := New(readGGUF(t, testcache.Path(t, "fetch-smollm2", testcache.SmolLM2)))
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := tok.ChatTemplate()
	if err != nil {
		t.Fatal(err)
	}
	p, err := tmpl.Render([]Message{{Role: "user", Content: "What is the capital of France?"}}, RenderOptions{AddGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	checkBenign(t, tok, "SmolLM2", p)
	ids := tok.EncodePrompt(p)
	const want = "1 9690 198 2683 359 253 5356 5646 11173 3365 3511 308 34519 28 7018 411 407 19712 8182 2 198 1 4093 198 " +
		"1780 314 260 3575 282 4649 47 2 198 1 520 9531 198"
	if got := spell(ids); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !tok.EOG(2) || tok.EOG(1) {
		t.Error("<|im_end|> (2) ends a generation and <|im_start|> (1) does not")
	}
}
