package main

import (
	"net/http"
	"testing"

	"github.com/bulkhead-llm/bulkhead/trust"
)

func TestIsLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:8081": true, "127.9.9.9:1": true, "[::1]:8081": true, "::1": true, "localhost:80": true, "LOCALHOST": true,
		"[::ffff:127.0.0.1]:80": true, "127.0.0.1": true,
		"0.0.0.0:8081": false, ":8081": false, "": false, "[::]:8081": false, "10.0.0.5:1": false, "example.org:80": false,
		"localhost.example.org:80": false, "127.0.0.1.example.org:80": false, "[::ffff:10.0.0.1]:80": false, "127.1:80": false,
	} {
		if isLoopback(addr) != want {
			t.Errorf("%q: %v", addr, !want)
		}
	}
}

// Without TLS a gateway is whoever reaches loopback, and anybody only where the operator said so; with TLS nobody is without a
// certificate.
func TestWhoIsAGateway(t *testing.T) {
	plain, secured := &peers{}, &peers{node: &trust.Node{}}
	for _, c := range []struct {
		p         *peers
		everybody bool
		from      string
		want      bool
	}{
		{plain, false, "127.0.0.1:1", true}, {plain, false, "[::1]:1", true}, {plain, false, "10.0.0.1:1", false}, {plain, false, "", false},
		{plain, true, "10.0.0.1:1", true}, {secured, false, "127.0.0.1:1", false}, {secured, true, "127.0.0.1:1", false},
	} {
		if _, _, ok := c.p.who(c.everybody)(&http.Request{RemoteAddr: c.from}); ok != c.want {
			t.Errorf("%+v: %v", c, ok)
		}
	}
}
