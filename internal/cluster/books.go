package cluster

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Books are what a worker says of itself at one moment.
type Books struct {
	Pages    map[string]int // of its pool, by state
	Requests map[string]int // by state
	Rooms    int            // that are open
}

// Total is all pages of the pool.
func (b Books) Total() (n int) {
	for _, pages := range b.Pages {
		n += pages
	}
	return n
}

// Settled reports what is not as it must be when nothing is asked of a worker: every page free or cached, no request and no
// room. total is what the pool had at the start; 0 asks for none in particular.
func (b Books) Settled(total int) error {
	if b.Total() == 0 {
		return fmt.Errorf("says nothing of its pages")
	}
	if total > 0 && b.Total() != total {
		return fmt.Errorf("%d pages, and there were %d", b.Total(), total)
	}
	for state, n := range b.Pages {
		if n > 0 && state != "free" && state != "cached" {
			return fmt.Errorf("%d pages are %s", n, state)
		}
	}
	for state, n := range b.Requests {
		if n > 0 {
			return fmt.Errorf("%d requests are %s", n, state)
		}
	}
	if b.Rooms > 0 {
		return fmt.Errorf("%d rooms are open", b.Rooms)
	}
	return nil
}

// Books reads a worker's books out of its /metrics.
func (c *Cluster) Books(ctx context.Context, n *Node) (Books, error) {
	b := Books{Pages: map[string]int{}, Requests: map[string]int{}, Rooms: -1}
	body, err := c.get(ctx, n, "/metrics")
	if err != nil {
		return b, err
	}
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		name, labels, value, ok := sample(lines.Text())
		if !ok {
			continue
		}
		switch name {
		case "bulkhead_pages":
			if w := labels["worker"]; w == "" || w == string(n.Role) {
				b.Pages[labels["state"]] += value
			}
		case "bulkhead_requests":
			b.Requests[labels["state"]] += value
		case "bulkhead_rooms":
			b.Rooms = max(b.Rooms, 0) + value
		}
	}
	if len(b.Pages) == 0 || b.Rooms < 0 {
		return b, fmt.Errorf("%s: /metrics has no bulkhead_pages or no bulkhead_rooms", n.Name)
	}
	return b, nil
}

// sample takes a line of Prometheus's text format apart. Fractions are cut off: all that is read here are counts.
func sample(line string) (name string, labels map[string]string, value int, ok bool) {
	if line == "" || line[0] == '#' {
		return "", nil, 0, false
	}
	at := strings.LastIndexByte(line, ' ')
	if at < 0 {
		return "", nil, 0, false
	}
	v, err := strconv.ParseFloat(line[at+1:], 64)
	if err != nil {
		return "", nil, 0, false
	}
	name, rest, _ := strings.Cut(line[:at], "{")
	labels = make(map[string]string)
	for _, pair := range strings.Split(strings.TrimSuffix(rest, "}"), ",") {
		if k, quoted, found := strings.Cut(pair, "="); found {
			labels[k] = strings.Trim(quoted, `"`)
		}
	}
	return name, labels, int(v), true
}

// Totals are the pages of each worker's pool, to be compared with at the end.
func (c *Cluster) Totals(ctx context.Context) (map[*Node]int, error) {
	total := make(map[*Node]int)
	for _, n := range c.Workers {
		b, err := c.Books(ctx, n)
		if err != nil {
			return nil, err
		}
		total[n] = b.Total()
	}
	return total, nil
}

// Settled waits until nothing of a request is left on any worker, for at most so long.
func (c *Cluster) Settled(ctx context.Context, total map[*Node]int, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, n := range c.Workers {
		if err := c.Settle(ctx, n, total[n]); err != nil {
			return fmt.Errorf("nothing is asked any more, and %w", err)
		}
	}
	return nil
}

// Settle waits until the worker's books are settled, and reports what is not by then.
func (c *Cluster) Settle(ctx context.Context, n *Node, total int) error {
	for {
		b, err := c.Books(ctx, n)
		if err == nil {
			if err = b.Settled(total); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", n.Name, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Ready waits until the node answers GET /health with 200.
func (c *Cluster) Ready(ctx context.Context, n *Node) error {
	return AwaitHealth(ctx, n.Process(), c.clients[n.Role], c.url(n), "/health")
}

// What a node may take to answer, and how much of its answer is read.
const (
	askLimit  = 5 * time.Second
	mostBytes = 16 << 20
)

// get asks a node itself.
func (c *Cluster) get(ctx context.Context, n *Node, path string) (string, error) {
	return fetch(ctx, c.clients[n.Role], c.url(n)+path)
}
