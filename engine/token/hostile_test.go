package token

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
)

// A vocabulary comes out of a file that somebody else made. What cannot be used is an error that says why.
func TestBadVocabularies(t *testing.T) {
	for name, c := range map[string]struct {
		change func(v *Vocab)
		want   string
	}{
		"unknown model":         {func(v *Vocab) { v.Model = "bert" }, `tokenizer model "bert" is not supported; supported are "gpt2"`},
		"unknown pre-tokenizer": {func(v *Vocab) { v.Pre = "new" }, `pre-tokenizer "new" is not supported; supported are a.x-4.0, chatglm-bpe`},
		"no tokens":             {func(v *Vocab) { v.Tokens, v.Types = nil, nil }, "the vocabulary is empty"},
		"types too few":         {func(v *Vocab) { v.Types = v.Types[1:] }, "257 tokens and 256 token types"},
		"scores too few":        {func(v *Vocab) { v.Scores = make([]float32, 3) }, "257 tokens and 3 scores"},
		"no merges":             {func(v *Vocab) { v.Merges = nil }, "needs merges"},
		"no scores":             {func(v *Vocab) { v.Model = ModelSPM }, "needs scores"},
		"BOS outside":           {func(v *Vocab) { v.BOS = 257 }, "the BOS token is 257, outside"},
		"EOS below":             {func(v *Vocab) { v.EOS = -2 }, "the EOS token is -2, outside"},
		"no BOS to add":         {func(v *Vocab) { v.AddBOS = true }, "a BOS token is to be added"},
		"twice the same":        {func(v *Vocab) { v.Tokens[7] = v.Tokens[9] }, "tokens 7 and 9 are both"},
		"long token":            {func(v *Vocab) { v.Tokens[7] = strings.Repeat("x", 1<<20) }, "token 7 has 1048576 bytes"},
		"bad merge":             {func(v *Vocab) { v.Merges = []string{"a b", "ab"} }, `merge 1 is "ab", not two texts`},
		"growing merge":         {func(v *Vocab) { v.Merges = doublings(40) }, "bytes, more than 16384"},
		"bad byte": {func(v *Vocab) {
			v.Model, v.Scores, v.Types[5] = ModelSPM, make([]float32, 257), typeByte
		}, "is said to stand for a byte"},
		"score not a number": {func(v *Vocab) {
			v.Scores = make([]float32, 257)
			v.Scores[3] = float32(math.NaN())
		}, "the score of token 3 is not a number"},
	} {
		v := byteVocab()
		c.change(&v)
		_, err := New(v)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got the error %v, want one with %q", name, err, c.want)
		}
	}
}

// doublings are merges of which each makes a text twice as long as the one before.
func doublings(n int) (merges []string) {
	text := "a"
	for range n {
		if len(text) > 1<<20 {
			break
		}
		merges = append(merges, text+" "+text)
		text += text
	}
	return merges
}

// Odd vocabularies that can be used: empty tokens, tokens that bytes lack, merges in circles or through texts that are
// no tokens, scores without end.
func TestOddVocabularies(t *testing.T) {
	v := byteVocab()
	v.Tokens, v.Types = append(v.Tokens, "", "", "<e>"), append(v.Types, typeNormal, typeUserDefined, typeUserDefined)
	v.Merges = []string{"a b", "ab a", "b a", "aba b", "x y", "xy z", "a b", "\u0120 \u0120"}
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "abababab", "xyz", "xyxyz", "<e>ab<e>", "a\xff"} {
		checkText(t, tok, text)
	}
	s := Vocab{Model: ModelSPM, Tokens: []string{"a", "aa", "b", "▁a", "<unk>"}, Scores: []float32{float32(math.Inf(1)), float32(math.Inf(-1)), 0, 3, 0},
		BOS: none, EOS: none, UNK: 4, EOT: none, EOM: none}
	tok, err = New(s)
	if err != nil {
		t.Fatal(err)
	}
	if got := spell(tok.Encode("aaa zzb z")); got != "1 0 4 2 4" {
		t.Errorf("got %s, want 1 0 4 2 4", got)
	}
}

// FuzzNew makes a vocabulary of bytes: New must return, and what it returns must encode.
func FuzzNew(f *testing.F) {
	f.Add([]byte("gpt2\x00a\x00b\x00ab\x01a b\x02"), "gpt-2", "abab", 3)
	f.Add([]byte("x\x00<0x0A>\x00\xe2\x96\x81a\x01"), "llama", "a\n", 9)
	f.Fuzz(func(t *testing.T, data []byte, pre, text string, seed int) {
		head, merges, _ := strings.Cut(string(data), "\x01")
		v := Vocab{Model: ModelBPE, Pre: pre, Tokens: strings.Split(head, "\x00"), Merges: strings.Split(merges, "\x02")}
		n := len(v.Tokens)
		var bits [8]byte
		binary.LittleEndian.PutUint64(bits[:], uint64(seed))
		id := func(i int) bulkhead.Token { return bulkhead.Token(int8(bits[i])) % bulkhead.Token(n+1) }
		v.BOS, v.EOS, v.UNK, v.EOT, v.EOM = id(0), id(1), id(2), id(3), id(4)
		v.AddBOS, v.AddSpacePrefix = bits[5]&1 > 0, bits[5]&2 > 0
		if pre == ModelSPM {
			v.Model, v.Merges, v.Scores = ModelSPM, nil, make([]float32, n)
			for i := range v.Scores {
				v.Scores[i] = float32(int8(bits[i%8])) / float32(i+1)
			}
		}
		for i := range v.Tokens {
			v.Types = append(v.Types, int32(bits[i%8]>>(i%5))%8)
		}
		tok, err := New(v)
		if err != nil {
			return
		}
		for _, id := range tok.EncodePrompt(TextPrompt(text)) {
			if !tok.has(id) || tok.IsControl(id) && id != v.BOS {
				t.Errorf("%q has token %d", text, id)
			}
			tok.Piece(id)
		}
		tok.Decode([]bulkhead.Token{-5, 0, 1 << 30, id(6)}, ShowMarks)
		if _, err := tok.ChatTemplate(); err != nil {
			t.Errorf("the built-in template: %v", err)
		}
	})
}
