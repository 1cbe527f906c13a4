package trust

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// replace puts the files of one directory into another, as an operator does.
func replace(t *testing.T, dir, from string, names ...string) {
	t.Helper()
	for _, name := range names {
		tmp := filepath.Join(dir, ".tmp")
		write(t, tmp, content(t, filepath.Join(from, name)), 0o600)
		if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// A certificate that is replaced is shown at the next handshake, by configurations that were made before.
func TestCertificateReplaced(t *testing.T) {
	p := newPlace(t)
	dir := p.issue(grant(Prefill, "p1"))
	var log lines
	worker, gateway := p.load(dir, log.logger()), p.node(Gateway, "gw")
	server, client := worker.ServerTLS(Gateway), gateway.ClientTLS(Prefill, "p1")
	before := worker.current().cert.Leaf.SerialNumber
	renewed := filepath.Join(t.TempDir(), "p1")
	if err := p.a.Issue(renewed, grant(Prefill, "p1")); err != nil {
		t.Fatal(err)
	}

	replace(t, dir, renewed, FileCert) // the key is still the old one
	if got := worker.current().cert.Leaf.SerialNumber; got.Cmp(before) != 0 {
		t.Fatal("a certificate without its key was taken")
	}
	worker.current()
	if c := strings.Count(log.String(), "not taken"); c != 1 {
		t.Errorf("logged %d times that the files are not taken:\n%s", c, log.String())
	}
	if _, serverErr, clientErr := meet(t, server, client); serverErr != nil || clientErr != nil {
		t.Fatal("between two files:", serverErr, clientErr)
	}

	replace(t, dir, renewed, FileKey)
	_, _, clientErr := meet(t, server, client)
	if clientErr != nil {
		t.Fatal(clientErr)
	}
	if got := worker.current().cert.Leaf.SerialNumber; got.Cmp(before) == 0 {
		t.Error("the new certificate is not in use")
	}
}

// An authority is replaced in three steps with no moment in which a peer is refused that should not be.
func TestAuthorityReplaced(t *testing.T) {
	p, next := newPlace(t), newPlace(t)
	gwDir, dir := p.issue(grant(Gateway, "gw")), p.issue(grant(Prefill, "p1"))
	gateway, worker := p.load(gwDir, nil), p.load(dir, nil)
	server, client := worker.ServerTLS(Gateway), gateway.ClientTLS(Prefill, "p1")
	check := func(what string, ok bool) {
		t.Helper()
		_, serverErr, clientErr := meet(t, server, client)
		if (serverErr == nil && clientErr == nil) != ok {
			t.Fatal(what, serverErr, clientErr)
		}
	}
	check("old", true)
	newGw, newWorker := next.issue(grant(Gateway, "gw")), next.issue(grant(Prefill, "p1"))
	both := append(content(t, filepath.Join(dir, FileCA)), content(t, filepath.Join(newWorker, FileCA))...)
	for _, d := range []string{dir, gwDir} { // 1. everybody believes both
		write(t, filepath.Join(d, FileCA), both, 0o644)
	}
	check("both authorities", true)
	replace(t, gwDir, newGw, FileCert, FileKey) // 2. one after the other shows the new
	check("one node is new", true)
	replace(t, dir, newWorker, FileCert, FileKey)
	check("both nodes are new", true)
	for _, d := range []string{dir, gwDir} { // 3. the old one is believed no more
		write(t, filepath.Join(d, FileCA), content(t, filepath.Join(newWorker, FileCA)), 0o644)
	}
	check("new", true)

	late := p.node(Gateway, "late") // whoever was forgotten is out
	if _, serverErr, _ := meet(t, server, unchecked(late.ClientTLS(Prefill, "p1"))); serverErr == nil {
		t.Error("a certificate of the removed authority was let in")
	}
}

// A node does not become another, and lives on with what it had.
func TestAnotherSubjectIsNotTaken(t *testing.T) {
	p := newPlace(t)
	dir, other := p.issue(grant(Prefill, "p1")), p.issue(grant(Decode, "d1"))
	var log lines
	n := p.load(dir, log.logger())
	replace(t, dir, other, FileCert, FileKey)
	if s, _ := SubjectOf(n.current().cert.Leaf); s != (Subject{Prefill, "p1"}) {
		t.Error(s)
	}
	if !strings.Contains(log.String(), "is for decode d1, and this is prefill p1") {
		t.Error(log.String())
	}
	for _, name := range []string{FileCert, FileKey, FileCA} { // nor does it fall over
		os.Remove(filepath.Join(dir, name))
	}
	gateway := p.node(Gateway, "gw")
	if _, serverErr, clientErr := meet(t, n.ServerTLS(Gateway), gateway.ClientTLS(Prefill, "p1")); serverErr != nil || clientErr != nil {
		t.Error(serverErr, clientErr)
	}
}
