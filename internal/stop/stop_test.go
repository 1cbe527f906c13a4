package stop

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// cut is what a whole text gives by the definition: the text in front of the stop string that is complete first.
func cut(text string, stops []string) (string, bool) {
	for end := range len(text) + 1 {
		at := -1
		for _, stop := range stops {
			if strings.HasSuffix(text[:end], stop) && (at < 0 || end-len(stop) < at) {
				at = end - len(stop)
			}
		}
		if at >= 0 {
			return text[:at], true
		}
	}
	return text, false
}

// However a text is cut into tokens, the same comes out as from the whole, and nothing of a stop string leaves early.
func TestStopperDoesNotSeeTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 1, 5, -1)
		stops := rapid.SliceOfN(letters, 0, 3).Draw(t, "stops")
		parts := rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 0, 4, -1), 0, 8).Draw(t, "parts")
		want, wantFound := cut(strings.Join(parts, ""), stops)
		s := Finder{Stops: stops}
		got, found := "", false
		for _, p := range parts {
			out, f := s.Next(p)
			got += out
			if !strings.HasPrefix(want, got) {
				t.Fatalf("%q left, of %q", got, want)
			}
			if found = f; f {
				break
			}
		}
		if !found {
			got += s.Flush()
		}
		if got != want || found != wantFound {
			t.Fatalf("got %q (%v), want %q (%v)", got, found, want, wantFound)
		}
	})
}

// Text that cannot begin a stop string is not held back.
func TestStopperHoldsLittle(t *testing.T) {
	s := Finder{Stops: []string{"END", "\n\n"}}
	for _, c := range []struct{ in, out string }{
		{"a", "a"}, {"bE", "b"}, {"N", ""}, {"x", "ENx"}, {"\n", ""}, {"y", "\ny"}, {"EN\n", "EN"},
	} {
		if out, found := s.Next(c.in); out != c.out || found {
			t.Errorf("%q gave %q (%v), want %q", c.in, out, found, c.out)
		}
	}
	if out, found := s.Next("\nrest"); out != "" || !found {
		t.Errorf("the end gave %q (%v)", out, found)
	}
}
