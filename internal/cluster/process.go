package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is one program that was started. It is reaped as soon as it ends.
type Process struct {
	Name string // for messages, and of its log file
	Log  string // file that its output is appended to

	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// launcher starts processes from one thread that lives as long as the program. The kernel ends a child when the thread
// that forked it ends, so no other thread may fork; and a namespace is entered by a thread.
type launcher struct {
	jobs chan func(entered error)
	once sync.Once
}

// here is the launcher of the namespace that the program itself is in.
var here = newLauncher(nil)

// newLauncher has its thread call enter first. Where that fails the error is given by do.
func newLauncher(enter func() error) *launcher {
	l := &launcher{jobs: make(chan func(error))}
	go func() {
		runtime.LockOSThread() // and never unlocked: a thread that entered a namespace is not given back
		var entered error
		if enter != nil {
			entered = enter()
		}
		for job := range l.jobs {
			job(entered)
		}
	}()
	return l
}

// do calls f on the launcher's thread.
func (l *launcher) do(f func() error) error {
	done := make(chan error)
	l.jobs <- func(err error) {
		if err == nil {
			err = f()
		}
		done <- err
	}
	return <-done
}

// close ends the thread. What it started is ended with it.
func (l *launcher) close() { l.once.Do(func() { close(l.jobs) }) }

// start runs a program, its output appended to a log file.
func (l *launcher) start(name, log string, args, env []string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &Process{Name: name, Log: log, exited: make(chan struct{})}
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = dieWithParent()
	if err := l.do(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Run starts a program beside the cluster, for example another router.
func Run(name, log string, args, env []string) (*Process, error) {
	return here.start(name, log, args, env)
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended and was reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Alive reports whether it has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Signal sends a signal. A process that has ended is os.ErrProcessDone.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop halts the process where it is (SIGSTOP); Continue lets it go on.
func (p *Process) Stop() error { return p.Signal(syscall.SIGSTOP) }

// Continue lets a stopped process go on (SIGCONT).
func (p *Process) Continue() error { return p.Signal(syscall.SIGCONT) }

// Kill ends the process at once (SIGKILL) and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.exited
}

// Terminate asks the process to end (SIGTERM) and kills it if it has not by then. The error says that it had to be killed,
// or that its exit code was not 0.
func (p *Process) Terminate(limit time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	select {
	case <-p.exited:
	case <-time.After(limit):
		p.Kill()
		return fmt.Errorf("%s had not ended %v after SIGTERM; its log is %s", p.Name, limit, p.Log)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w after SIGTERM; its log is %s", p.Name, p.err, p.Log)
	}
	return nil
}

// await polls until ok, the process has ended, or ctx is done.
func (p *Process) await(ctx context.Context, ok func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		last := ok()
		if last == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended: %v\n%s", p.Name, p.err, tail(p.Log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.Name, last, tail(p.Log))
		case <-tick.C:
		}
	}
}

// tail is the end of a log, for messages.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return string(data[max(0, len(data)-most):])
}
