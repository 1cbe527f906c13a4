package trust

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Node is this process's place in the cluster: what it shows, whom it believes, and the secret. It is safe for concurrent use.
type Node struct {
	Subject
	Secret Secret

	dir   string
	log   *slog.Logger
	every time.Duration // how often the files are looked at, at most

	mu     sync.Mutex
	now    *material
	stamps [3]os.FileInfo // of the files as they were last looked at, nil where one was missing
	looked time.Time
	failed string // why the files as they are now are not taken; "" when they are
}

// Load reads a node's directory. It refuses files that are missing, damaged or readable by the world, a certificate that
// does not belong to the key, one that names no role and node, and one that a peer would not take: issued by another
// authority, expired, or not valid yet.
func Load(dir string, log *slog.Logger) (*Node, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	now := time.Now()
	n := &Node{dir: dir, log: log, every: time.Second, looked: now}
	n.stamps = n.look()
	m, err := loadMaterial(dir, now)
	if err != nil {
		return nil, fmt.Errorf("trust: %w", err)
	}
	if n.Secret, err = LoadSecret(filepath.Join(dir, FileSecret)); err != nil {
		return nil, fmt.Errorf("trust: %w", err)
	}
	n.now, n.Subject = m, m.subject
	n.warn(m, now)
	return n, nil
}

// NotAfter is when the node's certificate ends.
func (n *Node) NotAfter() time.Time { return n.current().cert.Leaf.NotAfter }

// current is the newest consistent reading of the files. While they are being replaced, or are wrong, it is the last one
// that was right.
func (n *Node) current() *material {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if now.Sub(n.looked) < n.every {
		return n.now
	}
	n.looked = now
	if stamps := n.look(); n.failed != "" || !same(stamps, n.stamps) {
		n.stamps = stamps
		n.reload(now)
	}
	n.warn(n.now, now)
	return n.now
}

// reload takes the files as they are now, if they fit each other and are still this node's.
func (n *Node) reload(now time.Time) {
	m, err := loadMaterial(n.dir, now)
	if err == nil && m.subject != n.Subject {
		err = fmt.Errorf("the new certificate is for %s, and this is %s", m.subject, n.Subject)
	}
	if err != nil {
		if err.Error() != n.failed {
			n.log.Error("changed TLS files are not taken; those from before stay in use", "dir", n.dir, "err", err)
		}
		n.failed = err.Error()
		return
	}
	n.now, n.failed = m, ""
	n.log.Info("changed TLS files are in use", "dir", n.dir, "not_after", m.cert.Leaf.NotAfter)
}

// warn says once for each certificate that its end is near.
func (n *Node) warn(m *material, now time.Time) {
	left, near := m.ending(now)
	if !near || m.warned {
		return
	}
	m.warned = true
	n.log.Warn("the TLS certificate ends soon: replace it, no restart is needed", "node", n.Subject.String(),
		"not_after", m.cert.Leaf.NotAfter, "left", left.Round(time.Minute))
}

// look takes the stamps of the files that may be replaced.
func (n *Node) look() (stamps [3]os.FileInfo) {
	for i, name := range [...]string{FileCA, FileCert, FileKey} {
		stamps[i], _ = os.Stat(filepath.Join(n.dir, name))
	}
	return stamps
}

func same(a, b [3]os.FileInfo) bool {
	for i := range a {
		x, y := a[i], b[i]
		if (x == nil) != (y == nil) {
			return false
		}
		if x != nil && (!os.SameFile(x, y) || x.Size() != y.Size() || !x.ModTime().Equal(y.ModTime()) || x.Mode() != y.Mode()) {
			return false
		}
	}
	return true
}
