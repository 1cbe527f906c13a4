package kv

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/bulkhead-llm/bulkhead"
)

// Transcripts show what a pool does, command by command. Every answer ends with the pages as they are then:
//
//	.  free    c  cached    L2  live, two readers    L1w1  and one open write    Qw1  in quarantine    X  set aside
//
// Tokens are written as tokens=(a16,b16,c5): 16 tokens made from the letter a, then 16 from b and 5 from c. The expected
// output is rewritten by: go test ./kv -run Transcripts -rewrite
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := &script{seqs: map[string]*Sequence{}, res: map[string]*Reservation{}, landings: map[string]*Landing{}}
		datadriven.RunTest(t, path, s.run)
	})
}

// script is the state of one transcript: a pool, and what it has opened by name.
type script struct {
	*rig
	source   *rig // computes what lands
	seqs     map[string]*Sequence
	res      map[string]*Reservation
	landings map[string]*Landing
}

func (s *script) run(t *testing.T, d *datadriven.TestData) (out string) {
	if d.Cmd == "pool" {
		var pages int
		d.ScanArgs(t, "pages", &pages)
		s.rig = newRig(t, small, pages, Options{KeepOnFree: d.HasArg("keep")})
		s.source = newRig(t, small, 64, Options{})
	}
	s.t, s.source.t = t, t
	defer func() {
		if r := recover(); r != nil {
			out = fmt.Sprintf("panic: %v\n", r)
		}
		out += s.show()
		if err := s.Audit(); err != nil {
			out += fmt.Sprintf("audit: %v\n", err)
		}
	}()
	commands := map[string]func(*testing.T, *datadriven.TestData) string{
		"pool": s.nothing, "begin": s.begin, "grow": s.grow, "step": s.steps, "open": s.open, "done": s.done, "fail": s.fail,
		"check": s.check, "release": s.release, "reserve": s.reserve, "land": s.landOne, "prove": s.prove, "fence": s.fence,
		"commit": s.commit, "abandon": s.abandon, "flip": s.flip, "stats": s.stats,
	}
	f, ok := commands[d.Cmd]
	if !ok {
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return f(t, d)
}

func (s *script) show() string {
	var b strings.Builder
	b.WriteString("pages:")
	for i := range s.pages {
		pg := &s.pages[i]
		mark := map[string]string{"free": ".", "cached": "c", "live": "L" + strconv.Itoa(int(pg.readers)), "in quarantine": "Q", "set aside": "X"}[state(pg)]
		if pg.writers > 0 {
			mark += "w" + strconv.Itoa(int(pg.writers))
		}
		b.WriteString(" " + mark)
	}
	return b.String() + "\n"
}

func (s *script) nothing(*testing.T, *datadriven.TestData) string { return "" }

// tokens reads tokens=(a16,b5).
func tokens(t *testing.T, d *datadriven.TestData) (out []bulkhead.Token) {
	arg, ok := d.Arg("tokens")
	if !ok {
		d.Fatalf(t, "tokens are missing")
	}
	for _, v := range arg.Vals {
		n, err := strconv.Atoi(v[1:])
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		for i := range n {
			out = append(out, bulkhead.Token(int(v[0])*1000+i))
		}
	}
	return out
}

func arg(t *testing.T, d *datadriven.TestData, name string) (v string) {
	d.ScanArgs(t, name, &v)
	return v
}

func number(t *testing.T, d *datadriven.TestData, name string) (v int) {
	d.ScanArgs(t, name, &v)
	return v
}

// ids are those of the domain that a command names, "a" where it names none.
func (s *script) ids(t *testing.T, d *datadriven.TestData) *Identities {
	name := "a"
	d.MaybeScanArgs(t, "domain", &name)
	return domain(name, small)
}

func (s *script) begin(t *testing.T, d *datadriven.TestData) string {
	seq := s.Begin(s.ids(t, d), tokens(t, d))
	s.seqs[arg(t, d, "seq")] = seq
	return fmt.Sprintf("%d cached\n", seq.Len())
}

func (s *script) grow(t *testing.T, d *datadriven.TestData) string {
	seq, to := s.seqs[arg(t, d, "seq")], bulkhead.Tokens(number(t, d, "to"))
	can := s.CanGrow(seq, to)
	if ok := s.Grow(seq, to); ok != can {
		t.Fatalf("CanGrow said %v, Grow %v", can, ok)
	}
	return fmt.Sprintf("%v, capacity %d, %d pages free, release gains %d\n", can, seq.Capacity(), s.FreePages(), seq.Gain())
}

func (s *script) steps(t *testing.T, d *datadriven.TestData) string {
	seq := s.seqs[arg(t, d, "seq")]
	if v := s.step(seq, tokens(t, d)); v != nil {
		return v.Error() + "\n"
	}
	return fmt.Sprintf("%d tokens\n", seq.Len())
}

func (s *script) open(t *testing.T, d *datadriven.TestData) string {
	a := s.seqs[arg(t, d, "seq")].Append(tokens(t, d))
	for layer := range small.Layers {
		s.write(a, layer)
	}
	return ""
}

func (s *script) done(t *testing.T, d *datadriven.TestData) string {
	s.seqs[arg(t, d, "seq")].append.Done()
	return ""
}

func (s *script) fail(t *testing.T, d *datadriven.TestData) string {
	s.seqs[arg(t, d, "seq")].append.Fail(nil)
	return ""
}

func (s *script) check(t *testing.T, d *datadriven.TestData) string {
	if v := s.seqs[arg(t, d, "seq")].Check(); v != nil {
		return v.Error() + "\n"
	}
	return "as expected\n"
}

func (s *script) release(t *testing.T, d *datadriven.TestData) string {
	s.seqs[arg(t, d, "seq")].Release()
	return ""
}

func (s *script) reserve(t *testing.T, d *datadriven.TestData) string {
	r, ok := s.Reserve(s.ids(t, d), tokens(t, d))
	if !ok {
		return "no room\n"
	}
	s.res[arg(t, d, "res")] = r
	have := []int{}
	for i := range r.Pages() {
		if r.Have(i) {
			have = append(have, i)
		}
	}
	return fmt.Sprintf("%d pages, have %v\n", r.Pages(), have)
}

// landOne opens a landing and copies what a worker in good order would send: land res=r page=0 [as=1] [domain=b].
func (s *script) landOne(t *testing.T, d *datadriven.TestData) string {
	name, at := arg(t, d, "res"), number(t, d, "page")
	r := s.res[name]
	from := at
	d.MaybeScanArgs(t, "as", &from)
	ids := r.ids
	if d.HasArg("domain") {
		ids = s.ids(t, d)
	}
	l := r.Land(at)
	s.landings[fmt.Sprint(name, at)] = l
	seq := s.source.compute(ids, r.tokens, 16)
	copy(l.Bytes(), seq.Pages()[from])
	seq.Release()
	return ""
}

func (s *script) landing(t *testing.T, d *datadriven.TestData) *Landing {
	return s.landings[fmt.Sprint(arg(t, d, "res"), number(t, d, "page"))]
}

func (s *script) prove(t *testing.T, d *datadriven.TestData) string {
	if v := s.landing(t, d).Prove(); v != nil {
		return v.Error() + "\n"
	}
	return "proven\n"
}

func (s *script) fence(t *testing.T, d *datadriven.TestData) string {
	s.landing(t, d).Fence()
	return ""
}

func (s *script) commit(t *testing.T, d *datadriven.TestData) string {
	seq, err := s.res[arg(t, d, "res")].Commit()
	if err != nil {
		return err.Error() + "\n"
	}
	s.seqs[arg(t, d, "seq")] = seq
	return fmt.Sprintf("%d tokens\n", seq.Len())
}

func (s *script) abandon(t *testing.T, d *datadriven.TestData) string {
	s.res[arg(t, d, "res")].Abandon()
	return ""
}

// flip changes one bit of K in a layer of a page of a sequence.
func (s *script) flip(t *testing.T, d *datadriven.TestData) string {
	seq := s.seqs[arg(t, d, "seq")]
	seq.views[number(t, d, "page")][small.KOffset(number(t, d, "layer"), 0)] ^= 1
	return ""
}

func (s *script) stats(*testing.T, *datadriven.TestData) string {
	st := s.Stats()
	sizes := fmt.Sprintf("%d of %d tokens free", s.Free(), s.Size())
	return fmt.Sprintf("%s, asked %d, hit %d, evicted %d, idle %v, %d findable\n", sizes, st.Asked, st.Hit, st.Evicted, st.Idle(), len(s.index.pages))
}
