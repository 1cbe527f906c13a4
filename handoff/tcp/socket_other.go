//go:build !linux

package tcp

import "net"

// wakeFor is done on Linux only.
func wakeFor(net.Conn, int) {}
