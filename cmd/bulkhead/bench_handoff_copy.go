package main

import (
	"context"
	"time"

	"github.com/bulkhead-llm/bulkhead/engine/mem"
)

// copier copies pages within this process, on one thread, from memory to memory: both arenas are larger than any cache.
type copier struct {
	from, to         [][]byte
	freeFrom, freeTo func()
	at               int
}

func newCopier() (*copier, error) {
	c := &copier{}
	var err error
	if c.from, c.freeFrom, err = arenaPages(arenaPagesCount); err != nil {
		return nil, err
	}
	if c.to, c.freeTo, err = arenaPages(arenaPagesCount); err != nil {
		c.freeFrom()
		return nil, err
	}
	return c, nil
}

func (c *copier) move(_ context.Context, d time.Duration) (bytes int64, took time.Duration, err error) {
	start := time.Now()
	for took < d {
		bytes += int64(copy(c.to[c.at], c.from[c.at]))
		c.at = (c.at + 1) % len(c.from)
		took = time.Since(start)
	}
	return bytes, took, nil
}

func (c *copier) close() {
	c.freeFrom()
	c.freeTo()
}

// arenaPagesCount is how many pages an arena has: 189 MB, several times what a CPU's cache holds.
const arenaPagesCount = 256

// arenaPages are pages that have been written once, so that all memory is there.
func arenaPages(n int) (pages [][]byte, free func(), err error) {
	size := handoffLayout.PageBytes()
	arena, free, err := mem.Alloc(n * size)
	if err != nil {
		return nil, nil, err
	}
	for i := range arena {
		arena[i] = byte(i * 7 >> 3)
	}
	for i := range n {
		pages = append(pages, arena[i*size:(i+1)*size:(i+1)*size])
	}
	return pages, free, nil
}
