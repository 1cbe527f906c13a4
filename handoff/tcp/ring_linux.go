package tcp

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-llm/bulkhead/handoff/wire"
)

// socketPrefix is what the abstract socket of every outlet starts with; a target dials no other.
const socketPrefix = "@bulkhead-handoff-"

// bootID names this start of this host.
func bootID() (id [16]byte, err error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id, err
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(b)), "-", ""))
	if err != nil || len(raw) != len(id) {
		return id, fmt.Errorf("boot id %q", b)
	}
	return [16]byte(raw), nil
}

// ringServer hands out the rings of an outlet, over a unix socket, since only there can a descriptor travel. Who asks proves
// that he is the target of one of the connections. All methods work on nil, which hands out none.
type ringServer struct {
	cfg  *Config
	name string
	ln   *net.UnixListener
	busy chan struct{} // as many as are being answered
	wg   sync.WaitGroup

	mu      sync.Mutex
	expects map[[32]byte]*handout // by the target's nonce
}

// handout is one connection's ring.
type handout struct {
	transcript wire.Transcript
	ring       *ring // nil until it was asked for
}

func newRingServer(cfg *Config) (*ringServer, error) {
	var id [16]byte
	_, _ = rand.Read(id[:])
	s := &ringServer{cfg: cfg, name: socketPrefix + hex.EncodeToString(id[:]), busy: make(chan struct{}, 8),
		expects: map[[32]byte]*handout{}}
	var err error
	if s.ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: s.name, Net: "unix"}); err != nil {
		return nil, err
	}
	s.wg.Go(s.serve)
	return s, nil
}

func (s *ringServer) socket() string {
	if s == nil {
		return ""
	}
	return s.name
}

// expect makes a connection known, if the peer is on this host.
func (s *ringServer) expect(p *pair) {
	if s == nil || p.peer.Boot != s.cfg.boot {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expects[p.peer.Nonce] = &handout{transcript: p.transcript}
}

// given is the ring that was handed out to a connection, or nil.
func (s *ringServer) given(p *pair) *ring {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.expects[p.peer.Nonce]; h != nil {
		return h.ring
	}
	return nil
}

// forget ends a connection's ring: nobody writes to it any more.
func (s *ringServer) forget(p *pair) {
	if s == nil || p.peer == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.expects[p.peer.Nonce]; h != nil && h.transcript == p.transcript {
		delete(s.expects, p.peer.Nonce)
		if h.ring != nil {
			h.ring.close()
		}
	}
}

func (s *ringServer) close() {
	if s != nil {
		_ = s.ln.Close()
		s.wg.Wait()
	}
}

func (s *ringServer) serve() {
	for {
		c, err := s.ln.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(50 * time.Millisecond)
			continue
		}
		s.busy <- struct{}{}
		s.wg.Go(func() {
			defer func() { _ = c.Close(); <-s.busy }()
			if err := s.answer(c); err != nil {
				s.cfg.Log.Warn("handoff: shared memory was asked for and not given", "err", err)
			}
		})
	}
}

// answer hands one ring out: nonce and proof come, the ring's shape and its descriptor go.
func (s *ringServer) answer(c *net.UnixConn) error {
	_ = c.SetDeadline(time.Now().Add(min(time.Second, s.cfg.Limits.HandshakeTimeout)))
	var ask [64]byte
	if err := readFull(c, ask[:]); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.expects[[32]byte(ask[:32])]
	if h == nil || h.ring != nil || !wire.Proof(ask[32:]).Equal(h.transcript.Prove(&s.cfg.Secret, wire.ProofRing)) {
		return errors.New("whoever asks is the target of no connection that waits for it")
	}
	g, fd, err := makeRing(s.cfg.Layout.PageBytes(), s.cfg.Limits.RingBytes)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	shape := binary.LittleEndian.AppendUint64(nil, uint64(g.slots))
	shape = binary.LittleEndian.AppendUint64(shape, uint64(g.size))
	if _, _, err := c.WriteMsgUnix(shape, unix.UnixRights(fd), nil); err != nil {
		g.close()
		return err
	}
	h.ring = g
	return nil
}

func readFull(c net.Conn, b []byte) error {
	for len(b) > 0 {
		n, err := c.Read(b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// makeRing makes the memory. Its size is sealed, so that no end can take it from under the other's feet, and so is writing
// for whoever maps it from now on.
func makeRing(page, bytes int) (*ring, int, error) {
	slots := min(bytes/slotBytes(page), 1<<16)
	size := slots * slotBytes(page)
	fd, err := unix.MemfdCreate("bulkhead-handoff", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, -1, fmt.Errorf("memfd: %w", err)
	}
	mem, err := sealed(fd, size)
	if err != nil {
		_ = unix.Close(fd)
		return nil, -1, fmt.Errorf("memfd of %d bytes: %w", size, err)
	}
	return newRing(mem, page, slots, func() { _ = unix.Munmap(mem) }), fd, nil
}

func sealed(fd, size int) ([]byte, error) {
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, err
	}
	if err := unix.Fallocate(fd, 0, 0, int64(size)); err != nil { // no memory shows here and not as a signal
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		_ = unix.Munmap(mem)
		return nil, err
	}
	return mem, nil
}

// openRing asks for the ring of a connection, where both sides offer one. Where that fails the pages go by the stream.
func (l *link) openRing(p *pair) {
	cfg := l.in.cfg
	if !cfg.SharedMemory || p.peer.Socket == "" || p.peer.Boot != cfg.boot {
		return
	}
	g, err := fetchRing(cfg, p)
	if err != nil {
		l.in.log.Warn("handoff: no shared memory with a peer of this host; pages go over TCP", "peer", p.peer.Name, "err", err)
		return
	}
	l.ring = g
}

func fetchRing(cfg *Config, p *pair) (*ring, error) {
	if !strings.HasPrefix(p.peer.Socket, socketPrefix) {
		return nil, fmt.Errorf("the socket %q is none of a source's", p.peer.Socket)
	}
	wait := min(time.Second, cfg.Limits.HandshakeTimeout)
	nc, err := net.DialTimeout("unix", p.peer.Socket, wait)
	if err != nil {
		return nil, err
	}
	c := nc.(*net.UnixConn)
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(wait))
	proof := p.transcript.Prove(&cfg.Secret, wire.ProofRing)
	if _, err := c.Write(append(p.mine.Nonce[:], proof[:]...)); err != nil {
		return nil, err
	}
	var shape [16]byte
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := c.ReadMsgUnix(shape[:], oob)
	if err != nil {
		return nil, err
	}
	fd, err := oneDescriptor(oob[:oobn])
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	if n != len(shape) {
		return nil, fmt.Errorf("%d bytes came with the descriptor, not %d", n, len(shape))
	}
	slots, size := binary.LittleEndian.Uint64(shape[:]), binary.LittleEndian.Uint64(shape[8:])
	return mapRing(fd, slots, size, cfg.Layout.PageBytes())
}

// oneDescriptor takes the descriptor out of a control message; of more than one all are closed.
func oneDescriptor(oob []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return -1, err
	}
	var fds []int
	for _, m := range messages {
		got, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		fds = append(fds, got...)
	}
	if len(fds) == 1 {
		return fds[0], nil
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return -1, fmt.Errorf("%d descriptors came, not 1", len(fds))
}

// mapRing maps a ring to read, after it has seen that it cannot become shorter.
func mapRing(fd int, slots, size uint64, page int) (*ring, error) {
	var st unix.Stat_t
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("the memory cannot be sealed: %w", err)
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	const need = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	switch {
	case seals&need != need:
		return nil, fmt.Errorf("the memory's size is not sealed (seals %#x)", seals)
	case size != uint64(slotBytes(page)) || slots < 1 || slots > 1<<16 || st.Size != int64(slots*size):
		return nil, fmt.Errorf("memory of %d bytes in %d slots of %d, for pages of %d", st.Size, slots, size, page)
	}
	mem, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	return newRing(mem, page, int(slots), func() { _ = unix.Munmap(mem) }), nil
}
