package tcp

import (
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// vectors are the bytes of every vector of a kind, by name.
func vectors(t *testing.T, kind string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "wire", "testdata", kind, "*.hex"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	all := map[string][]byte{}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var digits strings.Builder
		for line := range strings.Lines(string(raw)) {
			if !strings.HasPrefix(line, "#") {
				digits.WriteString(strings.TrimSpace(line))
			}
		}
		if all[filepath.Base(path)], err = hex.DecodeString(digits.String()); err != nil {
			t.Fatal(path, err)
		}
	}
	return all
}

// Both ends refuse every bad vector, as a stranger's first bytes and from a peer that has proven itself.
func TestBadVectors(t *testing.T) {
	refused := func(s Stats) (n uint64) {
		for _, m := range s.Closed {
			n += m
		}
		for _, m := range s.Refused {
			n += m
		}
		return n + s.Unreachable
	}
	for name, data := range vectors(t, "bad") {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			stranger := dial(t, r.addr)
			_, _ = stranger.Write(data)
			_ = stranger.(interface{ CloseWrite() error }).CloseWrite()
			got, _ := io.ReadAll(stranger)
			if rd := wire.NewReader(strings.NewReader(string(got))); len(got) > 0 {
				if f, err := rd.Next(); err != nil || f.Type != wire.TypeError && f.Type != wire.TypeHello {
					t.Errorf("a stranger heard %v, %v", f.Type, err)
				}
			}
			r.await("a refusal", func() bool { return refused(r.out.Stats()) == 1 })
			target, source := r.rawTarget("decode-9"), r.rawSource(1)
			for _, w := range []*raw{target, source} {
				_, _ = w.p.Write(data)
				_ = w.p.CloseWrite()
				drainAll(t, w.p)
			}
			r.awaitHeard(1, handoff.Lost)
			r.await("both are closed", func() bool { return refused(r.out.Stats()) == 2 && refused(r.in.Stats()) == 1 })
		})
	}
}
