//go:build !linux

package kernel

import "time"

var started = time.Now()

// threadTime is as near as this system comes to the time that a thread has been running.
func threadTime() time.Duration { return time.Since(started) }
