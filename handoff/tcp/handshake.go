package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// pair is a connection whose two ends have proven themselves.
type pair struct {
	stream              // to speak over
	tcp        net.Conn // the same below TLS: to close
	rd         *wire.Reader
	mine, peer *wire.Hello
	transcript wire.Transcript
	limits     Limits
}

// stream is a connection, encrypted or not.
type stream interface {
	net.Conn
	CloseWrite() error
}

// shake is one handshake.
type shake struct {
	cfg     *Config
	pair    pair
	channel []byte // key material that only the ends of the TLS session have
	proven  string // the name that the peer's certificate proves; with TLS
	sent    []byte // own HELLO as sent
}

// asSource answers a target that has dialled. proven is called when the target has proven itself and has not heard so yet.
func (c *Config) asSource(nc net.Conn, socket string, proven func(*pair)) (*pair, error) {
	s := &shake{cfg: c}
	s.pair.mine = c.hello(wire.Source, socket)
	s.sent = wire.AppendHello(nil, s.pair.mine)
	err := s.within(nc, func(tc net.Conn) stream { return tls.Server(tc, c.TLS) }, func() error {
		heard, err := s.hear(nil)
		if err != nil {
			// A peer that is refused is told who refused it, and so can say it too. One that is none is told nothing.
			if e := (*wire.Error)(nil); errors.As(err, &e) && e.Code != wire.CodeMalformed && e.Code != wire.CodeProtocol && !e.Peer {
				_, _ = s.pair.Write(s.sent)
			}
			return err
		}
		if _, err := s.pair.Write(s.sent); err != nil {
			return err
		}
		s.pair.transcript = wire.NewTranscript(heard, s.sent, s.channel)
		if err := s.verify(wire.ProofTarget); err != nil {
			return err
		}
		proven(&s.pair)
		return s.prove(wire.ProofSource)
	})
	return &s.pair, err
}

// asTarget speaks first to the source that was dialled. With a name the source must have it.
func (c *Config) asTarget(nc net.Conn, name, host string) (*pair, error) {
	s := &shake{cfg: c}
	s.pair.mine = c.hello(wire.Target, "")
	s.sent = wire.AppendHello(nil, s.pair.mine)
	client := func(tc net.Conn) stream {
		t := c.TLS.Clone()
		if t.ServerName == "" {
			t.ServerName = host
		}
		return tls.Client(tc, t)
	}
	err := s.within(nc, client, func() error {
		_, lost := s.pair.Write(s.sent)
		heard, err := s.hear(&name) // a source that has no room for a peer says so and does not listen
		if e := (*wire.Error)(nil); lost != nil && !errors.As(err, &e) {
			return lost
		}
		if err != nil {
			return err
		}
		s.pair.transcript = wire.NewTranscript(s.sent, heard, s.channel)
		if err := s.prove(wire.ProofTarget); err != nil {
			return err
		}
		return s.verify(wire.ProofSource)
	})
	return &s.pair, err
}

// within runs a handshake with its time-out. Where it fails the peer is told why, if this side is who refuses, and the
// connection is closed.
func (s *shake) within(nc net.Conn, secure func(net.Conn) stream, f func() error) error {
	s.pair.tcp = nc
	if err := nc.SetDeadline(time.Now().Add(s.cfg.Limits.HandshakeTimeout)); err != nil {
		_ = nc.Close()
		return err
	}
	err := s.secure(nc, secure)
	if err == nil {
		s.pair.rd = wire.NewReader(s.pair.stream)
		err = f()
	}
	if err != nil && s.pair.stream != nil {
		s.refuse(err)
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = nc.Close()
	}
	return err
}

// secure puts TLS on the connection, where it is configured.
func (s *shake) secure(nc net.Conn, over func(net.Conn) stream) error {
	if s.cfg.TLS == nil {
		s.pair.stream = nc.(stream)
		return nil
	}
	p := newPacker(nc)
	sec := over(p).(*tls.Conn)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Limits.HandshakeTimeout)
	defer cancel()
	if err := sec.HandshakeContext(ctx); err != nil {
		return err
	}
	state := sec.ConnectionState()
	var err error
	if s.channel, err = state.ExportKeyingMaterial("EXPORTER-bulkhead-handoff", nil, 32); err != nil {
		return err
	}
	s.pair.stream = &packed{Conn: sec, p: p}
	if s.proven, err = s.cfg.PeerName(state); err != nil {
		return wire.Errorf(wire.CodeName, "the peer's certificate: %v", err)
	}
	return nil
}

// hear takes the peer's HELLO and compares it with this side's. It gives the frame as it was on the wire.
func (s *shake) hear(dialled *string) ([]byte, error) {
	f, err := s.next(wire.TypeHello)
	if err != nil {
		return nil, err
	}
	raw := slices.Clone(s.pair.rd.Raw())
	if s.pair.peer, err = wire.ParseHello(f); err != nil {
		return nil, err
	}
	peer := s.pair.peer
	if e := s.pair.mine.Compare(peer); e != nil {
		return nil, e
	}
	switch {
	case s.cfg.TLS != nil && s.proven != peer.Name:
		return nil, wire.Errorf(wire.CodeName, "the peer says that it is %q, its certificate is that of %q", peer.Name, s.proven)
	case dialled != nil && *dialled != "" && *dialled != peer.Name:
		return nil, wire.Errorf(wire.CodeName, "the peer is %q, and %q was dialled", peer.Name, *dialled)
	}
	limits, refused := s.cfg.Limits.meet(peer)
	if refused != nil {
		return nil, refused
	}
	s.pair.limits = limits
	return raw, nil
}

// next is the next frame, which must be of one type; a peer's ERROR is its error.
func (s *shake) next(want wire.Type) (wire.Frame, error) {
	f, err := s.pair.rd.Next()
	switch {
	case err != nil:
		return f, err
	case f.Type == wire.TypeError:
		e, err := wire.ParseError(f)
		if err != nil {
			return f, err
		}
		return f, e
	case f.Type != want:
		return f, wire.Errorf(wire.CodeProtocol, "%v, and %v must come first", f.Type, want)
	}
	return f, nil
}

func (s *shake) prove(use string) error {
	_, err := s.pair.Write(wire.AppendAuth(nil, s.pair.transcript.Prove(&s.cfg.Secret, use)))
	return err
}

func (s *shake) verify(use string) error {
	f, err := s.next(wire.TypeAuth)
	if err != nil {
		return err
	}
	p, err := wire.ParseAuth(f)
	if err != nil {
		return err
	}
	if !p.Equal(s.pair.transcript.Prove(&s.cfg.Secret, use)) {
		return wire.Errorf(wire.CodeSecret, "the proof of the %s is wrong: give every worker of the cluster the same secret", use)
	}
	return nil
}

// refuse tells the peer why. What the peer still sends is read for a moment, because closing over unread bytes would take
// the ERROR away from it.
func (s *shake) refuse(err error) {
	e := (*wire.Error)(nil)
	if !errors.As(err, &e) || e.Peer {
		return
	}
	_ = s.pair.tcp.SetDeadline(time.Now().Add(s.cfg.Limits.CloseGrace))
	if _, err := s.pair.Write(wire.AppendError(nil, e)); err != nil {
		return
	}
	_ = s.pair.CloseWrite()
	_, _ = io.Copy(io.Discard, io.LimitReader(s.pair.stream, 64<<10))
}
