package token

import (
	"fmt"

	"github.com/bulkhead-llm/bulkhead"
)

// The kinds of tokenizer, by the names that GGUF has for them.
const (
	ModelBPE = "gpt2"  // byte-level BPE
	ModelSPM = "llama" // SentencePiece BPE
)

// The types that GGUF gives to tokens.
const (
	typeNormal      = 1
	typeUnknown     = 2
	typeControl     = 3
	typeUserDefined = 4
	typeUnused      = 5
	typeByte        = 6
)

// Vocab is what a tokenizer is made of. Text is taken as it is, without normalisation, as llama.cpp does; some models'
// own tokenizers (Qwen's) compose it first (NFC), which is for clients to do who want it.
//
// The field comments name the GGUF keys; ids are -1 when there is no such token.
type Vocab struct {
	Model  string    // tokenizer.ggml.model: "gpt2" or "llama"
	Pre    string    // tokenizer.ggml.pre: the pre-tokenizer, for "gpt2" only; "" means "default"
	Tokens []string  // tokenizer.ggml.tokens: the text of each token, in the model's own writing of bytes and spaces
	Types  []int32   // tokenizer.ggml.token_type; nil: all normal
	Scores []float32 // tokenizer.ggml.scores: "llama" merges by them
	Merges []string  // tokenizer.ggml.merges: "gpt2" merges by them, "left right", best first

	BOS bulkhead.Token // tokenizer.ggml.bos_token_id
	EOS bulkhead.Token // tokenizer.ggml.eos_token_id
	UNK bulkhead.Token // tokenizer.ggml.unknown_token_id
	EOT bulkhead.Token // tokenizer.ggml.eot_token_id
	EOM bulkhead.Token // tokenizer.ggml.eom_token_id

	AddBOS         bool // tokenizer.ggml.add_bos_token: prompts start with BOS
	AddEOS         bool // tokenizer.ggml.add_eos_token; read and kept, but a prompt that is to be continued gets no EOS
	AddSpacePrefix bool // tokenizer.ggml.add_space_prefix: text gets a space in front ("llama" only)

	ChatTemplate string // tokenizer.chat_template; "" when the file has none
}

// Metadata is what is asked of a model file; *gguf.File is one. A getter's error says that the key is not there or has
// another type.
type Metadata interface {
	Has(key string) bool
	String(key string) (string, error)
	Strings(key string) ([]string, error)
	Int32s(key string) ([]int32, error)
	Float32s(key string) ([]float32, error)
	Uint32(key string) (uint32, error)
	Bool(key string) (bool, error)
}

// FromMetadata reads the vocabulary of a model file, with GGUF's defaults: a "llama" vocabulary has BOS 1, EOS 2, UNK 0,
// gets a BOS and a space in front; a "gpt2" one has no such tokens unless it names them, and gets a BOS when its
// pre-tokenizer is one of those whose models were trained so (Llama 3, Tekken). The error names the key that is missing
// or wrong.
func FromMetadata(m Metadata) (Vocab, error) {
	v := Vocab{BOS: none, EOS: none, UNK: none, EOT: none, EOM: none}
	r := reader{m: m}
	v.Model = need(&r, "tokenizer.ggml.model", m.String)
	v.Tokens = need(&r, "tokenizer.ggml.tokens", m.Strings)
	v.Pre = take(&r, "tokenizer.ggml.pre", m.String, "")
	v.Types = take(&r, "tokenizer.ggml.token_type", m.Int32s, nil)
	v.Scores = take(&r, "tokenizer.ggml.scores", m.Float32s, nil)
	v.Merges = take(&r, "tokenizer.ggml.merges", m.Strings, nil)
	v.ChatTemplate = take(&r, "tokenizer.chat_template", m.String, "")

	spm := v.Model == ModelSPM
	if spm {
		v.BOS, v.EOS, v.UNK = v.within(1), v.within(2), v.within(0)
	}
	for key, id := range map[string]*bulkhead.Token{
		"tokenizer.ggml.bos_token_id":     &v.BOS,
		"tokenizer.ggml.eos_token_id":     &v.EOS,
		"tokenizer.ggml.unknown_token_id": &v.UNK,
		"tokenizer.ggml.eot_token_id":     &v.EOT,
		"tokenizer.ggml.eom_token_id":     &v.EOM,
	} {
		if !m.Has(key) {
			continue
		}
		n := take(&r, key, m.Uint32, 0)
		if int64(n) >= int64(len(v.Tokens)) {
			r.fail(fmt.Errorf("%s is %d, outside the vocabulary of %d tokens", key, n, len(v.Tokens)))
			continue
		}
		*id = bulkhead.Token(n)
	}
	v.AddBOS = take(&r, "tokenizer.ggml.add_bos_token", m.Bool, (spm || pretokenizers[v.Pre].addBOS) && v.BOS != none)
	v.AddEOS = take(&r, "tokenizer.ggml.add_eos_token", m.Bool, false)
	v.AddSpacePrefix = take(&r, "tokenizer.ggml.add_space_prefix", m.Bool, spm) && spm
	if r.err != nil {
		return Vocab{}, fmt.Errorf("token: %w", r.err)
	}
	return v, nil
}

// reader keeps the first error of many reads.
type reader struct {
	m   Metadata
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func need[T any](r *reader, key string, get func(string) (T, error)) T {
	value, err := get(key)
	if err != nil {
		r.fail(fmt.Errorf("reading %s: %w", key, err))
	}
	return value
}

func take[T any](r *reader, key string, get func(string) (T, error), fallback T) T {
	if !r.m.Has(key) {
		return fallback
	}
	return need(r, key, get)
}

// within is a default id, where the vocabulary reaches so far.
func (v *Vocab) within(id bulkhead.Token) bulkhead.Token {
	if int(id) < len(v.Tokens) {
		return id
	}
	return none
}

func (v *Vocab) typeOf(i int) int32 {
	if v.Types == nil {
		return typeNormal
	}
	return v.Types[i]
}
