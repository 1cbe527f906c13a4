package cluster

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func startShell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Run("shell", filepath.Join(t.TempDir(), "log"), []string{"/bin/sh", "-c", script}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// A stopped process neither ends on SIGTERM nor escapes SIGKILL, and goes on when it is let.
func TestStopAndContinue(t *testing.T) {
	p := startShell(t, "trap 'exit 0' TERM; while :; do sleep 0.01; done")
	time.Sleep(100 * time.Millisecond) // until the trap is set
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if !p.Alive() {
		t.Fatal("a stopped process ended")
	}
	if err := p.Continue(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Exited():
	case <-time.After(5 * time.Second):
		t.Fatal("it does not go on")
	}
	q := startShell(t, "sleep 60")
	if err := q.Stop(); err != nil {
		t.Fatal(err)
	}
	q.Kill()
	if q.Alive() {
		t.Error("alive after Kill")
	}
}

// Terminate reports an exit code that is not 0, and a process that does not end in time.
func TestTerminate(t *testing.T) {
	for script, want := range map[string]string{
		"trap 'exit 0' TERM; while :; do sleep 0.01; done": "",
		"trap 'exit 3' TERM; while :; do sleep 0.01; done": "exit status 3",
		"trap '' TERM; while :; do sleep 0.01; done":       "had not ended",
	} {
		p := startShell(t, script)
		time.Sleep(100 * time.Millisecond)
		err := p.Terminate(time.Second)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", script, err, want)
		}
	}
}

// What a program started dies with the program, however that dies.
func TestNothingOutlives(t *testing.T) {
	if os.Getenv("CLUSTER_TEST_PARENT") != "" {
		p, err := Run("child", filepath.Join(os.TempDir(), "child.log"), []string{"/bin/sleep", "300"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("pid " + strconv.Itoa(p.PID()) + "\n")
		select {}
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestNothingOutlives$")
	parent.Env = append(os.Environ(), "CLUSTER_TEST_PARENT=1", "TMPDIR="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "pid ")))
	if err != nil {
		t.Fatal(err)
	}
	parent.Process.Kill()
	parent.Wait()
	for wait := time.Now(); time.Since(wait) < 5*time.Second; time.Sleep(10 * time.Millisecond) {
		if ended(pid) {
			return
		}
	}
	syscall.Kill(pid, syscall.SIGKILL)
	t.Errorf("process %d outlived its parent", pid)
}

// ended reports whether the process is gone, or dead and waiting to be reaped by whoever inherited it.
func ended(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
