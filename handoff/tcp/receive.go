package tcp

// receive fills dst with the raw bytes that follow a frame. What was read ahead comes first; the rest goes from the socket
// to its place. Most of the cost of a page is in waking up for each piece of it, so the kernel is told to wake for larger
// ones.
func (c *conn) receive(dst []byte) error {
	dst = dst[c.rd.Buffered(dst):]
	low := 1
	defer func() { c.wakeAt(&low, 1) }()
	for len(dst) > 0 {
		switch {
		case len(dst) < wakeLeast:
			c.wakeAt(&low, 1)
		case low == 1 || low > len(dst):
			c.wakeAt(&low, min(len(dst), wakeMost))
		}
		n, err := c.source.Read(dst)
		dst = dst[n:]
		if err != nil && len(dst) > 0 {
			return err
		}
	}
	return nil
}

// How many bytes a reader is woken for, in the middle of a page.
const (
	wakeLeast = 64 << 10
	wakeMost  = 1 << 20
)

// wakeAt changes for how many bytes the reader is woken. Over TLS nothing is gained: it reads by records.
func (c *conn) wakeAt(low *int, n int) {
	if *low != n && c.cfg.TLS == nil {
		*low = n
		wakeFor(c.tcp, n)
	}
}
