package trust

import (
	"fmt"
	"net"
	"strings"
)

// CheckHost refuses what is neither an IP address nor a DNS name that can stand in a certificate.
func CheckHost(host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	ok := len(host) >= 1 && len(host) <= 253
	for label := range strings.SplitSeq(host, ".") {
		ok = ok && checkLabel(label)
	}
	if !ok {
		return fmt.Errorf("%q is neither an IP address nor a DNS name (no port, no scheme)", host)
	}
	return nil
}

func checkLabel(label string) bool {
	if len(label) < 1 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for _, c := range []byte(label) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
