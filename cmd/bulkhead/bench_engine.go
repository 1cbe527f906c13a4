package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
	"github.com/bulkhead-llm/bulkhead/engine/convert"
	"github.com/bulkhead-llm/bulkhead/engine/mem"
	"github.com/bulkhead-llm/bulkhead/kv"
	"github.com/bulkhead-llm/bulkhead/oracle/llamacpp"
)

type benchEngineCmd struct {
	benchFlags
	Against string `enum:"none,llama.cpp" default:"none" help:"Compare with another engine on the same file, threads and machine: none or llama.cpp (see scripts/fetch-llamacpp)."`
	Oracle  string `help:"Folder that scripts/fetch-llamacpp printed (default: its place in the cache)." placeholder:"DIR"`
	Type    string `default:"" help:"Convert the matrices to this type first, for both sides."`
	Prompt  int    `default:"0" help:"Tokens of the prompt; 0: 512, or 128 with --quick."`
	Decode  int    `default:"0" help:"Tokens to decode; 0: 64, or 32 with --quick."`
}

// engineResult is what the benchmark prints. Speeds are tokens a second; ratios are ours over theirs.
type engineResult struct {
	Model       string  `json:"model"`
	Weights     string  `json:"weights"`
	Kernels     string  `json:"kernels"`
	Threads     int     `json:"threads"`
	Prompt      int     `json:"prompt_tokens"`
	Decode      int     `json:"decode_tokens"`
	Rounds      int     `json:"rounds"`
	OurPrefill  spread  `json:"prefill_tokens_per_s"`
	OurDecode   spread  `json:"decode_tokens_per_s"`
	Against     string  `json:"against,omitempty"`
	ItsPrefill  *spread `json:"against_prefill_tokens_per_s,omitempty"`
	ItsDecode   *spread `json:"against_decode_tokens_per_s,omitempty"`
	PrefillOver *spread `json:"prefill_ratio,omitempty"`
	DecodeOver  *spread `json:"decode_ratio,omitempty"`
}

// Run measures.
func (c *benchEngineCmd) Run(s *streams) error {
	if err := checkCounts(count{"rounds", c.Rounds}, count{"prompt", c.Prompt}, count{"decode", c.Decode}); err != nil {
		return err
	}
	path, cleanup, err := c.prepare()
	if err != nil {
		return err
	}
	defer cleanup()
	flags := c.modelFlags
	flags.Model = fileName(path)
	l, err := flags.open(slog.New(slog.NewTextHandler(s.err, nil)))
	if err != nil {
		return err
	}
	defer l.engine.Close()
	b, err := newEngineBench(l.engine, c.tokens(c.Prompt, 512, 128), c.tokens(c.Decode, 64, 32))
	if err != nil {
		return refused{err}
	}
	defer b.free()
	if c.Against == "llama.cpp" {
		dir := c.Oracle
		if dir == "" {
			dir = defaultOracle()
		}
		b.theirs, err = llamacpp.Open(dir, path, l.engine.Info().Threads, bulkhead.Tokens(b.prompt+b.decode+64))
		if errors.Is(err, llamacpp.ErrMissing) {
			return refused{err}
		} else if err != nil {
			return err
		}
		defer b.theirs.Close()
	}
	rounds := c.rounds(7, 3)
	if err := b.run(rounds, s.err); err != nil {
		return err
	}
	result := b.result(rounds)
	result.Against = map[bool]string{true: c.Against}[b.theirs != nil]
	if c.JSON {
		return printJSON(s.out, result)
	}
	return result.print(s.out)
}

func (c *benchEngineCmd) tokens(flag, whole, quick int) int {
	return benchFlags{Rounds: flag, Quick: c.Quick}.rounds(whole, quick)
}

// defaultOracle is where scripts/fetch-llamacpp installs.
func defaultOracle() string {
	cache := os.Getenv("BULKHEAD_CACHE")
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			base = os.TempDir()
		}
		cache = filepath.Join(base, "bulkhead")
	}
	return filepath.Join(cache, "oracle-llamacpp")
}

// prepare is a model file on disk, converted where asked. llama.cpp reads files only, so the built-in model is written out.
func (c *benchEngineCmd) prepare() (path string, cleanup func(), err error) {
	if c.Type == "" && c.Model != "" {
		return string(c.Model), func() {}, nil
	}
	f, err := c.gguf()
	if err != nil {
		return "", nil, refused{err}
	}
	defer f.Close()
	dir, err := os.MkdirTemp("", "bulkhead-bench-")
	if err != nil {
		return "", nil, err
	}
	cleanup = func() { os.RemoveAll(dir) }
	name := c.Type
	if name == "" {
		name = "Q8_0" // what the built-in model is
	}
	to, err := convert.TypeNamed(name)
	if err != nil {
		cleanup()
		return "", nil, refused{err}
	}
	path = filepath.Join(dir, "model.gguf")
	if err := convert.To(path, f, to, nil); err != nil {
		cleanup()
		return "", nil, err
	}
	return path, cleanup, nil
}

// engineBench runs one prompt and answer after the other through both engines.
type engineBench struct {
	engine         *engine.Engine
	theirs         *llamacpp.Oracle
	pool           *kv.Pool
	free           func()
	ids            *kv.Identities
	prompt, decode int
	tokens         []bulkhead.Token

	ourPrefill, ourDecode, itsPrefill, itsDecode []float64 // tokens a second, by round
}

func newEngineBench(e *engine.Engine, prompt, decode int) (*engineBench, error) {
	info, layout := e.Info(), e.Layout(32)
	if prompt < 2 || decode < 1 || bulkhead.Tokens(prompt+decode) > info.Window {
		return nil, fmt.Errorf("--prompt %d and --decode %d: at least 2 and 1, and together no more than the model's window of %d",
			prompt, decode, info.Window)
	}
	pages := layout.Pages(bulkhead.Tokens(prompt + decode))
	arena, free, err := mem.Alloc(pages * layout.PageBytes())
	if err != nil {
		return nil, err
	}
	pool, err := kv.New(kv.Options{Layout: layout, Arena: arena, Summer: e.Kernels()})
	if err != nil {
		free()
		return nil, err
	}
	b := &engineBench{engine: e, pool: pool, free: free, prompt: prompt, decode: decode,
		ids: kv.NewIdentities([32]byte{}, "bench", info.Fingerprint, layout)}
	for i := range prompt {
		b.tokens = append(b.tokens, bulkhead.Token((i*7919+13)%info.Vocab)) // no token twice in a row, nothing to be learned
	}
	return b, nil
}

func (b *engineBench) run(rounds int, progress io.Writer) error {
	for round := range rounds {
		err := inTurn(round, b.runOurs, func() error {
			if b.theirs == nil {
				return nil
			}
			return b.runTheirs()
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(progress, "round %d of %d\n", round+1, rounds)
	}
	return nil
}

// runOurs computes the prompt but its last token, then decodes greedily, on a pool that has nothing cached.
func (b *engineBench) runOurs() error {
	seq := b.pool.Begin(b.ids, nil)
	defer seq.Release()
	if !b.pool.Grow(seq, bulkhead.Tokens(b.prompt+b.decode)) {
		return errors.New("bench: the pool is too small")
	}
	var result [1]engine.Result
	start := time.Now()
	b.engine.Step([]engine.Work{{Seq: seq, Tokens: b.tokens[:b.prompt-1]}}, result[:])
	if result[0].Violation != nil {
		return result[0].Violation
	}
	mid := time.Now()
	next := b.tokens[b.prompt-1:]
	for range b.decode {
		b.engine.Step([]engine.Work{{Seq: seq, Tokens: next, Logits: true}}, result[:])
		if result[0].Violation != nil {
			return result[0].Violation
		}
		next = []bulkhead.Token{likeliest(result[0].Logits)}
	}
	b.ourPrefill = append(b.ourPrefill, float64(b.prompt-1)/mid.Sub(start).Seconds())
	b.ourDecode = append(b.ourDecode, float64(b.decode)/time.Since(mid).Seconds())
	return nil
}

func (b *engineBench) runTheirs() error {
	speed, err := b.theirs.Bench(b.tokens, b.decode)
	if err != nil {
		return err
	}
	b.itsPrefill = append(b.itsPrefill, float64(b.prompt-1)/speed.Prefill.Seconds())
	b.itsDecode = append(b.itsDecode, float64(speed.Decoded)/speed.Decode.Seconds())
	return nil
}

func likeliest(logits []float32) bulkhead.Token {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return bulkhead.Token(best)
}

func (b *engineBench) result(rounds int) engineResult {
	info := b.engine.Info()
	r := engineResult{Model: info.Name, Weights: info.Quantization, Kernels: info.Kernels, Threads: info.Threads,
		Prompt: b.prompt, Decode: b.decode, Rounds: rounds,
		OurPrefill: spreadOf(b.ourPrefill), OurDecode: spreadOf(b.ourDecode)}
	if b.theirs != nil {
		prefill, decode := spreadOf(b.itsPrefill), spreadOf(b.itsDecode)
		prefillOver, decodeOver := ratios(b.ourPrefill, b.itsPrefill), ratios(b.ourDecode, b.itsDecode)
		r.ItsPrefill, r.ItsDecode, r.PrefillOver, r.DecodeOver = &prefill, &decode, &prefillOver, &decodeOver
	}
	return r
}

func (r engineResult) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %s kernels, %d threads, %d rounds\n", r.Model, r.Weights, r.Kernels, r.Threads, r.Rounds)
	fmt.Fprintf(w, "prefill %d tokens  %v tokens/s\n", r.Prompt, r.OurPrefill)
	fmt.Fprintf(w, "decode  %d tokens  %v tokens/s\n", r.Decode, r.OurDecode)
	if r.PrefillOver != nil {
		fmt.Fprintf(w, "%s prefill  %v tokens/s\n", r.Against, r.ItsPrefill)
		fmt.Fprintf(w, "%s decode   %v tokens/s\n", r.Against, r.ItsDecode)
		fmt.Fprintf(w, "prefill ratio  %v\n", r.PrefillOver)
		fmt.Fprintf(w, "decode ratio   %v\n", r.DecodeOver)
	}
	return nil
}
