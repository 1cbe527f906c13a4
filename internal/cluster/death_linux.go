package cluster

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// EndWithParent has the kernel ask this program to end (SIGTERM) when the one that started it ends, as a shell does that is
// killed.
func EndWithParent() error {
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
}

// dieWithParent has the kernel kill a child when the thread that started it ends.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
