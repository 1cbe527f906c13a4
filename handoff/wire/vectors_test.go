package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

var update = flag.Bool("update", false, "write the vectors anew")

// vector is one file of testdata: hex with a head of comments. The line "expect:" says what a reader makes of it: of a good
// one what it says, of a bad one the error.
type vector struct {
	about, expect string
	data          []byte
}

func (v vector) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n# expect: %s\n", v.about, strings.TrimSpace(v.expect))
	for i, h := 0, hex.EncodeToString(v.data); i < len(h); i += 64 {
		b.WriteString(h[i:min(i+64, len(h))] + "\n")
	}
	return b.String()
}

func parseVector(t *testing.T, path string) vector {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v vector
	var digits strings.Builder
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "# expect:"):
			v.expect = strings.TrimSpace(strings.TrimPrefix(line, "# expect:"))
		case strings.HasPrefix(line, "# "):
			v.about = strings.TrimPrefix(line, "# ")
		default:
			digits.WriteString(line)
		}
	}
	if v.data, err = hex.DecodeString(digits.String()); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// readers are every way in which bytes come.
var readers = map[string]func(io.Reader) io.Reader{
	"at once":       func(r io.Reader) io.Reader { return r },
	"byte by byte":  iotest.OneByteReader,
	"half by half":  iotest.HalfReader,
	"with the end":  iotest.DataErrReader,
	"after an idle": func(r io.Reader) io.Reader { return io.MultiReader(iotest.OneByteReader(r), r) },
}

// read takes all frames of a vector, to what they say and to the same bytes again.
func read(r io.Reader) (said string, again []byte, err error) {
	rd := NewReader(r)
	for n := 0; ; n++ {
		f, err := rd.Next()
		if err == io.EOF && n > 0 {
			return said, again, nil
		}
		if err != nil {
			return said, again, err
		}
		s, enc, err := reencode(f)
		if err != nil {
			return said, again, err
		}
		if n > 0 {
			said += "; "
		}
		said, again = said+s, append(again, enc...)
	}
}

// reencode parses a frame, by the function of its type, and says and writes what came out.
func reencode(f Frame) (said string, b []byte, err error) {
	say := func(format string, args ...any) {
		said = f.Type.String()
		if f.Room != 0 {
			said += " room " + f.Room.String()
		}
		if s := fmt.Sprintf(format, args...); s != "" {
			said += " " + s
		}
	}
	switch f.Type {
	case TypeHello:
		var h *Hello
		if h, err = ParseHello(f); err == nil {
			say("%d to %d, %v, %q, layout %v, page of %d bytes", h.Min, h.Max, h.Role, h.Name, h.Layout, h.PageBytes)
			b = AppendHello(nil, h)
		}
	case TypeAuth:
		var p Proof
		p, err = ParseAuth(f)
		say("%x", p[:4])
		b = AppendAuth(nil, p)
	case TypeError:
		var e *Error
		if e, err = ParseError(f); err == nil {
			say("%v: %s", e.Code, e.Text)
			b = AppendError(nil, e)
		}
	case TypePing:
		var n uint64
		n, err = ParsePing(f)
		say("%d", n)
		b = AppendPing(nil, n)
	case TypePong:
		var n uint64
		n, err = ParsePong(f)
		say("%d", n)
		b = AppendPong(nil, n)
	case TypeRing:
		var g Ring
		g, err = ParseRing(f)
		say("%+v", g)
		b = AppendRing(nil, g)
	case TypeCredit:
		var slot int
		slot, err = ParseCredit(f)
		say("%d", slot)
		b = AppendCredit(nil, slot)
	default:
		return reencodeRoom(f, say, &said)
	}
	return said, b, err
}

func reencodeRoom(f Frame, say func(string, ...any), said *string) (_ string, b []byte, err error) {
	switch f.Type {
	case TypeEnter:
		c, e := ParseEnter(f)
		say("claim %x", c[:])
		b, err = AppendEnter(nil, f.Room, c), e
	case TypeOffer:
		n, e := ParseOffer(f)
		say("%d pages", n)
		b, err = AppendOffer(nil, f.Room, n), e
	case TypePull:
		first, n, e := ParsePull(f)
		say("%d pages from %d", n, first)
		b, err = AppendPull(nil, f.Room, first, n), e
	case TypePage:
		p, e := ParsePage(f)
		say("%+v", p)
		b, err = AppendPage(nil, f.Room, p), e
	case TypeStop:
		why, e := ParseStop(f)
		if why == nil {
			say("")
		} else {
			say("%v, refusal %v, cause %v, tokens %d %d %d", why.Reason, why.Refusal, why.Err, why.Prompt, why.Cached, why.Completion)
		}
		b, err = AppendStop(nil, f.Room, why), e
	case TypeCommit:
		say("")
		b = AppendCommit(nil, f.Room)
	case TypeAbandon:
		page, e := ParseAbandon(f)
		say("%d", page)
		b, err = AppendAbandon(nil, f.Room, page), e
	case TypeDone:
		say("")
		b = AppendDone(nil, f.Room)
	}
	return *said, b, err
}

// Every good vector says what its head says and is written as the same bytes; every bad one is refused for the reason in
// its head, in whatever pieces it comes.
func TestVectors(t *testing.T) {
	if *update {
		writeVectors(t)
	}
	count := 0
	for _, kind := range []string{"good", "bad"} {
		files, _ := filepath.Glob(filepath.Join("testdata", kind, "*.hex"))
		for _, path := range files {
			v := parseVector(t, path)
			count++
			for how, wrap := range readers {
				said, again, err := read(wrap(bytes.NewReader(v.data)))
				var e *Error
				switch {
				case kind == "good" && (err != nil || strings.TrimSpace(said) != v.expect || !bytes.Equal(again, v.data)):
					t.Errorf("%s %s: %q, %v\nwant %q\n%x\n%x", path, how, said, err, v.expect, again, v.data)
				case kind == "bad" && (err == nil || err.Error() != v.expect):
					t.Errorf("%s %s: %v, want %s", path, how, err, v.expect)
				case kind == "bad" && !errors.As(err, &e) && !errors.Is(err, io.ErrUnexpectedEOF):
					t.Errorf("%s: the error is %T", path, err)
				}
			}
		}
	}
	if want := len(good()) + len(bad()); count != want || want < 60 {
		t.Errorf("%d vectors, %d are made: run go test -update", count, want)
	}
}

func writeVectors(t *testing.T) {
	for kind, all := range map[string]map[string]vector{"good": good(), "bad": bad()} {
		dir := filepath.Join("testdata", kind)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, v := range all {
			said, _, err := read(bytes.NewReader(v.data))
			v.expect = said
			if kind == "bad" {
				v.expect = fmt.Sprint(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name+".hex"), []byte(v.text()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
