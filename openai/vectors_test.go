package openai

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
)

var update = flag.Bool("update", false, "rewrite what testdata expects")

// parsers are the bodies that clients send, by the name of their file of vectors.
var parsers = map[string]func([]byte) (any, *bulkhead.Refusal){
	"chat":       wrap(ParseChat),
	"completion": wrap(ParseCompletion),
	"tokenize":   wrap(ParseTokenize),
	"detokenize": wrap(ParseDetokenize),
}

func wrap[R any](parse func([]byte) (*R, *bulkhead.Refusal)) func([]byte) (any, *bulkhead.Refusal) {
	return func(body []byte) (any, *bulkhead.Refusal) {
		req, ref := parse(body)
		if ref != nil {
			return nil, ref
		}
		return req, nil
	}
}

// Wire vectors: every file of testdata is a list of blocks, each a line "# what it pins", a body, and what comes of it:
// the request as JSON, or status, code, param and message of the refusal. A body in quotes is a Go string.
func TestVectors(t *testing.T) {
	for name, parse := range parsers {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".txt")
			old, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			for i, block := range strings.Split(strings.TrimSpace(string(old)), "\n\n") {
				title, rest, _ := strings.Cut(block, "\n")
				body, _, _ := strings.Cut(rest, "\n=>")
				if i > 0 {
					out.WriteByte('\n')
				}
				fmt.Fprintf(&out, "%s\n%s\n=> %s\n", title, body, outcome(parse, vectorBody(t, body)))
			}
			if *update {
				if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if out.String() != string(old) {
				t.Errorf("%s differs; see with -update and git diff:\n%s", path, firstDifference(string(old), out.String()))
			}
		})
	}
}

func vectorBody(t *testing.T, body string) []byte {
	if strings.HasPrefix(body, `"`) {
		s, err := strconv.Unquote(body)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return []byte(s)
	}
	return []byte(body)
}

func outcome(parse func([]byte) (any, *bulkhead.Refusal), body []byte) string {
	req, ref := parse(body)
	if ref != nil {
		status, answer := Failure(ref)
		param := "-"
		if answer.Error.Param != nil {
			param = *answer.Error.Param
		}
		return fmt.Sprintf("%d %s %s: %s", status, *answer.Error.Code, param, answer.Error.Message)
	}
	text, err := json.Marshal(req)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, as[i], bs[i])
		}
	}
	return "one is longer"
}
