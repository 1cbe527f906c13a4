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
