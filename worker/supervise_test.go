package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine"
)

// liar is an engine that does not do what it says.
type liar struct {
	engine.Runner
	lie func(work []engine.Work, results []engine.Result, step func())
}

func (l liar) Step(work []engine.Work, results []engine.Result) {
	l.lie(work, results, func() { l.Runner.Step(work, results) })
}

// bugs are what an engine or a loop can do that no request can be made good after.
var bugs = map[string]func(work []engine.Work, results []engine.Result, step func()){
	"panic in prefill": func(work []engine.Work, _ []engine.Result, step func()) {
		if !work[0].Logits && work[0].Seq.Len() > 0 {
			panic("boom")
		}
		step()
	},
	"panic in decode": func(work []engine.Work, _ []engine.Result, step func()) {
		if work[0].Logits && work[0].Seq.Len() > 45 {
			panic("boom")
		}
		step()
	},
	"panic with appends open": func(work []engine.Work, _ []engine.Result, step func()) {
		if work[0].Logits && work[0].Seq.Len() > 45 {
			work[0].Seq.Append(work[0].Tokens)
			panic("boom")
		}
		step()
	},
	"a token of a dead sequence": func(work []engine.Work, results []engine.Result, step func()) {
		step()
		if work[0].Logits && work[0].Seq.Len() > 45 {
			a := work[0].Seq.Pages()[0]
			a[layout.KOffset(0, 0)] ^= 1
			work[0].Seq.Resum(0)
		}
	},
	"a token of nothing computed": func(work []engine.Work, results []engine.Result, step func()) {
		if work[0].Logits && work[0].Seq.Len() > 45 {
			results[0] = engine.Result{Logits: make([]float32, vocab)}
			return
		}
		step()
	},
	"a prefix of nothing computed": func(work []engine.Work, _ []engine.Result, step func()) {
		if work[0].Logits {
			step()
		}
	},
	"a violation of a sequence that goes on": func(work []engine.Work, results []engine.Result, step func()) {
		step()
		if work[0].Logits && work[0].Seq.Len() > 45 {
			results[0].Violation = &bulkhead.Violation{}
		}
	},
	"no logits": func(work []engine.Work, results []engine.Result, step func()) {
		step()
		if work[0].Seq.Len() > 45 {
			results[0].Logits = nil
		}
	},
}

// bugEnv names the bug that a child of TestBugsEndTheProcess is to have.
const bugEnv = "BULKHEAD_TEST_BUG"

// A bug ends every request with exactly one end, lets no wrong token out, and then ends the process with its reason. It hangs
// nothing.
func TestBugsEndTheProcess(t *testing.T) {
	if name := os.Getenv(bugEnv); name != "" {
		buggy(t, name)
		return
	}
	for name := range bugs {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestBugsEndTheProcess$")
			child.Env = append(os.Environ(), bugEnv+"="+name)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 {
				t.Errorf("ended with %v", err)
			}
			for _, want := range []string{"first ended as failed\n", "second ended as failed\n", "then refused\n", "panic: "} {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if strings.Contains(string(out), "wrong") {
				t.Errorf("%s", out)
			}
		})
	}
}

func buggy(t *testing.T, name string) {
	l := limitsFor(256, 512, 512)
	both := make(chan struct{}) // requests have been submitted: no step before, else the bug comes first
	bug := func(work []engine.Work, results []engine.Result, step func()) {
		<-both
		bugs[name](work, results, step)
	}
	p, err := NewPair(Config{Runner: liar{newModel(), bug}, Layout: layout, Limits: l, EOS: []bulkhead.Token{eos}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Pair: p, t: t}
	first, second := request("acme", words(40, 1), 200), request("bolt", words(41, 2), 200)
	a, b := r.start(first), r.start(second)
	close(both)
	for i, s := range []*Stream{a, b} {
		tokens, end := read(t, s)
		want, _ := r.reference([]bulkhead.Request{first, second}[i])
		for n := range tokens {
			if tokens[n] != want[n] {
				fmt.Println("wrong token")
			}
		}
		fmt.Printf("%s ended as %v\n", []string{"first", "second"}[i], end.Reason)
	}
	if _, refusal := r.Submit(r.admit(first)); refusal != nil {
		fmt.Println("then refused")
	}
	time.Sleep(30 * time.Second)
}
