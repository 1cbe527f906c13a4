package api

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
	"pgregory.net/rapid"
)

// Whatever arrives: no crash, a refusal that says something, and of what is taken the rest is an object that holds none of
// the router's fields, nothing that was not there before, and everything else byte for byte.
func FuzzSeparate(f *testing.F) {
	for _, s := range []string{
		`{"text":"hi","bootstrap_host":"127.0.0.1","bootstrap_port":8998,"bootstrap_room":7060211347122613584}`,
		`{"model":"m","n":2,"bootstrap_host":["a","b"],"bootstrap_port":[1,2],"bootstrap_room":[1,2],"seed":9007199254740993}`,
		`{"rid":"a-b_c.1","routed_dp_rank":0,"data_parallel_rank":null,"bulkhead":{"tenant":"t","domain":"d","timeout_seconds":1.5,"incremental":true}}`,
		`{"\u0072id":"x","log_metrics":true,"skip_special_tokens":false}`, `{"bootstrap_room":1.0}`, `{"bootstrap_room":[1,null]}`, `{}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, rest, ref := Separate(body)
		if ref != nil {
			if status, b := openai.Failure(ref); status != 400 || b.Error.Message == "" {
				t.Fatalf("%d %+v", status, ref)
			}
			return
		}
		for _, r := range c.Rooms {
			if r < 1 || r > math.MaxInt64 {
				t.Fatalf("room %d", r)
			}
		}
		for _, p := range c.Ports {
			if p < 1 || p > 65535 {
				t.Fatalf("port %d", p)
			}
		}
		before, ref := openai.Split(body)
		after, ref2 := openai.Split(rest)
		if ref != nil || ref2 != nil {
			t.Fatalf("%q, rest %q: %v %v", body, rest, ref, ref2)
		}
		i := 0
		for _, m := range before {
			if isControl(m) || isInert(m) {
				continue
			}
			if i == len(after) || after[i].Name != m.Name || string(after[i].Value) != string(m.Value) {
				t.Fatalf("%q: the rest is %q", body, rest)
			}
			i++
		}
		if i != len(after) {
			t.Fatalf("%q: the rest is %q", body, rest)
		}
	})
}

// The fields that are the router's are all in the list of what a client may not say, so none can reach an inner parser that
// would take it; bulkhead's own is unknown there.
func TestControlFieldsAreNobodyElses(t *testing.T) {
	class := map[string]openai.Class{}
	for _, f := range append(openai.ChatFields(), openai.CompletionFields()...) {
		class[f.Name] = f.Class
	}
	for name := range controlFields {
		if got := class[name]; name != "bulkhead" && got != openai.Forbidden {
			t.Errorf("%s is %q to a client", name, got)
		}
	}
	for name := range inert {
		if got := class[name]; got == openai.Done {
			t.Errorf("%s does something, and is dropped", name)
		}
	}
}

// Every answer has a room of its own, a valid one, and the same one on both sides.
func TestRooms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rooms := rapid.SliceOfNDistinct(rapid.Uint64Range(1, math.MaxInt64), 1, 5, rapid.ID).Draw(t, "rooms")
		n := rapid.IntRange(1, openai.MaxChoices).Draw(t, "answers")
		var c Control
		for _, r := range rooms {
			c.Rooms = append(c.Rooms, bulkhead.Room(r))
		}
		body, _ := json.Marshal(map[string]any{"bootstrap_room": rooms})
		other, _, ref := Separate(body)
		if ref != nil {
			t.Fatal(ref)
		}
		seen := map[bulkhead.Room]bool{}
		for i := range n {
			r := c.Room(i)
			if r < 1 || r > math.MaxInt64 || seen[r] || r != other.Room(i) {
				t.Fatalf("answer %d of %d has room %d", i, n, r)
			}
			if i < len(rooms) && r != c.Rooms[i] {
				t.Fatalf("answer %d does not have the room that was named for it", i)
			}
			seen[r] = true
		}
	})
}

// Tokens are read as the standard library reads numbers, and nothing else is a token.
func TestTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.Int32Range(0, math.MaxInt32)).Draw(t, "ids")
		body, _ := json.MarshalIndent(want, rapid.SampledFrom([]string{"", "\t"}).Draw(t, "indent"), " ")
		if want == nil {
			body = []byte("[]")
		}
		got, ref := tokens("input_ids", body)
		if ref != nil || len(got) != len(want) {
			t.Fatalf("%s: %v %v", body, got, ref)
		}
		for i := range want {
			if int32(got[i]) != want[i] {
				t.Fatalf("%s: %v", body, got)
			}
		}
	})
	for _, bad := range []string{`[-1]`, `[1.5]`, `[2147483648]`, `["1"]`, `[[1]]`, `[1,[2]]`, `{}`, `"x"`, `[null]`, `[true]`, `[1e2]`} {
		if got, ref := tokens("input_ids", []byte(bad)); ref == nil {
			t.Errorf("%s is taken: %v", bad, got)
		}
	}
}

// No host, port, room or id leaves a check out: what SGLang takes for a request of no transfer is refused or is an address
// like any other.
func TestNoAddressSkipsAnything(t *testing.T) {
	c, _, ref := Separate([]byte(`{"bootstrap_host":"2.2.2.2","bootstrap_port":1,"bootstrap_room":5,"rid":null}`))
	if ref != nil || c.peerOf(1, 0).Addr != "2.2.2.2:1" || c.Room(0) != 5 {
		t.Errorf("%+v %v", c, ref)
	}
}
