package tcp

import (
	"net"
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
)

// Without certificates pages stay on this host, whatever a router says.
func TestPlaintextStaysHere(t *testing.T) {
	r := newRig(t, nil)
	for i, addr := range []string{"192.0.2.1:8998", "example.org:8998", "[2001:db8::1]:8998", "nonsense"} {
		r.in.Enter(bulkhead.Room(i+1), handoff.Peer{Addr: addr}, handoff.Claim{})
		m, _ := r.in.Receive()
		if len(m) != 1 || m[0].Kind != handoff.Lost || !strings.Contains(m[0].Text, addr) || !strings.Contains(m[0].Text, "not on loopback") {
			t.Errorf("%s: %+v", addr, m)
		}
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.out.Serve(l); err == nil || !strings.Contains(err.Error(), "can be reached from other hosts") {
		t.Error(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is open")
	}
}

func TestHere(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:1": false, ":1": false, "127.0.0.1": false, "localhost.example.org:1": false, "10.0.0.1:1": false} {
		if here(addr) != want {
			t.Errorf("%q: %v", addr, !want)
		}
	}
	c := &Config{Plaintext: true}
	if !c.mayReach("192.0.2.1:1") {
		t.Error("allowed explicitly, and refused")
	}
}
