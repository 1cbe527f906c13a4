package gateway_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// serveRaw serves a gateway as bulkhead serve does, and gives what sends raw bytes to it and reads one answer.
func serveRaw(t *testing.T, g *gateway.Gateway) func(text string) (*http.Response, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := g.Server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(gateway.Listener(l)) }()
	t.Cleanup(func() { server.Close(); <-served })
	return func(text string) (*http.Response, string) {
		t.Helper()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(conn, text)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%.60q: %v", text, err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatalf("%.60q: %v", text, err)
		}
		return answer, string(body)
	}
}

// What is refused before any handler sees it has OpenAI's error body like everything else.
func TestErrorsBelowTheHandler(t *testing.T) {
	g, _ := newGateway(t, nil)
	send := serveRaw(t, g)
	for _, c := range []struct {
		text   string
		status int
		code   string
	}{
		{"\x16\x03\x01\x02\r\n\r\n", 400, "invalid_request"},
		{"GET /health\r\n\r\n", 400, "invalid_request"},
		{"GET /health HTTP/1.1\r\n\r\n", 400, "invalid_request"},
		{"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_request"},
		{"GET /health HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n", 400, "invalid_request"},
		{"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "invalid_request"},
		{"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, "invalid_request"},
		{"GET /health HTTP/3.0\r\nHost: x\r\n\r\n", 505, "invalid_request"},
		{"GET /health HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 40<<10) + "\r\n\r\n", 431, "request_too_large"},
		{"POST /tokenize HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 0\r\n\r\n", 417, "invalid_request"},
		{"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404, "unknown_url"},
		{"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n", 404, "unknown_url"},
	} {
		answer, body := send(c.text)
		var e openai.ErrorBody
		if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error.Code == nil || *e.Error.Code != c.code || e.Error.Message == "" ||
			answer.StatusCode != c.status || answer.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%.60q: %d %v %s", c.text, answer.StatusCode, answer.Header, body)
		}
	}
}

// Nothing that a handler writes is taken for such an error, also where it quotes one.
func TestAnswersThatQuoteErrors(t *testing.T) {
	g, _ := newGateway(t, nil)
	send := serveRaw(t, g)
	quote := `HTTP/1.1 417 Expectation Failed\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n`
	body := `{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"` + quote[:60] + `"}]}`
	answer, text := send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	if answer.StatusCode != 200 || !strings.Contains(text, "HTTP/1.1") {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
}
