package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

type serversKey struct{}

// server is a process of a script, by its name.
type server struct {
	cmd  *exec.Cmd
	log  string
	done chan error
}

const startLimit = 60 * time.Second

var urlLine = regexp.MustCompile(`msg=serving url=(https?://\S+)`)

func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("serve: it must start")
	}
	start(ts, "", append([]string{"serve"}, args...))
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME COMMAND [FLAG...]")
	}
	start(ts, args[0], args[1:])
}

// start runs a command on a free port, unless it names one, and waits until it says where it serves.
func start(ts *testscript.TestScript, name string, args []string) {
	servers := ts.Value(serversKey{}).(map[string]*server)
	if servers[name] != nil {
		ts.Fatalf("%q is running", name)
	}
	path, err := exec.LookPath("bulkhead")
	ts.Check(err)
	s := &server{log: filepath.Join(ts.Getenv("WORK"), name+"server.log"), done: make(chan error, 1)}
	log, err := os.Create(s.log)
	ts.Check(err)
	s.cmd = exec.Command(path, append([]string{args[0], "--listen", "127.0.0.1:0"}, args[1:]...)...)
	s.cmd.Dir, s.cmd.Env = ts.Getenv("WORK"), environ(ts)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	ts.Check(s.cmd.Start())
	servers[name] = s
	go func() { s.done <- s.cmd.Wait(); log.Close() }()
	ts.Defer(func() {
		if servers[name] == s {
			s.cmd.Process.Kill()
			<-s.done
		}
	})
	ts.Setenv(map[bool]string{true: "URL", false: name + "_URL"}[name == ""], s.await(ts))
}

// environ is the environment with what the script has set for flags.
func environ(ts *testscript.TestScript) []string {
	env := os.Environ()
	var c cli
	for _, command := range newParser(&c, io.Discard, io.Discard, nil).Model.Leaves(true) {
		for _, flag := range slices.Concat(command.AllFlags(true)...) {
			for _, name := range flag.Envs {
				if value := ts.Getenv(name); value != "" {
					env = append(env, name+"="+value)
				}
			}
		}
	}
	return env
}

// await is the address under which the server serves.
func (s *server) await(ts *testscript.TestScript) string {
	for start := time.Now(); time.Since(start) < startLimit; time.Sleep(20 * time.Millisecond) {
		data, err := os.ReadFile(s.log)
		ts.Check(err)
		if m := urlLine.FindSubmatch(data); m != nil {
			return string(m[1])
		}
		select {
		case err := <-s.done:
			s.done <- err
			ts.Fatalf("it ended (%v):\n%s", err, data)
		default:
		}
	}
	data, _ := os.ReadFile(s.log)
	ts.Fatalf("not listening after %v:\n%s", startLimit, data)
	return ""
}

func cmdLogged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: logged NAME REGEXP")
	}
	s := ts.Value(serversKey{}).(map[string]*server)[args[0]]
	want := regexp.MustCompile(args[1])
	var data []byte
	for start := time.Now(); time.Since(start) < startLimit; time.Sleep(20 * time.Millisecond) {
		var err error
		data, err = os.ReadFile(s.log)
		ts.Check(err)
		if want.Match(data) {
			return
		}
	}
	ts.Fatalf("%s never logged %s:\n%s", args[0], want, data)
}

func cmdDrain(ts *testscript.TestScript, neg bool, args []string) {
	servers := ts.Value(serversKey{}).(map[string]*server)
	name := ""
	if len(args) == 2 {
		name, args = args[0], args[1:]
	}
	s := servers[name]
	if neg || s == nil || len(args) != 1 {
		ts.Fatalf("usage: drain [NAME] CODE, with a server running")
	}
	ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.done:
	case <-time.After(startLimit):
		ts.Fatalf("drain: still running %v after SIGTERM", startLimit)
	}
	code := strconv.Itoa(s.cmd.ProcessState.ExitCode())
	log, err := os.ReadFile(s.log)
	ts.Check(err)
	_, err = io.Copy(ts.Stderr(), bytes.NewReader(log))
	ts.Check(err)
	delete(servers, name)
	if code != args[0] {
		ts.Fatalf("drain: exit code %s, want %s\n%s", code, args[0], log)
	}
}
