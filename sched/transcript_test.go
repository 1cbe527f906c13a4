package sched

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
)

var update = flag.Bool("update", false, "rewrite the outputs of the transcripts")

// transcript runs the commands of a file, one a line, and compares what run answers with the lines behind "> ". Lines that
// begin with # are comments. -update rewrites the answers.
func transcript(t *testing.T, name string, run func(cmd string, args []string) string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for s := bufio.NewScanner(strings.NewReader(string(old))); s.Scan(); {
		line := s.Text()
		if strings.HasPrefix(line, ">") {
			continue
		}
		fmt.Fprintln(&got, line)
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		for out := range strings.Lines(run(f[0], f[1:])) {
			fmt.Fprintf(&got, "> %s\n", strings.TrimSuffix(out, "\n"))
		}
	}
	if got.String() == string(old) {
		return
	}
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s differs; run with -update and look at the diff. Got:\n%s", path, got.String())
}

func num(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func field(args []string, i int, def string) string {
	if i < len(args) {
		return args[i]
	}
	return def
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Commands: limits QUEUE TENANT RUNNING CHUNK PAGE; submit TICKET TENANT TOKENS [DEADLINE s]; next; begun
// TICKET CACHED; step; close TICKET; charge TENANT N; at SECONDS; state.
func TestPrefillTranscripts(t *testing.T) {
	for _, name := range []string{"prefill_fair.txt", "prefill_bounds.txt"} {
		t.Run(name, func(t *testing.T) {
			var p *Prefill
			now := epoch
			transcript(t, name, func(cmd string, a []string) string {
				switch cmd {
				case "limits":
					p = NewPrefill(bulkhead.Limits{Queue: num(a[0]), QueueTenant: num(a[1]), Running: num(a[2]),
						Chunk: bulkhead.Tokens(num(a[3])), PageTokens: num(a[4])})
				case "submit":
					j := Job{Ticket: Ticket(num(a[0])), Tenant: a[1], Tokens: bulkhead.Tokens(num(a[2]))}
					if d := num(field(a, 3, "0")); d > 0 {
						j.Deadline = epoch.Add(time.Duration(d) * time.Second)
					}
					if r := p.Submit(j, now); r != nil {
						return r.Error() + fmt.Sprintf(" (retry after %v)", r.RetryAfter)
					}
				case "next":
					if j, ok := p.Next(); ok {
						return fmt.Sprintf("%d of %s, %v", j.Ticket, j.Tenant, j.Tokens)
					}
					return "nobody"
				case "begun":
					if p.Begun(Ticket(num(a[0])), bulkhead.Tokens(num(a[1]))) {
						return "nothing to compute"
					}
				case "step":
					return shares(p.Step())
				case "close":
					return fmt.Sprint(p.Close(Ticket(num(a[0]))))
				case "charge":
					p.Charge(a[0], bulkhead.Tokens(num(a[1])))
				case "at":
					now = epoch.Add(time.Duration(num(a[0])) * time.Second)
				case "state":
					c, o := p.Computing()
					return fmt.Sprintf("%d wait %v, %d are computed, %d open", p.Waiting(), p.WaitingByTenant(), c, o)
				default:
					t.Fatalf("unknown command %q", cmd)
				}
				return ""
			})
		})
	}
}

func shares(s []Share) string {
	if len(s) == 0 {
		return "nothing"
	}
	var out []string
	for _, s := range s {
		last := ""
		if s.Last {
			last = " last"
		}
		out = append(out, fmt.Sprintf("%d:%d%s", s.Ticket, int(s.Tokens), last))
	}
	return strings.Join(out, ", ")
}

// fakePool counts pages as the real one does, and keeps each holder's length.
type fakePool struct {
	page, free int
	len, pages map[Ticket]int
	log        []string
	line       *Decode // where those go that are set back
}

func (p *fakePool) need(tokens int) int { return (tokens + p.page - 1) / p.page }

func (p *fakePool) Grow(t Ticket) bool {
	more := p.need(p.len[t]+1) - p.pages[t]
	if more > p.free {
		return false
	}
	p.free -= more
	p.pages[t] += more
	return true
}

func (p *fakePool) drop(t Ticket) {
	p.free += p.pages[t]
	delete(p.pages, t)
	delete(p.len, t)
}

func (p *fakePool) SetBack(t Ticket) {
	n := p.len[t]
	p.drop(t)
	p.log = append(p.log, fmt.Sprintf("%d set back", t))
	p.line.Offer(t, bulkhead.Tokens(n))
}

func (p *fakePool) Stuck(t Ticket) bool {
	p.drop(t)
	p.log = append(p.log, fmt.Sprintf("%d stuck", t))
	return true
}

// Commands: pool PAGES PAGE RUNNING; offer TICKET PREFIX; next; reserve TICKET PREFIX; again TICKET PREFIX; computing; land TICKET; step [TIMES]; end TICKET; state.
func TestDecodeTranscripts(t *testing.T) {
	for _, name := range []string{"decode_setback.txt", "decode_line.txt"} {
		t.Run(name, func(t *testing.T) {
			var d *Decode
			var p *fakePool
			transcript(t, name, func(cmd string, a []string) string {
				switch cmd {
				case "pool":
					p = &fakePool{page: num(a[1]), free: num(a[0]), len: map[Ticket]int{}, pages: map[Ticket]int{}}
					d = NewDecode(bulkhead.Limits{Running: num(a[2]), PageTokens: num(a[1])})
					p.line = d
				case "offer":
					d.Offer(Ticket(num(a[0])), bulkhead.Tokens(num(a[1])))
				case "next":
					if t, ok := d.Next(bulkhead.Tokens(p.free * p.page)); ok {
						return fmt.Sprint(t)
					}
					return "nobody"
				case "reserve":
					t, n := Ticket(num(a[0])), num(a[1])
					d.Reserved(t)
					p.len[t], p.pages[t] = n, p.need(n)
					p.free -= p.need(n)
				case "again":
					t, n := Ticket(num(a[0])), num(a[1])
					d.Begun(t)
					p.len[t], p.pages[t] = n, p.need(n)
					p.free -= p.need(n)
				case "computing":
					return fmt.Sprint(d.Computing())
				case "land":
					d.Landed(Ticket(num(a[0])))
				case "step":
					p.log = nil
					var batch []Ticket
					for range num(field(a, 0, "1")) {
						batch = d.Step(p)
						for _, t := range batch {
							p.len[t]++
						}
					}
					return strings.Join(append(p.log, fmt.Sprintf("step of %v, %d free", batch, p.free)), "\n")
				case "end":
					ok := d.Remove(Ticket(num(a[0])))
					p.drop(Ticket(num(a[0])))
					return fmt.Sprint(ok)
				case "state":
					l, g, c, r := d.Lens()
					return fmt.Sprintf("%d in line, %d landing, %d computed again, %d running, %d pages free", l, g, c, r, p.free)
				default:
					t.Fatalf("unknown command %q", cmd)
				}
				return ""
			})
		})
	}
}
