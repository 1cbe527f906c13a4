//go:build !linux

package cluster

import "syscall"

// EndWithParent does nothing here.
func EndWithParent() error { return nil }

// dieWithParent does nothing here: a program that dies without Close leaves its processes.
func dieWithParent() *syscall.SysProcAttr { return nil }
