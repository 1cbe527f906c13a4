package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bulkhead-llm/bulkhead/conformance/cluster/ask"
	"github.com/bulkhead-llm/bulkhead/internal/cluster"
)

// throughSMG puts the router smg, in its PD mode, in front of the workers and holds it to serve's answers too. What smg itself
// does not pass on is listed in missing, each with its cause; anything else that differs is wrong, and so is an entry of the list
// that is passed on after all.
func (o *options) throughSMG(ctx context.Context) error {
	start := time.Now()
	questions := ask.Suite()
	want, err := o.reference(ctx, o.dir, questions, nil)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{Binary: o.binary, Dir: o.dir, Prefill: 2, Decode: 2, NoGateway: true})
	if err != nil {
		return err
	}
	defer c.Close()
	total, err := c.Totals(ctx)
	if err != nil {
		return err
	}
	url, router, err := o.startSMG(ctx, c)
	if err != nil {
		return err
	}
	defer router.Kill()
	seen := newMisses()
	if err := compareSMG(ctx, url, questions, want, seen); err != nil {
		return err
	}
	if o.suites {
		reports := filepath.Join(o.dir, "reports")
		if err := os.MkdirAll(reports, 0o700); err != nil {
			return err
		}
		if err := conformance(ctx, url, "BULKHEAD_REPORTS="+reports, "BULKHEAD_MODEL=bulkhead"); err != nil {
			return err
		}
		if err := readReports(reports, seen); err != nil {
			return err
		}
	}
	if err := seen.stale(o.suites); err != nil {
		return err
	}
	if err := c.Settled(ctx, total, 15*time.Second); err != nil {
		return err
	}
	router.Kill() // it waits for connections that clients keep
	if err := c.Drain(20 * time.Second); err != nil {
		return err
	}
	seen.print(os.Stdout)
	fmt.Printf("cluster-check: through smg all equal but what it does not pass on, in %.0f s; every page is free or cached\n", time.Since(start).Seconds())
	return nil
}

// startSMG starts the router and gives its address.
func (o *options) startSMG(ctx context.Context, c *cluster.Cluster) (string, *cluster.Process, error) {
	port, err := cluster.FreePort("127.0.0.1")
	if err != nil {
		return "", nil, err
	}
	args := []string{o.smg, "launch", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--pd-disaggregation", "--policy", "round_robin",
		"--prometheus-port", "0", "--log-level", "warn", "--disable-retries"}
	for _, n := range c.Roles(cluster.Prefill) {
		args = append(args, "--prefill", "http://"+n.Addr(), strconv.Itoa(n.Handoff))
	}
	for _, n := range c.Roles(cluster.Decode) {
		args = append(args, "--decode", "http://"+n.Addr())
	}
	p, err := cluster.Run("smg", filepath.Join(o.dir, "smg.log"), args, nil)
	if err != nil {
		return "", nil, err
	}
	url := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := cluster.AwaitHealth(ctx, p, http.DefaultClient, url, "/readiness"); err != nil {
		p.Kill()
		return "", nil, err
	}
	return url, p, nil
}

func compareSMG(ctx context.Context, url string, questions []ask.Question, want []*ask.Answer, seen *misses) error {
	var counts ask.Counts
	missed := 0
	order := rand.New(rand.NewPCG(1, 1)).Perm(len(questions))
	err := ask.Each(ctx, http.DefaultClient, url, questions, order, 4, func(i int, a *ask.Answer, err error) error {
		if err == nil {
			if d := a.Differs(want[i]); d != "" {
				err = errors.New(d)
			}
		}
		if err == nil {
			counts.Count(a)
			return nil
		}
		missed++
		return seen.miss("question", questions[i].Name, err.Error())
	})
	if err != nil {
		return err
	}
	fmt.Printf("through smg: %v; %d questions meet what smg does not pass on\n", counts, missed)
	return nil
}
