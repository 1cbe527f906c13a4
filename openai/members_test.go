package openai

import (
	"bytes"
	"encoding/json"
	"testing"
)

// Whatever arrives: what Split takes is what the standard library reads, member by member, and what Without leaves is
// exactly the rest.
func FuzzSplit(f *testing.F) {
	seeds(f, "chat")
	f.Add([]byte(` { "a" : 1 , "b":[{"c":"}"}],"\u0064":9007199254740993, "":-0.50 } `))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		members, ref := Split(body)
		if ref != nil {
			if ref.Message == "" {
				t.Fatal("a refusal that says nothing")
			}
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(body, &want); err != nil || len(want) != len(members) {
			t.Fatalf("%d members of %q, the standard library has %d: %v", len(members), body, len(want), err)
		}
		for i, m := range members {
			if !bytes.Equal(m.Value, bytes.TrimSpace(want[m.Name])) {
				t.Fatalf("%q: %q, the standard library has %q", m.Name, m.Value, want[m.Name])
			}
			rest := Without(body, members, func(o Member) bool { return o.Name == m.Name })
			left, ref := Split(rest)
			if ref != nil || len(left) != len(members)-1 {
				t.Fatalf("%q without %q is %q: %v", body, m.Name, rest, ref)
			}
			for j, l := range left {
				if j >= i {
					j++
				}
				if l.Name != members[j].Name || !bytes.Equal(l.Value, members[j].Value) {
					t.Fatalf("%q without %q is %q", body, m.Name, rest)
				}
			}
		}
	})
}

// Numbers and strings go through as they were written.
func TestWithoutKeepsBytes(t *testing.T) {
	body := []byte(`{ "seed": 9007199254740993 , "bootstrap_room":7,"x":1.0,"t":"\u0041\/é" }`)
	members, ref := Split(body)
	if ref != nil {
		t.Fatal(ref)
	}
	got := Without(body, members, func(m Member) bool { return m.Name == "bootstrap_room" })
	if want := `{"seed": 9007199254740993,"x":1.0,"t":"\u0041\/é"}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A key that comes twice is refused, at any depth and however it is written.
func TestSplitRefuses(t *testing.T) {
	for _, body := range []string{``, `[]`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"x":{"a":1,"a":1}}`, `{"a":1} {}`, `{"a":01}`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`} {
		if m, ref := Split([]byte(body)); ref == nil || m != nil {
			t.Errorf("%s is taken: %v", body, m)
		}
	}
}
