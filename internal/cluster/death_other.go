//go:build !linux

package cluster

import "syscall"

// dieWithParent does nothing here: a program that dies without Close leaves its processes.
func dieWithParent() *syscall.SysProcAttr { return nil }
