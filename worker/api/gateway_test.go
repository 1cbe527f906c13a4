package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster"
	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
	"github.com/bulkhead-llm/bulkhead/worker"
	"github.com/bulkhead-llm/bulkhead/worker/api"
)

// serve puts an API on loopback.
func serve(t *testing.T, side worker.Side, change func(*api.Config, *fake)) (string, *fake) {
	t.Helper()
	a, f := newAPI(t, side, change)
	s := httptest.NewUnstartedServer(nil)
	s.Config = a.Server()
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, f
}

// newCluster is a gateway's view of a pair of these servers.
func newCluster(t *testing.T, prefill, decode string) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(cluster.Config{Vocab: gatewaytest.Size, Probes: cluster.Probes{Every: 20 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.SetMembers(cluster.Members{Prefill: []cluster.Member{{URL: prefill}}, Decode: []cluster.Member{{URL: decode}}}); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if c.Ready() == nil {
			return c
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal(c.Ready())
	return nil
}

// all is the tokens of an answer and its End.
func all(t rapid.TB, s gateway.Stream) (tokens []bulkhead.Event, end bulkhead.End) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for {
		e, ok := s.Next(ctx)
		if !ok {
			t.Fatal("a stream without an End")
		}
		if e.End != nil {
			return tokens, *e.End
		}
		tokens = append(tokens, e)
	}
}

// Bulkhead's own gateway and these workers speak one language: what comes out of the gateway is what the decode worker said,
// and what the worker was asked is what the gateway was asked, to the last bit.
func TestOurGatewaySpeaksToIt(t *testing.T) {
	prefill, pf := serve(t, worker.Prefill, nil)
	decode, df := serve(t, worker.Decode, nil)
	c := newCluster(t, prefill, decode)
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		adm, ref := limits.Admit(r)
		if ref != nil {
			t.Fatal(ref)
		}
		direct, ref := gatewaytest.NewBackend(limits).Submit(context.Background(), adm)
		if ref != nil {
			t.Fatal(ref)
		}
		want, wantEnd := all(t, direct)
		s, ref := c.Submit(context.Background(), adm)
		if ref != nil {
			t.Fatal(ref)
		}
		got, gotEnd := all(t, s)
		if !reflect.DeepEqual(got, want) || gotEnd.Reason != wantEnd.Reason {
			t.Fatalf("got  %+v %+v\nwant %+v %+v", got, gotEnd, want, wantEnd)
		}
		atPrefill, atDecode := last(pf, r), last(df, r)
		if atPrefill.Room != atDecode.Room || atDecode.Peer.Addr != "127.0.0.1:9000" || atDecode.Peer.Name != "prefill-0" || atPrefill.Peer.Name != "decode-0" {
			t.Fatalf("%+v and %+v", atPrefill, atDecode)
		}
		for _, o := range []worker.Order{atPrefill, atDecode} {
			asked := o.Request.Request()
			asked.ID, asked.Deadline = r.ID, r.Deadline
			if !reflect.DeepEqual(asked, adm.Request()) {
				t.Fatalf("asked %+v\nwant  %+v", asked, adm.Request())
			}
		}
	})
}

// last is the last order of a tenant: probes have one of their own.
func last(f *fake, r bulkhead.Request) (o worker.Order) {
	for _, got := range f.taken() {
		if got.Request.Request().Tenant == r.Tenant {
			o = got
		}
	}
	return o
}

func drawRequest(t *rapid.T) bulkhead.Request {
	r := bulkhead.Request{
		ID:        "r",
		Tenant:    bulkhead.Tenant{Name: "harbor", Domain: rapid.StringMatching(`[a-z]{1,5}`).Draw(t, "domain")},
		MaxTokens: bulkhead.Tokens(rapid.IntRange(1, 20).Draw(t, "max")),
		IgnoreEOS: rapid.Bool().Draw(t, "ignore"),
		Sampling: bulkhead.Sampling{Temperature: rapid.Float32Range(0, 2).Draw(t, "temperature"), TopP: rapid.Float32Range(0, 1).Draw(t, "top_p"),
			Seed: rapid.Uint64().Draw(t, "seed"), PresencePenalty: rapid.Float32Range(-2, 2).Draw(t, "presence"),
			Logprobs: rapid.Bool().Draw(t, "logprobs")},
	}
	if r.Sampling.Logprobs {
		r.Sampling.TopLogprobs = rapid.IntRange(0, 3).Draw(t, "top")
	}
	for _, id := range rapid.SliceOfN(rapid.Int32Range(0, 255), 1, 10).Draw(t, "prompt") {
		r.Prompt = append(r.Prompt, bulkhead.Token(id))
	}
	if rapid.Bool().Draw(t, "bias?") {
		r.Sampling.LogitBias = []bulkhead.TokenBias{{Token: 3, Bias: rapid.Float32Range(-100, 100).Draw(t, "bias")}}
	}
	return r
}

// What a worker refuses or breaks off reaches the gateway's client as what it is.
func TestOurGatewayUnderstandsHowItEnds(t *testing.T) {
	tooLong := bulkhead.Refusal{Code: bulkhead.CodeContextLength, Param: "messages", Message: "too long", Limit: 64, Count: 70}
	for name, c := range map[string]struct {
		side worker.Side
		end  bulkhead.End
		want bulkhead.Reason
	}{
		"a violation at decode":  {worker.Decode, bulkhead.End{Reason: bulkhead.Violated}, bulkhead.Violated},
		"a violation at prefill": {worker.Prefill, bulkhead.End{Reason: bulkhead.Violated}, bulkhead.Violated},
		"a refusal at decode":    {worker.Decode, bulkhead.End{Reason: bulkhead.Refused, Refusal: &tooLong}, bulkhead.Refused},
		"a refusal at prefill":   {worker.Prefill, bulkhead.End{Reason: bulkhead.Refused, Refusal: &tooLong}, bulkhead.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			fault := func(side worker.Side) func(*api.Config, *fake) {
				return func(_ *api.Config, f *fake) {
					if side == c.side {
						f.Fault = func(r bulkhead.Request, _ int) *bulkhead.End {
							if r.Tenant.Name == "health" {
								return &bulkhead.End{Reason: bulkhead.Length}
							}
							return &c.end
						}
						return
					}
					// The other worker waits for this one, and is told.
					f.Pace = 10 * time.Second
				}
			}
			prefill, _ := serve(t, worker.Prefill, fault(worker.Prefill))
			decode, _ := serve(t, worker.Decode, fault(worker.Decode))
			gw := newCluster(t, prefill, decode)
			adm, _ := limits.Admit(bulkhead.Request{Tenant: bulkhead.Tenant{Name: "t"}, Prompt: []bulkhead.Token{1, 2}, MaxTokens: 3})
			s, ref := gw.Submit(context.Background(), adm)
			if ref != nil {
				t.Fatal(ref)
			}
			_, end := all(t, s)
			if end.Reason != c.want || c.want == bulkhead.Refused && (end.Refusal.Code != tooLong.Code || end.Refusal.Limit != 64 || end.Refusal.Count != 70) {
				t.Errorf("%+v %+v", end, end.Refusal)
			}
		})
	}
}

// The loopback address under a name that somebody gave it opens no route.
func TestNamesOfLoopback(t *testing.T) {
	url, _ := serve(t, worker.Decode, nil)
	for host, want := range map[string]int{"": http.StatusOK, "another.example": http.StatusBadRequest} {
		r, err := http.NewRequest("POST", url+"/flush_cache", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("host %q: HTTP %d", host, resp.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
