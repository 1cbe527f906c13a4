package token

import (
	"slices"
	"strings"

	"github.com/bulkhead-llm/bulkhead"
)

// role is what a token is for.
type role uint8

const (
	roleText    role = iota // what text is made of
	roleByte                // one byte of text that has no other token ("llama")
	roleAdded               // text that the tokenizer keeps in one token (USER_DEFINED), cut out before anything else
	roleControl             // a mark that steers the model: never comes from a client's text
	roleUnknown             // stands for characters that have no tokens; its name in a text is text
)

// enders are the texts of tokens that end a generation, as llama.cpp has them: files do not say it, so engines go by name.
var enders = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
	"<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>",
	"<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
}

// enders that also mark files in code models: generation has left the file.
var fileEnders = []string{
	"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
	"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
}

// assignRoles decides which tokens are control tokens.
//
// They are those of GGUF type CONTROL; BOS, EOS, EOT and EOM; the tokens that end a generation, by
// name, whatever their type (files get types wrong), unless they are made by merging text; and those USER_DEFINED tokens that look like marks. On the last
// point Bulkhead is stricter than llama.cpp, which takes every USER_DEFINED token out of plain text: there <tool_call>
// or </think> in a client's text becomes the very token by which a model opens a tool call or closes its thoughts. What
// looks like a mark is a mark here, and a client's <think> is tokenised as the text it is.
func (t *Tokenizer) assignRoles() {
	v := &t.vocab
	byName := make(map[string]bool)
	for _, name := range slices.Concat(enders, fileEnders) {
		byName[name] = true
	}
	merged := v.merged(byName)
	for i, text := range v.Tokens {
		switch v.typeOf(i) {
		case typeUnknown:
			t.roles[i] = roleUnknown
		case typeControl:
			t.roles[i] = roleControl
		case typeByte:
			t.roles[i] = roleByte
		case typeUserDefined:
			t.roles[i] = roleAdded
			if looksLikeMark(text, v.ChatTemplate) {
				t.roles[i] = roleControl
			}
		}
		if text == "" && t.roles[i] == roleAdded {
			t.roles[i] = roleText
		}
		if byName[text] && (v.typeOf(i) != typeNormal || !merged[text]) {
			t.roles[i], t.eog[i] = roleControl, true
		}
	}
	if v.UNK != none && !t.eog[v.UNK] && strings.Contains(strings.ToLower(v.Tokens[v.UNK]), "unk") {
		t.roles[v.UNK] = roleUnknown
	}
	if v.BOS != none {
		t.roles[v.BOS] = roleControl
	}
	for _, id := range []bulkhead.Token{v.EOS, v.EOT, v.EOM} {
		if id != none {
			t.roles[id], t.eog[id] = roleControl, true
		}
	}
	t.spareMessageEnd()
}

// merged is which of some names the merges make: those are text, as </s> is for Qwen, for which it ends a tag of HTML.
func (v *Vocab) merged(names map[string]bool) map[string]bool {
	found := make(map[string]bool)
	for _, m := range v.Merges {
		if left, right, ok := cutMerge(m); ok && len(m) < 40 && names[left+right] {
			found[left+right] = true
		}
	}
	return found
}

// spareMessageEnd: where a vocabulary has a token for the end of an answer and one for a call (gpt-oss, Solar), <|end|>
// only closes one message of several and generation goes on.
func (t *Tokenizer) spareMessageEnd() {
	ids := make(map[string]int)
	for i, text := range t.vocab.Tokens {
		if t.eog[i] {
			ids[text] = i
		}
	}
	has := func(text string) bool { _, ok := ids[text]; return ok }
	if end, ok := ids["<|end|>"]; ok {
		if has("<|return|>") && has("<|call|>") || has("<|flush|>") && has("<|calls|>") {
			t.eog[end] = bulkhead.Token(end) == t.vocab.EOS
		}
	}
	if s, ok := ids["</s>"]; ok && has("<|tool_response>") {
		t.eog[s] = bulkhead.Token(s) == t.vocab.EOS
	}
}

// looksLikeMark says that a token which a tokenizer keeps apart steers the model: it stands in brackets of some kind,
// or it is a word that the chat template writes. Runs of spaces and newlines are not marks.
func looksLikeMark(text, chatTemplate string) bool {
	text = strings.Trim(text, " \t\r\n▁")
	if text == "" {
		return false
	}
	if strings.ContainsAny(text[:1], "<[{") || strings.ContainsAny(text[len(text)-1:], ">]}") || strings.ContainsAny(text, "|｜") {
		return true
	}
	return chatTemplate != "" && len(text) > 1 && strings.Contains(chatTemplate, text)
}

// matcher finds a set of tokens by their text.
type matcher struct {
	ids     []bulkhead.Token // longest text first
	texts   []string
	byFirst [256][]int // places in ids, by the first byte of the text
}

// fragment is a stretch of text, or a token that was cut out of it.
type fragment struct {
	text string
	id   bulkhead.Token // none for text
}

func newMatcher(texts []string, in func(i int) bool) *matcher {
	m := &matcher{}
	for i, text := range texts {
		if text != "" && in(i) {
			m.ids = append(m.ids, bulkhead.Token(i))
		}
	}
	slices.SortStableFunc(m.ids, func(a, b bulkhead.Token) int { return len(texts[b]) - len(texts[a]) })
	for place, id := range m.ids {
		text := texts[id]
		m.texts = append(m.texts, text)
		m.byFirst[text[0]] = append(m.byFirst[text[0]], place)
	}
	return m
}

// cut takes the tokens out of a text: every occurrence of the longest first, then of the next in what is left, as
// llama.cpp and Hugging Face do it. One pass finds which tokens occur at all, so that the rest cost nothing.
func (m *matcher) cut(text string) []fragment {
	if text == "" {
		return nil
	}
	fragments := []fragment{{text: text, id: none}}
	for _, place := range m.occurring(text) {
		var next []fragment
		for _, f := range fragments {
			if f.id != none {
				next = append(next, f)
				continue
			}
			rest := f.text
			for {
				at := strings.Index(rest, m.texts[place])
				if at < 0 {
					break
				}
				if at > 0 {
					next = append(next, fragment{text: rest[:at], id: none})
				}
				next = append(next, fragment{text: m.texts[place], id: m.ids[place]})
				rest = rest[at+len(m.texts[place]):]
			}
			if rest != "" {
				next = append(next, fragment{text: rest, id: none})
			}
		}
		fragments = next
	}
	return fragments
}

// occurring is the places of the tokens that occur in a text, in order: longest first.
func (m *matcher) occurring(text string) []int {
	if len(m.ids) == 0 {
		return nil
	}
	var found []int
	seen := make([]bool, len(m.ids))
	for i := range len(text) {
		for _, place := range m.byFirst[text[i]] {
			if !seen[place] && strings.HasPrefix(text[i:], m.texts[place]) {
				seen[place] = true
				found = append(found, place)
			}
		}
	}
	slices.Sort(found)
	return found
}

// find is the token with this very text.
func (m *matcher) find(text string) (bulkhead.Token, bool) {
	if text != "" {
		for _, place := range m.byFirst[text[0]] {
			if m.texts[place] == text {
				return m.ids[place], true
			}
		}
	}
	return none, false
}
