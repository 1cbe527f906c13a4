package main

import (
	"fmt"
	"strconv"

	"github.com/bulkhead-llm/bulkhead"
)

// fallbackMemory is what the pools are sized by where the free memory is not known.
const fallbackMemory = 4 << 30

// poolShare is the part of the free memory that the two pools take together. The rest is for the page cache that holds the
// model file, for activations and for the system.
const poolShare = 0.45

// sizeOrAuto is a count of tokens, or 0 for auto.
type sizeOrAuto bulkhead.Tokens

// UnmarshalText takes "auto" or a whole number of at least 1.
func (s *sizeOrAuto) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*s = 0
		return nil
	}
	n, err := strconv.ParseInt(string(text), 10, 48)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is neither auto nor a number of tokens of at least 1", text)
	}
	*s = sizeOrAuto(n)
	return nil
}

// maxCount is more than any of the counted limits can use, and little enough that sums and products of them hold.
const maxCount = 1 << 20

// check refuses limits out of their range, each by its name, before anything is computed from them.
func (b boundFlags) check() error {
	for _, c := range []struct {
		name string
		n    int
	}{{"running", b.Running}, {"queue", b.Queue}, {"queue-tenant", b.QueueTenant}, {"chunk", b.Chunk}} {
		if c.n < 1 || c.n > maxCount {
			return fmt.Errorf("--%s %d: must be 1 to %d", c.name, c.n, maxCount)
		}
	}
	switch {
	case b.MaxBody < 1:
		return fmt.Errorf("--max-body %d: must be at least 1", b.MaxBody)
	case b.RequestTimeout < 0:
		return fmt.Errorf("--request-timeout %v: must be 0 (none) or more", b.RequestTimeout)
	case b.DrainTimeout < 0:
		return fmt.Errorf("--drain-timeout %v: must be 0 or more", b.DrainTimeout)
	}
	return nil
}

// checkMemory refuses pools that the memory cannot hold: the system would kill the process once they fill.
func (s poolSizes) checkMemory(free int64, layout bulkhead.Layout) error {
	page := int64(layout.PageBytes())
	pages := int64(s.prefill)/int64(layout.PageTokens) + int64(s.decode)/int64(layout.PageTokens)
	if most := free / page; pages > most {
		return fmt.Errorf("a prefill pool of %d tokens and a decode pool of %d tokens take %.0f MiB, and %.0f MiB of memory are free: "+
			"lower --prefill-pool and --decode-pool to %d together (or leave them at auto)",
			s.prefill, s.decode, float64(pages)*float64(page)/(1<<20), float64(free)/(1<<20), most*int64(layout.PageTokens))
	}
	return nil
}

// poolSizes are the two pools in tokens, whole pages.
type poolSizes struct{ prefill, decode bulkhead.Tokens }

// sizePools sizes what the flags leave to auto: half of poolShare of the free memory each, and no more than maxRunning
// whole windows of the model, beyond which a pool is never used.
func sizePools(prefill, decode sizeOrAuto, free int64, layout bulkhead.Layout, window bulkhead.Tokens, maxRunning int) poolSizes {
	pages := int64(float64(free)*poolShare/2) / int64(layout.PageBytes())
	most := int64(layout.Pages(window)) * int64(maxRunning)
	auto := bulkhead.Tokens(min(pages, most)) * bulkhead.Tokens(layout.PageTokens)
	pick := func(s sizeOrAuto) bulkhead.Tokens {
		if s == 0 {
			return auto
		}
		return bulkhead.Tokens(s) / bulkhead.Tokens(layout.PageTokens) * bulkhead.Tokens(layout.PageTokens)
	}
	return poolSizes{prefill: pick(prefill), decode: pick(decode)}
}
