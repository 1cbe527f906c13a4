package cluster

import (
	"encoding/hex"
	"fmt"
	"net"
	"strconv"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// Role is which half of a pair a worker is.
type Role string

// The roles, by the names that workers and certificates have for them.
const (
	Prefill Role = "prefill"
	Decode  Role = "decode"
)

// nodeID is a worker's place in the members' list.
type nodeID struct {
	role Role
	url  string
}

func (id nodeID) String() string { return string(id.role) + " " + id.url }

// compatible is what both workers of a pair must have in common.
type compatible struct {
	fingerprint string // of the model, hex
	layout      string // of the KV pages and their type, hex
	page        int    // tokens of a page
}

// facts are what a worker says of itself, checked.
type facts struct {
	name    string
	start   string // another one: it was started again, and its pools are empty
	kind    compatible
	kernels string

	host string // of the handoff, at prefill
	port int

	window, modelWindow, pool, chunk bulkhead.Tokens
	queue, queueTenant, running      int
	draining                         bool
}

// expected is what the gateway knows of a worker before it asks.
type expected struct {
	id          nodeID
	host        string // of its URL
	name        string // of the list or of its certificate; "": any
	fingerprint string // of the model that is served; "": not known yet
}

// examine turns what a worker says into facts, or says why it cannot be used. Each message names the value and what was
// expected: it is for an operator's log.
func examine(info *sglang.ServerInfo, want expected) (facts, error) {
	n := info.Native
	f := facts{
		name: n.Name, start: n.Start, kind: compatible{n.Fingerprint, n.Layout, info.PageSize}, kernels: n.Kernels,
		window: bulkhead.Tokens(n.Window), modelWindow: bulkhead.Tokens(n.ModelWindow), pool: bulkhead.Tokens(n.Pool),
		chunk: bulkhead.Tokens(n.Chunk), queue: n.Queue, queueTenant: n.QueueTenant, running: n.Running,
		draining: n.Draining || info.Status == "draining",
	}
	if err := f.checkIdentity(info.Mode, want); err != nil {
		return facts{}, err
	}
	if err := f.checkLimits(); err != nil {
		return facts{}, err
	}
	if want.id.role != Prefill {
		return f, nil
	}
	return f, f.setHandoff(n.Handoff, want.host)
}

func (f *facts) checkIdentity(mode string, want expected) error {
	switch {
	case Role(mode) != want.id.role:
		return fmt.Errorf("it is a %q worker, and the list has it under %s", mode, want.id.role)
	case f.name == "" || len(f.name) > 255:
		return fmt.Errorf("its name %.40q is empty or longer than 255 bytes", f.name)
	case want.name != "" && f.name != want.name:
		return fmt.Errorf("it calls itself %q, and is known as %q by the list or its certificate", f.name, want.name)
	case f.start == "" || len(f.start) > 255:
		return fmt.Errorf("its start id %.40q is empty or longer than 255 bytes", f.start)
	case !isHex(f.kind.fingerprint, 64):
		return fmt.Errorf("its model fingerprint %.80q is not 64 hexadecimal digits", f.kind.fingerprint)
	case !isHex(f.kind.layout, 0):
		return fmt.Errorf("its KV layout %.80q is not hexadecimal", f.kind.layout)
	case want.fingerprint != "" && f.kind.fingerprint != want.fingerprint:
		return fmt.Errorf("it serves the model with fingerprint %s, and this gateway the one with %s: give both the same model file",
			f.kind.fingerprint, want.fingerprint)
	}
	return nil
}

// isHex says that s is hexadecimal, of n digits unless n is 0.
func isHex(s string, n int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && s != "" && len(s) <= 1024 && (n == 0 || len(s) == n)
}

// checkLimits is rule I7 as far as one worker goes: a window that its own pool does not hold is not believed.
func (f *facts) checkLimits() error {
	whole := bulkhead.Tokens(0)
	if f.kind.page > 0 {
		whole = f.pool / bulkhead.Tokens(f.kind.page) * bulkhead.Tokens(f.kind.page)
	}
	switch {
	case f.kind.page < 1 || f.kind.page > 4096:
		return fmt.Errorf("its pages have %d tokens, must be 1 to 4096", f.kind.page)
	case f.window < 2:
		return fmt.Errorf("its window of %d tokens holds no prompt and answer", f.window)
	case f.window > whole:
		return fmt.Errorf("its window of %d tokens is larger than the %d tokens that its pool holds in whole pages", f.window, whole)
	case f.window > f.modelWindow:
		return fmt.Errorf("its window of %d tokens is larger than the %d of the model", f.window, f.modelWindow)
	}
	for _, b := range []struct {
		name string
		n    int
	}{{"queue", f.queue}, {"queue_tenant", f.queueTenant}, {"running", f.running}, {"chunk_tokens", int(f.chunk)}} {
		if b.n < 1 {
			return fmt.Errorf("its %s is %d, must be at least 1", b.name, b.n)
		}
	}
	return nil
}

// setHandoff reads where prefill is pulled from. A worker that listens on every address says none of them: then it is pulled
// from the host under which the gateway reaches it.
func (f *facts) setHandoff(addr, urlHost string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("its handoff address %.80q is no host:port", addr)
	}
	if f.port, err = strconv.Atoi(port); err != nil || f.port < 1 || f.port > 65535 {
		return fmt.Errorf("its handoff address %.80q has no port from 1 to 65535", addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = urlHost
	}
	f.host = host
	return nil
}

// most is how many requests the worker holds at once: those that wait and those that run.
func (f *facts) most() int { return f.queue + f.running }
