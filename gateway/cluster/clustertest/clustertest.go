// Package clustertest has workers that speak the API of package sglang and do what a test says, faults included. They compute
// nothing: prefill and decode of a pair meet in a [Rooms], as they would over a handoff.
package clustertest

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/sglang"
)

// Fault is what a worker does to one request, instead of answering it.
type Fault string

// The faults.
const (
	None       Fault = ""
	Hang       Fault = "hang"       // before the headers, until it is aborted or the connection ends
	Deaf       Fault = "deaf"       // likewise, and aborts do nothing
	Reset      Fault = "reset"      // the connection breaks after the request was read
	CutStream  Fault = "cut"        // decode: after some tokens
	ErrorEvent Fault = "event"      // decode: the Failure as an event, after some tokens
	Garbage    Fault = "garbage"    // no JSON
	LongLine   Fault = "long"       // a line without an end
	Miscount   Fault = "miscount"   // prompt_tokens of another prompt
	TooMany    Fault = "many"       // decode: more tokens than were asked for
	BadToken   Fault = "token"      // decode: a token that the model does not have
	Refuse     Fault = "refuse"     // the Failure as the answer
	HangAfter  Fault = "hang after" // decode: after some tokens
	Slow       Fault = "slow"       // prefill: commits only when Release is called
)

// Failure is an answer for [Refuse] and [ErrorEvent].
func Failure(code bulkhead.Code, message string) sglang.Failure {
	_, f := sglang.FailureOf(&bulkhead.Refusal{Code: code, Message: message})
	return f
}

// Request is one that a worker has heard of.
type Request struct {
	sglang.Generate
	done    chan struct{} // closed by an abort, or at its end
	once    *sync.Once
	Aborted bool
}

// Rooms is where prefill and decode of all workers meet.
type Rooms struct {
	mu    sync.Mutex
	rooms map[bulkhead.Room]*room
}

type room struct {
	sealed, committed, stopped chan struct{}
	once                       [3]sync.Once
}

// NewRooms makes an empty one.
func NewRooms() *Rooms { return &Rooms{rooms: map[bulkhead.Room]*room{}} }

func (r *Rooms) of(id bulkhead.Room) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rooms[id] == nil {
		r.rooms[id] = &room{sealed: make(chan struct{}), committed: make(chan struct{}), stopped: make(chan struct{})}
	}
	return r.rooms[id]
}

// Worker is a fake one. Its fields are set before the first request, or with Do.
type Worker struct {
	*httptest.Server
	rooms *Rooms

	mu       sync.Mutex
	info     sglang.ServerInfo
	fault    func(n int) Fault // by the number of the request, from 0
	failure  sglang.Failure
	status   int
	header   http.Header
	tokens   int // of an answer; 0: as many as are asked for
	cached   int
	gap      time.Duration // before each token
	sick     bool          // /health_generate fails
	deafInfo bool          // /server_info hangs
	requests []*Request
	aborts   []string
	release  chan struct{}
	quit     chan struct{}
}

// Fingerprint and Layout are what workers say unless a test says otherwise.
var (
	Fingerprint = strings.Repeat("ab", 32)
	Layout      = "c0ffee"
)

// New starts a worker. Close it with its Close.
func New(mode, name string, rooms *Rooms) *Worker { return NewTLS(mode, name, rooms, nil) }

// NewTLS starts one that takes only connections that secure lets in; nil is New.
func NewTLS(mode, name string, rooms *Rooms, secure *tls.Config) *Worker {
	w := &Worker{rooms: rooms, release: make(chan struct{}), quit: make(chan struct{}), header: http.Header{}, cached: 8}
	w.info = sglang.ServerInfo{Mode: mode, PageSize: 16, Status: "ready", Native: sglang.NativeInfo{
		Name: name, Start: name + "-1", Fingerprint: Fingerprint, Layout: Layout, Window: 1024, ModelWindow: 2048, Pool: 4096,
		Queue: 8, QueueTenant: 8, Running: 8, Chunk: 64}}
	if mode == "prefill" {
		w.info.Native.Handoff = "127.0.0.1:9"
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/server_info", w.serverInfo)
	mux.HandleFunc("/health_generate", w.health)
	mux.HandleFunc("/abort_request", w.abort)
	mux.HandleFunc("/generate", w.generate)
	w.Server = httptest.NewUnstartedServer(mux)
	if secure == nil {
		w.Server.Start()
		return w
	}
	w.Server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
	w.Server.Listener = tls.NewListener(w.Server.Listener, secure)
	w.Server.Start()
	w.Server.URL = "https://" + w.Server.Listener.Addr().String()
	return w
}

// Close ends every connection.
func (w *Worker) Close() {
	close(w.quit)
	w.Server.CloseClientConnections()
	w.Server.Close()
}

// Do changes the worker.
func (w *Worker) Do(change func(*Settings)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Settings{&w.info, &w.fault, &w.failure, &w.status, &w.header, &w.tokens, &w.cached, &w.gap, &w.sick, &w.deafInfo}
	change(&s)
}

// Settings are what Do can change.
type Settings struct {
	Info    *sglang.ServerInfo
	Fault   *func(n int) Fault
	Failure *sglang.Failure
	Status  *int
	Header  *http.Header
	Tokens  *int
	Cached  *int
	Gap     *time.Duration
	Sick    *bool
	Deaf    *bool
}

// Always is the same fault for every request.
func Always(f Fault) func(int) Fault { return func(int) Fault { return f } }

// Release lets slow prefills commit, once.
func (w *Worker) Release() { close(w.release) }

// Requests are all that came, in order.
func (w *Worker) Requests() []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Request
	for _, r := range w.requests {
		out = append(out, *r)
	}
	return out
}

// Aborts are the ids of all aborts that came, in order.
func (w *Worker) Aborts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.aborts...)
}

func (w *Worker) serverInfo(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	info, deaf := w.info, w.deafInfo
	w.mu.Unlock()
	if deaf {
		w.wait(r, nil)
		return
	}
	json.NewEncoder(rw).Encode(info)
}

func (w *Worker) health(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sick {
		rw.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (w *Worker) abort(_ http.ResponseWriter, r *http.Request) {
	var a sglang.Abort
	if json.NewDecoder(r.Body).Decode(&a) != nil || a.AbortAll {
		panic("clustertest: not an abort by id")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.aborts = append(w.aborts, a.Rid)
	for _, q := range w.requests {
		if q.Rid == a.Rid {
			q.Aborted = true
			q.once.Do(func() { close(q.done) })
		}
	}
}

// wait is until the request is aborted or its connection ends.
func (w *Worker) wait(r *http.Request, q *Request) {
	var aborted chan struct{}
	if q != nil {
		aborted = q.done
	}
	select {
	case <-r.Context().Done():
	case <-aborted:
	case <-w.quit:
	}
}

func (w *Worker) generate(rw http.ResponseWriter, r *http.Request) {
	q := &Request{done: make(chan struct{}), once: &sync.Once{}}
	if err := json.NewDecoder(r.Body).Decode(&q.Generate); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	fault, mode := None, w.info.Mode
	if w.fault != nil {
		fault = w.fault(len(w.requests))
	}
	w.requests = append(w.requests, q)
	w.mu.Unlock()
	switch fault {
	case Reset:
		panic(http.ErrAbortHandler)
	case Deaf:
		w.wait(r, nil)
		return
	case Hang:
		w.wait(r, q)
		w.fail(rw, sglang.StatusAborted, Failure(sglang.CodeAborted, "aborted"))
		return
	case Refuse:
		w.fail(rw, w.status, w.failure)
		return
	}
	if mode == "prefill" {
		w.prefill(rw, r, q, fault)
	} else {
		w.decode(rw, r, q, fault)
	}
}

func (w *Worker) fail(rw http.ResponseWriter, status int, f sglang.Failure) {
	for k, v := range w.header {
		rw.Header()[k] = v
	}
	rw.WriteHeader(status)
	json.NewEncoder(rw).Encode(f)
}

func (w *Worker) prefill(rw http.ResponseWriter, r *http.Request, q *Request, fault Fault) {
	m := w.rooms.of(q.Room)
	if fault == Slow {
		select { // the transfer has begun: an abort does not stop it
		case <-w.release:
		case <-r.Context().Done():
			return
		case <-w.quit:
			return
		}
	}
	m.once[0].Do(func() { close(m.sealed) })
	select {
	case <-m.committed:
	case <-q.done:
		m.once[2].Do(func() { close(m.stopped) })
		w.fail(rw, sglang.StatusAborted, Failure(sglang.CodeAborted, "aborted"))
		return
	case <-r.Context().Done():
		return
	case <-w.quit:
		return
	}
	switch fault {
	case Garbage:
		fmt.Fprint(rw, "<html>")
		return
	case LongLine:
		rw.Write(make([]byte, 2<<20))
		return
	}
	a := sglang.Answer{Meta: sglang.Meta{ID: q.Rid, PromptTokens: len(q.InputIDs), CachedTokens: w.cached,
		FinishReason: &sglang.Finish{Type: "length"}}}
	if fault == Miscount {
		a.Meta.PromptTokens = 1
	}
	json.NewEncoder(rw).Encode(a)
}

func (w *Worker) decode(rw http.ResponseWriter, r *http.Request, q *Request, fault Fault) {
	m := w.rooms.of(q.Room)
	select {
	case <-m.sealed:
	case <-m.stopped:
		w.fail(rw, 500, Failure(sglang.CodeHandoff, "the room at "+q.Host+" was stopped"))
		return
	case <-q.done:
		w.fail(rw, sglang.StatusAborted, Failure(sglang.CodeAborted, "aborted"))
		return
	case <-r.Context().Done():
		return
	case <-w.quit:
		return
	}
	m.once[1].Do(func() { close(m.committed) })
	s := decodeStream{w: w, rw: rw, q: q, fault: fault}
	s.run(r)
}
