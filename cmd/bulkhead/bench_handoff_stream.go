package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/bulkhead-llm/bulkhead/trust"
)

// stream is crypto/tls alone, with the certificates and so the cipher of the carrier: one process writes messages of a page's
// size, this one reads them, into pages that are in no cache. It is what the carrier with TLS is measured by.
type stream struct {
	peer  *peer
	conn  *tls.Conn
	pages [][]byte
	free  func()
	at    int
}

func newStream(ctx context.Context, certs *benchCerts) (_ *stream, err error) {
	p, addr, err := ownPeer(ctx, "stream", "--tls-dir", certs.sender)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	node, err := trust.Load(certs.receiver, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	conn, err := tls.Dial("tcp", addr, node.ClientTLS(trust.Prefill, benchSender))
	if err != nil {
		return nil, err
	}
	pages, free, err := arenaPages(arenaPagesCount)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &stream{peer: p, conn: conn, pages: pages, free: free}, nil
}

func (s *stream) move(_ context.Context, d time.Duration) (bytes int64, took time.Duration, err error) {
	if _, err := fmt.Fprintf(s.peer.stdin, "%d\n", d.Milliseconds()); err != nil {
		return 0, 0, err
	}
	s.conn.SetReadDeadline(time.Now().Add(d + peerLimit))
	start := time.Now()
	for {
		page := s.pages[s.at]
		s.at = (s.at + 1) % len(s.pages)
		if _, err := io.ReadFull(s.conn, page); err != nil {
			return 0, 0, err
		}
		bytes += int64(len(page))
		if page[0] == lastMessage {
			return bytes, time.Since(start), nil
		}
	}
}

func (s *stream) close() {
	s.conn.Close()
	s.peer.close()
	s.free()
}

// lastMessage begins the last message of a round.
const lastMessage = 0xff

// stream is the sending side: for each line of so many milliseconds, messages for so long.
func (c *benchHandoffPeerCmd) stream(in io.Reader, out io.Writer) error {
	node, err := trust.Load(string(c.TLSDir), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintln(out, l.Addr())
	raw, err := l.Accept()
	if err != nil {
		return err
	}
	conn := tls.Server(raw, node.ServerTLS(trust.Decode))
	defer conn.Close()
	pages, free, err := arenaPages(arenaPagesCount)
	if err != nil {
		return err
	}
	defer free()
	if err := conn.Handshake(); err != nil {
		return err
	}
	at := 0
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var ms int
		if _, err := fmt.Sscan(lines.Text(), &ms); err != nil {
			return err
		}
		for start := time.Now(); ; at = (at + 1) % len(pages) {
			last := time.Since(start) >= time.Duration(ms)*time.Millisecond
			pages[at][0] = 0
			if last {
				pages[at][0] = lastMessage
			}
			if _, err := conn.Write(pages[at]); err != nil {
				return err
			}
			if last {
				break
			}
		}
	}
	return nil
}
