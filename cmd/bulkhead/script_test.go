package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"bulkhead": func() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs the real main as a user types it. Beside testscript's own commands the scripts have
//
//	serve [FLAG...]                start `bulkhead serve` on a free port and wait until it listens; $URL is its address
//	start NAME COMMAND [FLAG...]   the same with another command, beside what runs; $NAME_URL is its address
//	http [-H LINE]... [-T DIR ROLE] METHOD PATH|URL [BODY]
//	                               send a request; status line, headers and body become stdout. -T: as the node of DIR, to one of ROLE
//	drain [NAME] CODE              SIGTERM the server, wait for it, and compare its exit code; its log becomes stderr
//	await ARG...                   http with these, until the answer is 200
//	logged NAME REGEXP             wait until the log of a server matches
//	exitcode CODE COMMAND [ARG...] run a command and compare its exit code
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Values[serversKey{}] = map[string]*server{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":    cmdServe,
			"start":    cmdStart,
			"http":     cmdHTTP,
			"await":    cmdAwait,
			"logged":   cmdLogged,
			"drain":    cmdDrain,
			"exitcode": cmdExitCode,
		},
	})
}

func cmdExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE COMMAND [ARG...]")
	}
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir, cmd.Env = ts.Getenv("WORK"), environ(ts)
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		ts.Fatalf("exitcode: %v", err)
	}
	if code := strconv.Itoa(cmd.ProcessState.ExitCode()); code != args[0] {
		ts.Fatalf("%s: exit code %s, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}
