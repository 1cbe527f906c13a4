// Command check starts two prefill workers, two decode workers and a gateway, with mutual TLS on loopback, and holds them to
// `bulkhead serve`: every answer must be the same, token for token, and the client suites of the conformance folder must pass.
// scripts/cluster-check runs it.
//
// It prints counts, and ends with 1 at the first thing that is wrong.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bulkhead-llm/bulkhead/conformance/cluster/ask"
	"github.com/bulkhead-llm/bulkhead/internal/cluster"
)

type options struct {
	smg       string
	model     string
	plaintext bool
	suites    bool
	dir       string
	binary    string
}

func main() {
	var o options
	flag.StringVar(&o.smg, "smg", "", "run everything through the router smg, which lies here, in front of the workers")
	flag.StringVar(&o.model, "model", "", "compare on this GGUF file too, with few questions")
	flag.BoolVar(&o.plaintext, "plaintext", false, "no TLS between gateway and workers")
	flag.BoolVar(&o.suites, "suites", true, "run the official clients' suites (scripts/conformance) through the cluster")
	flag.StringVar(&o.binary, "binary", "", "the bulkhead to run (default: built from this checkout)")
	flag.StringVar(&o.dir, "dir", "", "folder for logs; it is kept (default: a temporary one, kept when something is wrong)")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "cluster-check: %q is no flag\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := cluster.EndWithParent(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster-check:", err)
	}
	err := o.run(ctx)
	if ctx.Err() != nil {
		fmt.Fprintf(os.Stderr, "cluster-check: interrupted; logs are in %s\n", o.dir)
		os.Exit(1)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "cluster-check: WRONG: %v\ncluster-check: logs are in %s\n", err, o.dir)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) (err error) {
	temporary := o.dir == ""
	if temporary {
		if o.dir, err = os.MkdirTemp("", "cluster-check"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	if o.binary == "" {
		if o.binary, err = cluster.Build(ctx, o.dir); err != nil {
			return err
		}
	}
	if o.smg != "" {
		err = o.throughSMG(ctx)
	} else {
		err = o.throughGateway(ctx)
	}
	if err == nil && temporary {
		return os.RemoveAll(o.dir)
	}
	return err
}

// throughGateway compares with serve, then runs the suites, then looks whether anything is left behind.
func (o *options) throughGateway(ctx context.Context) error {
	start := time.Now()
	if err := o.one(ctx, "built-in", ask.Suite(), 2, 6, o.suites); err != nil {
		return err
	}
	if o.model != "" {
		if err := o.one(ctx, filepath.Base(o.model), ask.Few(), 1, 2, false, "--model", o.model); err != nil {
			return err
		}
	}
	fmt.Printf("cluster-check: all equal, in %.0f s\n", time.Since(start).Seconds())
	return nil
}

// one runs one model. Each round asks every question once, in another order, so that later rounds meet other pairs and caches
// that are filled.
func (o *options) one(ctx context.Context, name string, questions []ask.Question, rounds, clients int, suites bool, flags ...string) error {
	dir := filepath.Join(o.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	want, err := o.reference(ctx, dir, questions, flags)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{Binary: o.binary, Dir: dir, Prefill: 2, Decode: 2, TLS: !o.plaintext,
		WorkerFlags: flags, GatewayFlags: flags})
	if err != nil {
		return err
	}
	defer c.Close()
	total, err := c.Totals(ctx)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for round := range rounds {
		counts, err := ask.Compare(ctx, http.DefaultClient, c.URL(), questions, want, rng.Perm(len(questions)), clients)
		if err != nil {
			return fmt.Errorf("%s, round %d, after %v: %w", name, round+1, counts, err)
		}
		fmt.Printf("%s, round %d: %v\n", name, round+1, counts)
	}
	if suites {
		if err := conformance(ctx, c.URL()); err != nil {
			return err
		}
	}
	if err := c.Settled(ctx, total, 15*time.Second); err != nil {
		return err
	}
	if err := c.Drain(20 * time.Second); err != nil {
		return err
	}
	fmt.Printf("%s: every page is free or cached on all workers, no room is open, and every process ended with 0\n", name)
	return nil
}

// reference is what serve answers.
func (o *options) reference(ctx context.Context, dir string, questions []ask.Question, flags []string) ([]*ask.Answer, error) {
	s, err := cluster.Serve(ctx, o.binary, dir, flags...)
	if err != nil {
		return nil, err
	}
	defer s.Process.Kill()
	want, err := ask.Reference(ctx, http.DefaultClient, s.URL, questions)
	if err != nil {
		return nil, err
	}
	return want, s.Process.Terminate(20 * time.Second)
}

// conformance runs the suites of other people's clients against a server that runs.
func conformance(ctx context.Context, url string, more ...string) error {
	cmd := exec.CommandContext(ctx, "scripts/conformance")
	cmd.Env = append(append(os.Environ(), "BULKHEAD_URL="+url), more...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("scripts/conformance at %s: %w", url, err)
	}
	return nil
}
