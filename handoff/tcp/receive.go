package tcp

// receive fills dst with the raw bytes that follow a frame. What was read ahead comes first; the rest goes from the socket
// to its place.
func (c *conn) receive(dst []byte) error {
	dst = dst[c.rd.Buffered(dst):]
	for len(dst) > 0 {
		n, err := c.source.Read(dst)
		dst = dst[n:]
		if err != nil && len(dst) > 0 {
			return err
		}
	}
	return nil
}
