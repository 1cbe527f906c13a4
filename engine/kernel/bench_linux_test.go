package kernel

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is how long this thread has been running on a CPU.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
