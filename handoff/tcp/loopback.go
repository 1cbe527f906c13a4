package tcp

import (
	"net"
	"net/netip"
	"strings"
)

// here says whether an address is certainly of this host. Of names only localhost is believed: any other is what a server on
// the network says that it is.
func here(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// mayReach says whether pages may travel to or from an address: anywhere over TLS, else within this host, or where the
// operator has said that the network itself is secured.
func (c *Config) mayReach(addr string) bool { return c.TLS != nil || c.Plaintext || here(addr) }
