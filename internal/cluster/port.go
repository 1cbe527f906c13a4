package cluster

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range from which the kernel gives outgoing connections theirs, so that a port stays free
// for the process that is started again on it.
const firstPort, lastPort = 12000, 31999

// freePort is a port of host that nobody listens on and that was not given before.
func freePort(host string, given map[int]bool) (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if given[port] {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		l.Close()
		given[port] = true
		return port, nil
	}
	return 0, errors.New("cluster: no free port in 1000 tries")
}

// FreePort is a port of host for something that is started beside the cluster.
func FreePort(host string) (int, error) { return freePort(host, map[int]bool{}) }
