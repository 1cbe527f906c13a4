package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/bulkhead-llm/bulkhead"
	"github.com/bulkhead-llm/bulkhead/handoff"
	"github.com/bulkhead-llm/bulkhead/handoff/tcp"
	"github.com/bulkhead-llm/bulkhead/kv"
	"github.com/bulkhead-llm/bulkhead/trust"
)

// withTLS takes the carrier's peers by their certificates.
func withTLS(c tcp.Config, node *trust.Node) tcp.Config {
	if node.Role == trust.Prefill {
		c.TLS = node.ServerTLS(trust.Decode)
	} else {
		c.TLS = node.ClientTLS(trust.Prefill, benchSender)
	}
	c.PeerName = func(state tls.ConnectionState) (string, error) {
		_, name, err := trust.PeerOf(state)
		return name, err
	}
	return c
}

// puller is the carrier, end to end: the other process has sealed pages, this one reserves pages in a pool, pulls, and proves
// each page by its own expectation of identity, count and sums. The time is that from asking for a room to the last proof;
// clearing the pages again, which a worker does when it has time, is not in it.
type puller struct {
	peer  *peer
	inlet *tcp.Inlet
	pool  *handoffPool
	chill *chill
	from  handoff.Peer
	wake  chan struct{}
	rooms int
}

func newPuller(ctx context.Context, certs *benchCerts, plaintext, shm bool) (_ *puller, err error) {
	flags := []string{"--tls-dir", certs.sender}
	if plaintext {
		flags = append(flags, "--plaintext")
	}
	if shm {
		flags = append(flags, "--shm")
	}
	peer, addr, err := ownPeer(ctx, "pages", flags...)
	if err != nil {
		return nil, err
	}
	p := &puller{peer: peer, chill: newChill(), from: handoff.Peer{Name: benchSender, Addr: addr}, wake: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	config, err := carrierConfig(certs.receiver, plaintext, shm)
	if err != nil {
		return nil, err
	}
	if p.pool, err = newHandoffPool(); err != nil {
		return nil, err
	}
	if p.inlet, err = tcp.NewInlet(config); err != nil {
		return nil, err
	}
	p.inlet.Notify(ring(p.wake))
	return p, nil
}

// ring is a function that makes sure that something is in the channel.
func ring(bell chan struct{}) func() {
	return func() {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

func (p *puller) move(ctx context.Context, d time.Duration) (bytes int64, took time.Duration, err error) {
	for took < d {
		n, t, err := p.room(ctx)
		if err != nil {
			return 0, 0, err
		}
		bytes, took = bytes+n, took+t
	}
	return bytes, took, nil
}

// room hands over one room.
func (p *puller) room(ctx context.Context) (bytes int64, took time.Duration, err error) {
	p.rooms++
	sequence := p.rooms % sequenceCount
	id := bulkhead.Room(p.rooms)
	if _, err := p.peer.tell(ctx, peerLimit, "%d %d", id, sequence); err != nil {
		return 0, 0, err
	}
	reservation, ok := p.pool.pool.Reserve(p.pool.ids, handoffTokens(sequence))
	if !ok {
		return 0, 0, errors.New("the pool is too small")
	}
	p.chill.empty()
	target := handoff.NewTarget(id, roomPages)
	start := time.Now()
	p.inlet.Enter(id, p.from, benchClaim)
	if err := target.Reserved(reservation.Have); err != nil {
		return 0, 0, err
	}
	if err := p.pull(ctx, id, target, reservation); err != nil {
		return 0, 0, err // the process ends now, landings and all
	}
	took = time.Since(start)
	_, end := target.End()
	p.inlet.End(end)
	reservation.Abandon() // so that the next room has to bring the pages again
	return int64(roomPages * handoffLayout.PageBytes()), took, nil
}

// pull takes messages and arrivals until the room has committed.
func (p *puller) pull(ctx context.Context, id bulkhead.Room, target *handoff.Target, r *kv.Reservation) error {
	limit := time.NewTimer(peerLimit)
	defer limit.Stop()
	landings := make([]*kv.Landing, roomPages)
	for {
		messages, arrivals := p.inlet.Receive()
		for _, m := range messages {
			if m.Kind == handoff.Lost {
				return fmt.Errorf("the room is lost: %s", m.Text)
			}
			if err := target.Receive(m); err != nil {
				return err
			}
		}
		for _, a := range arrivals {
			if a.Err != nil {
				return a.Err
			}
			if v := landings[a.Page].Prove(); v != nil {
				return v
			}
			if err := target.Proven(a.Page); err != nil {
				return err
			}
		}
		if target.Outcome() == handoff.Committed {
			return nil
		}
		for page, ok := target.Next(); ok; page, ok = target.Next() {
			if err := target.Pulling(page); err != nil {
				return err
			}
			landings[page] = r.Land(page)
			p.inlet.Pull(id, page, landings[page])
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("no end of a room within %v", peerLimit)
		}
	}
}

func (p *puller) close() {
	if p.inlet != nil {
		p.inlet.Shutdown()
	}
	p.peer.close()
	if p.pool != nil {
		p.pool.free()
	}
}

// benchClaim is shown for every room: the two processes belong together.
var benchClaim = handoff.Claim{1}

// pages is the sending side: for each line ROOM SEQUENCE it opens a room and publishes the sequence's pages.
func (c *benchHandoffPeerCmd) pages(in io.Reader, out io.Writer) error {
	config, err := carrierConfig(string(c.TLSDir), c.Plaintext, c.Shm)
	if err != nil {
		return err
	}
	pool, err := newHandoffPool()
	if err != nil {
		return err
	}
	defer pool.free()
	var sequences []*kv.Sequence
	for i := range sequenceCount {
		seq, err := pool.write(i)
		if err != nil {
			return err
		}
		sequences = append(sequences, seq)
	}
	outlet, err := tcp.NewOutlet(config)
	if err != nil {
		return err
	}
	outlet.Notify(func() {})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- outlet.Serve(listener) }()
	defer func() { outlet.Shutdown(); <-served }() // before the pages are given back
	fmt.Fprintln(out, listener.Addr())
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var room bulkhead.Room
		var sequence int
		if _, err := fmt.Sscan(lines.Text(), &room, &sequence); err != nil {
			return err
		}
		for _, m := range outlet.Receive() {
			if m.Kind != handoff.Commit {
				return fmt.Errorf("room %v: %v %s", m.Room, m.Kind, m.Text)
			}
			outlet.Close(m.Room)
		}
		pages := sequences[sequence].Pages()
		outlet.Open(room, handoff.Peer{Name: benchReceiver}, benchClaim)
		outlet.Publish(handoff.Message{Room: room, Kind: handoff.Offer, Pages: len(pages)}, pages)
		fmt.Fprintln(out, "published")
	}
	return nil
}
