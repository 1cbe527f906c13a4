package api_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/engine/algebra"
	"github.com/bulkhead-llm/bulkhead/engine/sample"
	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/gatewaytest"
	"github.com/bulkhead-llm/bulkhead/handoff/inproc"
	"github.com/bulkhead-llm/bulkhead/sglang"
	"github.com/bulkhead-llm/bulkhead/worker"
	"github.com/bulkhead-llm/bulkhead/worker/api"
)

// realPair is two workers that compute, of the model whose answer can be computed from the prompt alone, each behind its API.
type realPair struct {
	p, d    *httptest.Server
	prefill *worker.PrefillWorker
	decode  *worker.DecodeWorker
}

var realLimits = bulkhead.Limits{Window: 200, PrefillPool: 512, DecodePool: 512, ModelWindow: 2048, PageTokens: 16,
	Queue: 64, QueueTenant: 64, Running: 8, Chunk: 24, DrainTimeout: 5 * time.Second}

func newModel() *algebra.Model { return algebra.New(algebra.Small(16), gatewaytest.Size, 11) }

func newRealPair(t *testing.T) *realPair {
	t.Helper()
	link := inproc.New()
	cfg := worker.Config{Layout: algebra.Small(16), Limits: realLimits, EOS: []bulkhead.Token{gatewaytest.EOS}, Secret: [32]byte{7}}
	pc, dc := cfg, cfg
	pc.Runner, dc.Runner = newModel(), newModel()
	r := &realPair{}
	var err error
	if r.prefill, err = worker.NewPrefill(pc, link.Outlet()); err != nil {
		t.Fatal(err)
	}
	if r.decode, err = worker.NewDecode(dc, link.Inlet()); err != nil {
		t.Fatal(err)
	}
	server := func(side worker.Side, w api.Worker, flush func() int) *httptest.Server {
		a, err := api.New(api.Config{Role: side, Worker: w, Text: gatewaytest.Text{}, Model: gateway.Model{Name: "m", Created: time.Now()},
			Layout: cfg.Layout, Name: side.String(), Start: "s", Handoff: "127.0.0.1:9000", Peer: trusted, Flush: flush, Rooms: link.Rooms})
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(nil)
		s.Config = a.Server()
		s.Start()
		return s
	}
	r.p = server(worker.Prefill, api.Of(r.prefill), r.prefill.Flush)
	r.d = server(worker.Decode, api.Of(r.decode), r.decode.Flush)
	t.Cleanup(func() {
		r.settled(t)
		r.p.Close()
		r.d.Close()
		r.prefill.Close()
		r.decode.Close()
		if n := link.Rooms(); n != 0 {
			t.Errorf("%d rooms are left open", n)
		}
	})
	return r
}

// settled waits until nothing is held at either worker.
func (r *realPair) settled(t *testing.T) {
	t.Helper()
	for range 500 {
		p, d := r.prefill.Snapshot(), r.decode.Snapshot()
		if p.Prefill.Live+p.Prefill.Quarantined+d.Decode.Live+d.Decode.Quarantined == 0 && p.Waiting+p.Prefilling+d.Running == 0 {
			return
		}
		time.Sleep(4 * time.Millisecond)
	}
	t.Errorf("pages are held: %+v\n%+v", r.prefill.Snapshot(), r.decode.Snapshot())
}

// both sends one body to both workers, as a router does.
func (r *realPair) both(t *testing.T, path, body string) (p, d *asked) {
	return ask(t, r.p, path, body), ask(t, r.d, path, body)
}

// expected is the model's greedy answer to a prompt.
func expected(t *testing.T, prompt []bulkhead.Token, n int) (out []bulkhead.Token) {
	s, err := sample.New(bulkhead.Sampling{}, gatewaytest.Size, prompt)
	if err != nil {
		t.Fatal(err)
	}
	return newModel().Answer(prompt, func(logits []float32) (bulkhead.Token, bool) {
		token, _, err := s.Next(logits)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, token)
		return token, token != gatewaytest.EOS && len(out) < n
	})
}

func numbers(ids []bulkhead.Token) string {
	b, _ := json.Marshal(ids)
	return string(b)
}

func somePrompt(seed uint64, n int) []bulkhead.Token {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]bulkhead.Token, n)
	for i := range out {
		out[i] = bulkhead.Token(r.IntN(256))
	}
	return out
}

// What a router gets through the two APIs is what the model must answer, token for token; prefill's status tells that decode has it.
func TestGenerateThroughBoth(t *testing.T) {
	r := newRealPair(t)
	for i, n := range []int{1, 2, 16, 17, 33, 150, 33} {
		prompt := somePrompt(uint64(n), n)
		body := fmt.Sprintf(`{"input_ids":%s,"sampling_params":{"temperature":0,"max_new_tokens":20},"bootstrap_host":"127.0.0.1","bootstrap_port":9000,"bootstrap_room":%d}`,
			numbers(prompt), 100+i)
		p, d := r.both(t, "/generate", body)
		var got, first sglang.Answer
		if err := json.Unmarshal([]byte(d.want(t, 200, "")), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(p.want(t, 200, `"output_ids":[]`)), &first); err != nil {
			t.Fatal(err)
		}
		if want := expected(t, prompt, 20); !slices.Equal(got.OutputIDs, want) {
			t.Errorf("%d tokens: got %v, want %v", n, got.OutputIDs, want)
		}
		if first.Meta.PromptTokens != n || got.Meta.PromptTokens != n {
			t.Errorf("%d tokens: %+v and %+v", n, first.Meta, got.Meta)
		}
	}
}

// Chats and completions go through both, streamed and not, several choices with one room each.
func TestOpenAIThroughBoth(t *testing.T) {
	r := newRealPair(t)
	room := 1
	for _, stream := range []bool{false, true} {
		for _, n := range []int{1, 3} {
			for path, body := range map[string]string{
				"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":"what is the river called, and where does it go?"}],"max_tokens":9,"temperature":0`,
				"/v1/completions":      `{"model":"m","prompt":["the river runs past the old mill","and then"],"max_tokens":9,"temperature":0`,
			} {
				room++
				body = fmt.Sprintf(`%s,"n":%d,"stream":%v,"bootstrap_host":"127.0.0.1","bootstrap_port":9000,"bootstrap_room":%d}`, body, n, stream, room)
				p, d := r.both(t, path, body)
				got := d.want(t, 200, "")
				p.want(t, 200, "length")
				if strings.Contains(got, "error") || stream != strings.Contains(got, "[DONE]") {
					t.Errorf("%s: %s", body, got)
				}
			}
		}
	}
}

// Two prompts under one room: no token leaves decode, whatever their lengths.
func TestTwoPromptsUnderOneRoom(t *testing.T) {
	r := newRealPair(t)
	for i, c := range []struct{ p, d []bulkhead.Token }{
		{somePrompt(1, 40), somePrompt(2, 40)}, {somePrompt(1, 40), somePrompt(2, 90)}, {somePrompt(1, 2), somePrompt(2, 90)},
	} {
		body := func(ids []bulkhead.Token) string {
			return fmt.Sprintf(`{"input_ids":%s,"bulkhead":{"tenant":"t","timeout_seconds":1},"bootstrap_host":"127.0.0.1","bootstrap_port":9000,"bootstrap_room":%d}`, numbers(ids), 50+i)
		}
		p, d := ask(t, r.p, "/generate", body(c.p)), ask(t, r.d, "/generate", body(c.d))
		if status := <-d.status; status < 400 {
			t.Errorf("decode answers %d: %s", status, <-d.body)
		}
		if status := <-p.status; status < 400 {
			t.Errorf("prefill answers %d: %s", status, <-p.body)
		}
	}
}

// A client that hangs up at either worker lets everything go.
func TestHangingUpThroughBoth(t *testing.T) {
	r := newRealPair(t)
	for i := range 12 {
		body := fmt.Sprintf(`{"input_ids":%s,"stream":true,"sampling_params":{"max_new_tokens":40,"ignore_eos":true},"bootstrap_host":"127.0.0.1","bootstrap_port":9000,"bootstrap_room":%d}`,
			numbers(somePrompt(uint64(i), 120)), 500+i)
		p, d := r.both(t, "/generate", body)
		time.Sleep(time.Duration(i) * time.Millisecond)
		p.cancel()
		d.cancel()
		<-p.status
		<-d.status
	}
	r.settled(t)
}

// The probe goes through the loops, leaves nothing behind, and a flush empties the caches.
func TestProbesAndFlushOfRealWorkers(t *testing.T) {
	r := newRealPair(t)
	for i, s := range []*httptest.Server{r.p, r.d} {
		resp, err := s.Client().Get(s.URL + "/health_generate")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("worker %d: %d", i, resp.StatusCode)
		}
	}
	p, d := r.both(t, "/generate", fmt.Sprintf(`{"input_ids":%s,"bootstrap_host":"127.0.0.1","bootstrap_port":9000,"bootstrap_room":9}`, numbers(somePrompt(1, 100))))
	d.want(t, 200, "")
	p.want(t, 200, "")
	r.settled(t)
	for _, s := range []*httptest.Server{r.p, r.d} {
		if body := ask(t, s, "/flush_cache", "").want(t, 200, "pages"); strings.Contains(body, `"pages":0`) {
			t.Errorf("nothing was cached: %s", body)
		}
		ask(t, s, "/flush_cache", "").want(t, 200, `"pages":0`)
	}
}
