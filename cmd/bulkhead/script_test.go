package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
//	http [-H LINE]... METHOD PATH [BODY]
//	                               send a request; status line, headers and body become stdout
//	stop CODE                      SIGTERM the server, wait for it, and compare its exit code; its log becomes stderr
//	exitcode CODE COMMAND [ARG...] run a command and compare its exit code
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Values[serverKey{}] = &server{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":    cmdServe,
			"http":     cmdHTTP,
			"stop":     cmdStop,
			"exitcode": cmdExitCode,
		},
	})
}

type serverKey struct{}

// server is the one server that a script has at a time.
type server struct {
	cmd  *exec.Cmd
	log  string
	done chan error
}

const startLimit = 60 * time.Second

var urlLine = regexp.MustCompile(`url=(http://\S+)`)

func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(serverKey{}).(*server)
	if neg || s.cmd != nil {
		ts.Fatalf("serve: one server at a time, and it must start")
	}
	path, err := exec.LookPath("bulkhead")
	ts.Check(err)
	s.log = filepath.Join(ts.Getenv("WORK"), "server.log")
	log, err := os.Create(s.log)
	ts.Check(err)
	s.cmd = exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	s.cmd.Dir = ts.Getenv("WORK")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	ts.Check(s.cmd.Start())
	s.done = make(chan error, 1)
	go func() { s.done <- s.cmd.Wait(); log.Close() }()
	ts.Defer(func() {
		if s.cmd != nil {
			s.cmd.Process.Kill()
			<-s.done
		}
	})
	for start := time.Now(); time.Since(start) < startLimit; time.Sleep(20 * time.Millisecond) {
		data, err := os.ReadFile(s.log)
		ts.Check(err)
		if m := urlLine.FindSubmatch(data); m != nil {
			ts.Setenv("URL", string(m[1]))
			return
		}
		select {
		case err := <-s.done:
			s.done <- err
			ts.Fatalf("serve: it ended (%v):\n%s", err, data)
		default:
		}
	}
	ts.Fatalf("serve: not listening after %v", startLimit)
}

func cmdHTTP(ts *testscript.TestScript, neg bool, args []string) {
	header := http.Header{}
	for len(args) > 1 && args[0] == "-H" {
		key, value, _ := strings.Cut(args[1], ":")
		header.Add(key, strings.TrimSpace(value))
		args = args[2:]
	}
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: http [-H LINE]... METHOD PATH [BODY]")
	}
	var body io.Reader
	if len(args) == 3 {
		body = strings.NewReader(args[2])
		header.Set("Content-Type", "application/json")
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, args[0], ts.Getenv("URL")+args[1], body)
	ts.Check(err)
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	fmt.Fprintf(ts.Stdout(), "HTTP %d\n", resp.StatusCode)
	ts.Check(resp.Header.Write(ts.Stdout()))
	fmt.Fprintln(ts.Stdout())
	_, err = io.Copy(ts.Stdout(), resp.Body)
	ts.Check(err)
}

func cmdStop(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(serverKey{}).(*server)
	if neg || s.cmd == nil || len(args) != 1 {
		ts.Fatalf("usage: stop CODE, with a server running")
	}
	ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.done:
	case <-time.After(startLimit):
		ts.Fatalf("stop: still running %v after SIGTERM", startLimit)
	}
	code := strconv.Itoa(s.cmd.ProcessState.ExitCode())
	log, err := os.ReadFile(s.log)
	ts.Check(err)
	_, err = io.Copy(ts.Stderr(), bytes.NewReader(log))
	ts.Check(err)
	s.cmd = nil
	if code != args[0] {
		ts.Fatalf("stop: exit code %s, want %s\n%s", code, args[0], log)
	}
}

func cmdExitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE COMMAND [ARG...]")
	}
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		ts.Fatalf("exitcode: %v", err)
	}
	if code := strconv.Itoa(cmd.ProcessState.ExitCode()); code != args[0] {
		ts.Fatalf("%s: exit code %s, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}
