package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// missing is what smg 1.13.0 does not pass on, of questions and of the client suites. Statuses are the workers' own but where
// it says otherwise.
var missing = []miss{
	{"prompts of token ids: on /v1/completions it takes strings only, and refuses the others itself",
		at(`question (\d+ token ids|a stop token|refused, a token that is none)`), at(`.*untagged enum StringOrArray`)},
	{"codes of what it checks itself, before any worker: sizes and types have names of its own",
		at(`question refused, (an empty prompt|a wrong type|out of range|no messages)`), at(`failure (invalid_type|prompt_empty|decimal_above_max_value|empty_array) `)},
	{"code and param of a worker's refusal: a 400 stays a 400 and keeps its message, under a code of smg's and without param; where decode's comes first, a stream's 400 says that its body is events",
		at(`question refused, (over the window|a prompt over the window|an unknown field|not yet|streamed, over the window)`),
		at(`failure (decode|prefill)_bad_request |a stream with HTTP 400`)},
	{"the refusal of control fields: it writes its own room over a client's and passes a client's rid on, which a worker does not take for an id",
		at(`question refused, (a|another) control field`), at(`HTTP 200, must be 400`)},
	{"404 for another model: it has no worker for it and says 503",
		at(`question refused, another model`), at(`HTTP 503, must be 404`)},
	{"the same errors, asked by the clients; and it says 501 of routes that it does not have",
		at(`(Go TestErrors|Python test_(errors|no_route)|Node error: |compatcanary chat\.(tool_call|structured_output))`), at(``)},
}

func at(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?s)^` + pattern) }

// miss is one cause, and what meets it.
type miss struct {
	cause string
	where *regexp.Regexp // of "question NAME", "Go NAME", "Python NAME", "Node NAME", "compatcanary NAME"
	what  *regexp.Regexp // of what differs
}

// misses are what was met.
type misses struct {
	met map[int][]string
}

func newMisses() *misses { return &misses{met: make(map[int][]string)} }

// miss notes something that differs. What is in no entry of the list is an error.
func (m *misses) miss(kind, name, what string) error {
	for i, known := range missing {
		if known.where.MatchString(kind+" "+name) && known.what.MatchString(what) {
			m.met[i] = append(m.met[i], name)
			return nil
		}
	}
	return fmt.Errorf("%s %s: %s", kind, name, what)
}

// stale is an error where an entry of the list was met by nothing.
func (m *misses) stale(suites bool) error {
	for i, known := range missing {
		ofQuestions := strings.Contains(known.where.String(), "question")
		if len(m.met[i]) == 0 && (suites || ofQuestions) {
			return fmt.Errorf("smg passes on what it is said not to: %s (%v); take it off the list", known.cause, known.where)
		}
	}
	return nil
}

func (m *misses) print(w io.Writer) {
	for i, known := range missing {
		fmt.Fprintf(w, "smg does not pass on: %s: %s\n", known.cause, strings.Join(m.met[i], "; "))
	}
}

// outcome matches the line of one test in the reports that are text.
var outcome = map[string]*regexp.Regexp{
	"Python":       regexp.MustCompile(`^(PASSED|FAILED|ERROR) \S+::(.*?)(?: - (.*))?$`),
	"Node":         regexp.MustCompile(`^(ok|not ok) \d+ - (.*)()$`),
	"compatcanary": regexp.MustCompile(`^(pass|not yet|WRONG)\t([^\t]*)\t(.*)$`),
}

// readReports takes in what scripts/conformance has written, test by test.
func readReports(dir string, seen *misses) error {
	if err := readGoReport(filepath.Join(dir, "Go"), seen); err != nil {
		return err
	}
	for client, line := range outcome {
		data, err := os.ReadFile(filepath.Join(dir, client))
		if err != nil {
			return err
		}
		passed, failed := 0, 0
		for text := range strings.Lines(string(data)) {
			m := line.FindStringSubmatch(strings.TrimRight(text, "\n"))
			switch {
			case m == nil || strings.HasSuffix(text, "# SKIP\n"):
			case m[1] == "PASSED" || m[1] == "ok" || m[1] == "pass" || m[1] == "not yet":
				passed++
			default:
				failed++
				if err := seen.miss(client, m[2], m[3]); err != nil {
					return err
				}
			}
		}
		if passed == 0 {
			return fmt.Errorf("%s: no test passed; its report is %s", client, filepath.Join(dir, client))
		}
		fmt.Printf("through smg, %s: %d tests pass, %d meet what smg does not pass on\n", client, passed, failed)
	}
	return nil
}

// readGoReport reads what go test -json writes.
func readGoReport(path string, seen *misses) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	passed, failed := 0, 0
	said := make(map[string]string)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		switch e.Action {
		case "output":
			said[e.Test] += e.Output
		case "pass":
			passed++
		case "fail":
			failed++
			if err := seen.miss("Go", e.Test, said[e.Test]); err != nil {
				return err
			}
		}
	}
	if passed == 0 {
		return fmt.Errorf("no test of the Go client passed; its report is %s", path)
	}
	fmt.Printf("through smg, Go: %d tests pass, %d meet what smg does not pass on\n", passed, failed)
	return nil
}
