// Package testcache finds what tests take from package registries: models, tokenizers and engines that the scripts in
// scripts/fetch-* put into a cache outside the checkout.
package testcache

import (
	"os"
	"path/filepath"
	"testing"
)

const (
	// Env names the variable that points at the cache.
	Env = "BULKHEAD_CACHE"
	// Require names the variable that turns a skip for missing material into a failure. CI sets it.
	Require = "BULKHEAD_REQUIRE_CACHE"
)

// SmolLM2 is the file that scripts/fetch-smollm2 fetches: SmolLM2-135M-Instruct, Q4_1.
const SmolLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"

// Dir is the folder of the cache, whether it exists or not.
func Dir() string {
	if dir := os.Getenv(Env); dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "bulkhead")
}

// Path is the path of something in the cache. Where it is missing the test is skipped and says which script fetches it,
// or fails where Require is set.
func Path(t testing.TB, script string, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{Dir()}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv(Require) != "" {
			t.Fatalf("missing %s: run scripts/%s", path, script)
		}
		t.Skipf("missing %s: run scripts/%s", path, script)
	}
	return path
}
