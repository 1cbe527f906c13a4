// Command bulkhead serves language models with disaggregated prefill and decode, and proves of every KV page that it
// reads that it is the request's own.
//
// One binary holds every role; `bulkhead --help` lists them. This package only wires: flags, configuration file and
// environment become the options of the other packages, and errors become exit codes:
//
//	0  done, or drained after SIGTERM
//	1  it failed while running
//	2  it refused to start: wrong usage, or a configuration that contradicts itself
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
)

// Exit codes, as the package comment and docs/reference.md list them.
const (
	exitFailed  = 1
	exitRefused = 2
)

// version is set by release builds through -ldflags.
var version = "devel"

type cli struct {
	Config  kong.ConfigFlag  `help:"YAML file with values for flags, by their names. A flag wins over the environment, the environment over the file." placeholder:"FILE"`
	Version kong.VersionFlag `help:"Print the version and exit." env:"-"`

	Serve   serveCmd   `cmd:"" help:"Serve the OpenAI API from one process: a gateway, a prefill worker and a decode worker."`
	Prefill prefillCmd `cmd:"" help:"Run a prefill worker: it computes prompts and hands their pages over."`
	Decode  decodeCmd  `cmd:"" help:"Run a decode worker: it pulls the pages of prompts, proves them, and computes answers."`
	Gateway gatewayCmd `cmd:"" help:"Serve the OpenAI API in front of prefill and decode workers."`
	Certs   certsCmd   `cmd:"" help:"Make certificates and the cluster's secret, for --tls-dir."`
	Model   modelCmd   `cmd:"" help:"Look at model files and convert them."`
	Bench   benchCmd   `cmd:"" help:"Measure, side by side in one run."`
}

// refused marks an error as a refusal to start, which exits with 2.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without the exit, so that script tests can call it.
func run(args []string, stdout, stderr io.Writer) int {
	var c cli
	exited := -1
	parser := newParser(&c, stdout, stderr, func(code int) { exited = code; panic(exitNow{}) })
	ctx, code := parse(parser, args, &exited, stderr)
	if ctx == nil {
		return code
	}
	return report(ctx.Run(&streams{out: stdout, err: stderr}), stderr)
}

// newParser reads flags, environment and configuration file into c.
func newParser(c *cli, stdout, stderr io.Writer, exit func(code int)) *kong.Kong {
	parser, err := kong.New(c,
		kong.Name("bulkhead"),
		kong.Description("LLM serving with disaggregated prefill and decode, in which no request attends over a KV page that is not its own."),
		kong.Vars{"version": version},
		kong.DefaultEnvars("BULKHEAD"),
		kong.Configuration(loadConfig),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.UsageOnError(),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
	)
	if err != nil {
		panic(err) // the flags themselves are malformed
	}
	return parser
}

// exitNow unwinds kong where --help or --version asked to stop.
type exitNow struct{}

// streams is where a command writes.
type streams struct{ out, err io.Writer }

func parse(parser *kong.Kong, args []string, exited *int, stderr io.Writer) (ctx *kong.Context, code int) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exitNow); !ok {
				panic(r)
			}
			ctx, code = nil, *exited
		}
	}()
	ctx, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "bulkhead: %v\nTry: bulkhead --help\n", err)
		return nil, exitRefused
	}
	return ctx, 0
}

func report(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "bulkhead: %v\n", err)
	if errors.As(err, new(refused)) {
		return exitRefused
	}
	return exitFailed
}
