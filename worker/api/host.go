package api

import (
	"net"
	"net/http"
	"net/netip"

	"github.com/bulkhead-llm/bulkhead"
)

// checkHost refuses a request that came to a loopback address, without TLS, under a name: a web page can give its own name the
// address 127.0.0.1 (DNS rebinding), and is of the same site then as far as its browser can tell. Who means this worker by its
// loopback address says so. Elsewhere workers may well have names.
func checkHost(r *http.Request) *bulkhead.Refusal {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if r.TLS != nil || addr == nil {
		return nil
	}
	if at, err := netip.ParseAddrPort(addr.String()); err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || len(host) > 2 && host[0] == '[' {
		return nil
	}
	return bulkhead.Refuse(bulkhead.CodeForbidden, "", "the host %q is a name of this worker's loopback address that a web page could have given it: "+
		"say localhost or the address", short(host))
}
