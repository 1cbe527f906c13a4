package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bulkhead-llm/bulkhead/internal/cluster"
)

// monkey damages one thing after the other, some at the same time, and mends each after a while. What it cannot mend is
// wrong: a worker must come up again wherever it died.
type monkey struct {
	cluster *cluster.Cluster
	network *cluster.Network // nil: there is nothing to cut
	tally   *tally
}

// mostAtOnce is how many nodes may be damaged at the same time: all workers of a role, so that there are moments without any.
const mostAtOnce = 2

// act is one damage and its mending.
type act struct {
	kind string
	wait time.Duration // between the two
	hurt func(context.Context) error
	mend func(context.Context) error
}

// run damages until ctx is done, and returns when all is mended.
func (m *monkey) run(ctx context.Context, rng *rand.Rand) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		busy = map[*cluster.Node]bool{}
	)
	wrong := make(chan error, 1)
	for {
		pause := time.Duration(100+rng.IntN(900)) * time.Millisecond
		a, node := m.draw(rng)
		select {
		case <-ctx.Done():
			wg.Wait()
			select {
			case err := <-wrong:
				return err
			default:
				return nil
			}
		case err := <-wrong:
			wg.Wait()
			return err
		case <-time.After(pause):
		}
		mu.Lock()
		taken := busy[node] || len(busy) >= mostAtOnce
		if !taken {
			busy[node] = true
		}
		mu.Unlock()
		if taken {
			continue
		}
		wg.Go(func() {
			if err := m.perform(ctx, a); err != nil {
				select {
				case wrong <- fmt.Errorf("%s of %s: %w", a.kind, node.Name, err):
				default:
				}
			}
			mu.Lock()
			delete(busy, node)
			mu.Unlock()
		})
	}
}

// perform damages and mends. It mends also where the run is over meanwhile.
func (m *monkey) perform(ctx context.Context, a act) error {
	if err := a.hurt(ctx); err != nil {
		return err
	}
	m.tally.damaged(a.kind)
	select {
	case <-time.After(a.wait):
	case <-ctx.Done():
	}
	return a.mend(context.WithoutCancel(ctx))
}

// draw is what comes next, and the worker that it hits.
func (m *monkey) draw(rng *rand.Rand) (act, *cluster.Node) {
	workers := m.cluster.Workers
	node := workers[rng.IntN(len(workers))]
	wait := time.Duration(rng.IntN(2000)) * time.Millisecond
	if rng.IntN(4) == 0 {
		wait = time.Duration(2000+rng.IntN(8000)) * time.Millisecond // longer than the others' patience
	}
	if m.network != nil && rng.IntN(2) == 0 {
		return m.drawCut(rng, node, wait), node
	}
	restart := func(ctx context.Context) error { return m.cluster.Restart(ctx, node) }
	switch rng.IntN(5) {
	case 0, 1:
		return act{"kills", wait / 2, func(context.Context) error { node.Process().Kill(); return nil }, restart}, node
	case 2, 3:
		return act{"stops", wait,
			func(context.Context) error { return node.Process().Stop() },
			func(context.Context) error { return node.Process().Continue() }}, node
	}
	return act{"drains", wait / 4, func(context.Context) error { return node.Process().Terminate(drainLimit) }, restart}, node
}

// drainLimit is the time that a worker has to end after SIGTERM: its own limit, and some more.
const drainLimit = 15 * time.Second

// drawCut cuts a worker off: from one other node, in one direction or both, or from all.
func (m *monkey) drawCut(rng *rand.Rand, node *cluster.Node, wait time.Duration) act {
	w, here := m.network, node.Place()
	if rng.IntN(3) == 0 {
		return act{"cables pulled", wait,
			func(context.Context) error { return w.Unplug(here) },
			func(context.Context) error { return w.Plug(here) }}
	}
	others := m.others(node)
	other := others[rng.IntN(len(others))]
	kind := fmt.Sprintf("cuts %s-%s", node.Role, other.Role)
	if node.Role == cluster.Decode && other.Role == cluster.Prefill || other.Role == cluster.Gateway {
		kind = fmt.Sprintf("cuts %s-%s", other.Role, node.Role)
	}
	from, to := here, other.Place()
	if rng.IntN(2) == 0 {
		from, to = to, from
	}
	if rng.IntN(2) == 0 {
		return act{kind + " one way", wait,
			func(context.Context) error { return w.Cut(from, to) },
			func(context.Context) error { return w.Join(from, to) }}
	}
	return act{kind, wait,
		func(context.Context) error { return both(w.Cut, from, to) },
		func(context.Context) error { return both(w.Join, from, to) }}
}

func both(f func(from, to *cluster.Place) error, a, b *cluster.Place) error {
	if err := f(a, b); err != nil {
		return err
	}
	return f(b, a)
}

// others are the nodes that a worker speaks to: the gateway, and the workers of the other role.
func (m *monkey) others(node *cluster.Node) []*cluster.Node {
	others := []*cluster.Node{m.cluster.Gateway}
	for _, n := range m.cluster.Workers {
		if n.Role != node.Role {
			others = append(others, n)
		}
	}
	return others
}
