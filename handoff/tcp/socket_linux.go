package tcp

import (
	"net"

	"golang.org/x/sys/unix"
)

// wakeFor has the kernel wake the reader of a socket when n bytes are there, or the end. It is a wish: without it reads are
// smaller.
func wakeFor(nc net.Conn, n int) {
	t, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	if rc, err := t.SyscallConn(); err == nil {
		_ = rc.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, n) })
	}
}
