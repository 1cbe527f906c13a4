// Package testdata finds the fixtures that others made: models, vocabularies, templates and golden outputs that this
// project must not copy. A user's machine has none of them, so a test that needs one is skipped there and says so.
package testdata

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"
)

// Env names the variable that points at the fixtures when they are not beside the checkout.
const Env = "BULKHEAD_TESTDATA"

// Dir is where the fixtures are: what Env says, else shared/testdata beside the checkout.
// It is empty where there are none.
func Dir() string {
	dir := os.Getenv(Env)
	if dir == "" {
		_, file, _, _ := runtime.Caller(0)
		dir = filepath.Join(filepath.Dir(file), "..", "..", "..", "shared", "testdata")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// Path is the path of one fixture. The test is skipped where the fixtures are not there, and fails where they are and
// this one is missing.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	dir := Dir()
	if dir == "" {
		t.Skipf("no fixtures: put shared/testdata beside the checkout or set %s", Env)
	}
	path := filepath.Join(append([]string{dir}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("fixture missing: %v", err)
	}
	return path
}

// Read is the content of one fixture.
func Read(t testing.TB, elem ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(Path(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var today = regexp.MustCompile(`Today Date: (\d\d [A-Z][a-z]{2} \d{4})`)

// Renderings is templates/ref.json and a clock that stands on the day on which it was made: some templates write the date. It
// is the latest date in there, since others have one of their own that has passed.
func Renderings(t testing.TB) (ref []byte, now func() time.Time) {
	t.Helper()
	ref = Read(t, "templates", "ref.json")
	var made time.Time
	for _, m := range today.FindAllSubmatch(ref, -1) {
		day, err := time.Parse("02 Jan 2006", string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		if day.After(made) {
			made = day
		}
	}
	return ref, func() time.Time { return made }
}
