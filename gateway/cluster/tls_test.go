package cluster_test

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead/gateway/cluster"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster/clustertest"
	"github.com/bulkhead-llm/bulkhead/trust"
)

// nodes are the TLS identities of a small cluster.
func nodes(t *testing.T, subjects ...trust.Subject) map[string]*trust.Node {
	t.Helper()
	now := time.Now()
	ca, err := trust.NewAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*trust.Node{}
	for _, s := range subjects {
		dir := filepath.Join(t.TempDir(), s.Name)
		if err := ca.Issue(dir, trust.Grant{Subject: s, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if out[s.Name], err = trust.Load(dir, nil); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func secured(c *cluster.Config, gateway *trust.Node) {
	c.TLS = func(role cluster.Role, name string) *tls.Config { return gateway.ClientTLS(trust.Role(role), name) }
	c.PeerName = func(s tls.ConnectionState) (cluster.Role, string, error) {
		role, name, err := trust.PeerOf(s)
		return cluster.Role(role), name, err
	}
}

// With mutual TLS a worker is used only if it is who the list and its certificate say, and gets requests only from a gateway.
func TestMutualTLS(t *testing.T) {
	n := nodes(t, trust.Subject{Role: trust.Gateway, Name: "gateway-0"}, trust.Subject{Role: trust.Prefill, Name: "prefill-0"},
		trust.Subject{Role: trust.Decode, Name: "decode-0"}, trust.Subject{Role: trust.Decode, Name: "decode-1"})
	rooms := clustertest.NewRooms()
	prefill := clustertest.NewTLS("prefill", "prefill-0", rooms, n["prefill-0"].ServerTLS(trust.Gateway))
	decode := clustertest.NewTLS("decode", "decode-0", rooms, n["decode-0"].ServerTLS(trust.Gateway))
	liar := clustertest.NewTLS("decode", "decode-0", rooms, n["decode-1"].ServerTLS(trust.Gateway))    // says another's name
	role := clustertest.NewTLS("decode", "prefill-0", rooms, n["prefill-0"].ServerTLS(trust.Gateway))  // another's role
	strict := clustertest.NewTLS("decode", "decode-1", rooms, n["decode-1"].ServerTLS(trust.Operator)) // lets no gateway in
	stranger := clustertest.NewTLS("decode", "decode-1", rooms, nodes(t, trust.Subject{Role: trust.Decode, Name: "decode-1"})["decode-1"].ServerTLS(trust.Gateway))
	bad := []*clustertest.Worker{liar, role, strict, stranger}
	r := newRig(t, 0, 0, func(c *cluster.Config, r *rig) {
		secured(c, n["gateway-0"])
		r.prefill, r.decode = []*clustertest.Worker{prefill}, append([]*clustertest.Worker{decode}, bad...)
	})
	r.until("the good ones are in", func() bool { return r.c.Ready() == nil })
	time.Sleep(100 * time.Millisecond)
	for range 5 {
		req := request(20, 3)
		r.whole(r.ask(req), req)
	}
	for _, w := range bad {
		if len(w.Requests()) > 0 || r.state(w).In || r.state(w).Problem == "" {
			t.Errorf("%+v got %d requests", r.state(w), len(w.Requests()))
		}
	}
	if p := r.state(liar).Problem; !strings.Contains(p, `calls itself "decode-0"`) {
		t.Errorf("the liar's problem: %s", p)
	}
	m := r.members()
	m.Decode[0].Name = "decode-1" // the list wants another
	if err := r.c.SetMembers(m); err != nil {
		t.Fatal(err)
	}
	r.until("the other name is seen", func() bool { return r.c.Ready() != nil && strings.Contains(r.state(decode).Problem, "decode-1") })
	m.Decode[0].URL = "http://127.0.0.1:1"
	if err := r.c.SetMembers(m); err == nil || !strings.Contains(err.Error(), "https://127.0.0.1:1") {
		t.Errorf("plaintext beside TLS: %v", err)
	}
}

// A worker that was exchanged for another behind one address gets no request that was meant for the first: its name is looked at
// in each new connection.
func TestExchangedWorker(t *testing.T) {
	n := nodes(t, trust.Subject{Role: trust.Gateway, Name: "gateway-0"}, trust.Subject{Role: trust.Prefill, Name: "prefill-0"},
		trust.Subject{Role: trust.Decode, Name: "decode-0"}, trust.Subject{Role: trust.Decode, Name: "decode-1"})
	rooms := clustertest.NewRooms()
	prefill := clustertest.NewTLS("prefill", "prefill-0", rooms, n["prefill-0"].ServerTLS(trust.Gateway))
	var shown atomic.Value
	shown.Store("decode-0")
	exchanging := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return n[shown.Load().(string)].ServerTLS(trust.Gateway), nil
	}}
	decode := clustertest.NewTLS("decode", "decode-0", rooms, exchanging)
	r := newRig(t, 0, 0, func(c *cluster.Config, r *rig) {
		secured(c, n["gateway-0"])
		c.Probes.Every, c.Probes.GenerateEvery, c.Retries = time.Hour, time.Hour, -1
		r.prefill, r.decode = []*clustertest.Worker{prefill}, []*clustertest.Worker{decode}
	})
	r.until("the pair is in", func() bool { return r.c.Ready() == nil })
	shown.Store("decode-1")
	if a := r.ask(request(10, 3)); a.end.Refusal == nil {
		t.Errorf("%+v", a.end)
	}
	if n := len(decode.Requests()); n != 0 {
		t.Errorf("the other worker got %d requests", n)
	}
	r.logged(`is decode \"decode-1\" now`)
}
