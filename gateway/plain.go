package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/openai"
)

// Listener gives the errors that net/http writes by itself OpenAI's error body: what is no HTTP, headers that are too large,
// a transfer encoding or an expectation that nobody knows. They never reach a handler, and net/http has no hook for them: it
// writes each to the connection in one piece, as text. So the piece is exchanged on its way out.
//
// Nothing that a handler writes can be taken for one: these pieces begin with a status line and end their headers at once,
// and our JSON holds no bare line ends.
func Listener(l net.Listener) net.Listener { return plainListener{l} }

type plainListener struct{ net.Listener }

func (l plainListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return plainConn{tcp}, err // a *net.TCPConn inside: net/http half-closes it after an answer that ends a request early
	}
	return c, err
}

type plainConn struct{ *net.TCPConn }

// Write exchanges net/http's own errors.
func (c plainConn) Write(p []byte) (int, error) {
	status, text, ok := plainError(p)
	if !ok {
		return c.TCPConn.Write(p)
	}
	if _, err := c.TCPConn.Write(jsonError(status, text)); err != nil {
		return 0, err
	}
	return len(p), nil
}

var (
	plainHeaders = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	expectation  = []byte("HTTP/1.1 417 Expectation Failed\r\n")
)

// plainError finds the status of an error that net/http wrote, and what it says of it.
func plainError(p []byte) (status int, text string, ok bool) {
	if bytes.HasPrefix(p, expectation) {
		return http.StatusExpectationFailed, "417 Expectation Failed: only 100-continue is known", true
	}
	line, body, found := bytes.Cut(p, plainHeaders)
	code, isHTTP := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !found || !isHTTP || len(code) < 3 {
		return 0, "", false
	}
	status, err := strconv.Atoi(string(code[:3]))
	return status, string(body), err == nil && status >= 400
}

func jsonError(status int, text string) []byte {
	code := bulkhead.CodeInvalid
	if status == http.StatusRequestHeaderFieldsTooLarge {
		code = openai.CodeTooLarge
	}
	_, failure := openai.Failure(bulkhead.Refuse(code, "", "the request is no HTTP that this server takes: %s", text))
	body, err := json.Marshal(failure)
	if err != nil {
		panic(err) // it holds strings only
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), openai.ContentJSON, len(body), body)
}
