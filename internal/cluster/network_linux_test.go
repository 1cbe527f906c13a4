package cluster

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The test proper runs in a namespace of its own, as the programs that use a Network do.
func TestNetwork(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil || os.Getuid() != 0 {
		t.Skip("network namespaces need root and iproute2")
	}
	code, err := againInNamespace([]string{"-test.run=^TestNetworkInside$", "-test.v"})
	if err != nil || code != 0 {
		t.Fatalf("exit code %d: %v", code, err)
	}
}

// A cut takes one direction, on a connection that is open, and joining mends that very connection.
func TestNetworkInside(t *testing.T) {
	if os.Getenv(ownNamespace) == "" {
		t.Skip("TestNetwork runs it")
	}
	w, err := NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	a, b := addPlace(t, w, "a"), addPlace(t, w, "b")
	server := listenEcho(t, b)
	conn := dialFrom(t, a, server)
	defer conn.Close()
	replies := bufio.NewReader(conn)
	say := func(limit time.Duration) error {
		conn.SetDeadline(time.Now().Add(limit))
		if _, err := fmt.Fprintln(conn, "here"); err != nil {
			return err
		}
		_, err := replies.ReadString('\n')
		return err
	}
	const short, long = 300 * time.Millisecond, 10 * time.Second
	if err := say(long); err != nil {
		t.Fatalf("before anything is cut: %v", err)
	}
	for name, f := range map[string][2]func() error{
		"there":   {func() error { return w.Cut(a, b) }, func() error { return w.Join(a, b) }},
		"back":    {func() error { return w.Cut(b, a) }, func() error { return w.Join(b, a) }},
		"a cable": {func() error { return w.Unplug(b) }, func() error { return w.Plug(b) }},
	} {
		if err := f[0](); err != nil {
			t.Fatal(err)
		}
		if say(short) == nil {
			t.Errorf("cut %s, and an answer came", name)
		}
		if err := f[1](); err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(long))
		if _, err := replies.ReadString('\n'); err != nil {
			t.Fatalf("mended %s: what was said before does not arrive: %v", name, err)
		}
		if err := say(long); err != nil {
			t.Fatalf("mended %s: %v", name, err)
		}
	}
}

func addPlace(t *testing.T, w *Network, name string) *Place {
	t.Helper()
	p, err := w.Add(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func listenEcho(t *testing.T, p *Place) string {
	t.Helper()
	var l net.Listener
	if err := p.launcher.do(func() (err error) { l, err = net.Listen("tcp", p.IP+":7000"); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					fmt.Fprintln(c, lines.Text())
				}
			}()
		}
	}()
	return l.Addr().String()
}

func dialFrom(t *testing.T, p *Place, addr string) net.Conn {
	t.Helper()
	var c net.Conn
	err := p.launcher.do(func() (err error) {
		c, err = (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp", addr)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
