package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

// watchEvery is how often a members' file is looked at.
const watchEvery = time.Second

// Watch sets the members from a file and keeps to it until ctx is done: the file is read every second, and taken whenever it
// says something else than before. One that cannot be read or is refused leaves the members as they are, and the log says
// why, once for each wrong content. It is read as a whole, and not by its time stamp: a mounted file can change without one.
func (c *Cluster) Watch(ctx context.Context, file string) {
	w := watcher{file: file}
	for {
		m, changed, err := w.look()
		if err == nil && changed {
			err = c.SetMembers(m)
		}
		if err != nil && err.Error() != w.told {
			w.told = err.Error()
			c.log.Error("the list of workers is not taken; the one from before stays in use", "file", file, "err", err)
		} else if err == nil && changed {
			w.told = ""
			c.log.Info("the list of workers is in use", "file", file, "prefill", len(m.Prefill), "decode", len(m.Decode))
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
			return
		}
	}
}

// watcher remembers what a file said last.
type watcher struct {
	file string
	sum  [sha256.Size]byte
	told string // the last error in the log
}

// look reads the file. Content that was looked at before is not changed, whether it was taken or not.
func (w *watcher) look() (m Members, changed bool, err error) {
	data, err := readMembers(w.file)
	if err != nil {
		return Members{}, false, fmt.Errorf("reading the list of workers: %w", err)
	}
	sum := sha256.Sum256(data)
	if sum == w.sum {
		return Members{}, false, nil
	}
	w.sum = sum
	m, err = parseMembers(w.file, data)
	return m, err == nil, err
}
