package api

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A name that a web page has given the loopback address opens nothing; addresses, localhost, other interfaces and TLS do.
func TestCheckHost(t *testing.T) {
	for _, c := range []struct {
		local, host string
		secure, ok  bool
	}{
		{local: "127.0.0.1:8082", host: "127.0.0.1:8082", ok: true},
		{local: "127.0.0.1:8082", host: "127.0.0.1", ok: true},
		{local: "127.0.0.1:8082", host: "localhost:8082", ok: true},
		{local: "[::1]:8082", host: "[::1]:8082", ok: true},
		{local: "[::1]:8082", host: "[::1]", ok: true},
		{local: "127.0.0.1:8082", host: "evil.example"},
		{local: "127.0.0.1:8082", host: "evil.example:8082"},
		{local: "[::1]:8082", host: "evil.example:8082"},
		{local: "127.0.0.1:8082", host: ""},
		{local: "127.0.0.1:8082", host: "worker.internal:8082", secure: true, ok: true},
		{local: "10.0.0.5:8082", host: "worker.internal:8082", ok: true},
	} {
		local, err := net.ResolveTCPAddr("tcp", c.local)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("POST", "/flush_cache", nil)
		r.Host = c.host
		if c.secure {
			r.TLS = new(tls.ConnectionState)
		}
		if got := checkHost(r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))); (got == nil) != c.ok {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
