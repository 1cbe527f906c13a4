// Command chaos puts a cluster under the load of sixteen clients and damages it meanwhile: workers are killed, stopped,
// drained and started again at random moments, and with -netns also cut off from each other and from the gateway. Every
// request must end in the answer that `bulkhead serve` gives, or in an error that says so; never in a wrong token, a stream
// that breaks off or a wait without end. Afterwards, healed, the cluster must answer everything, and every page be free or
// cached. scripts/chaos runs it.
//
// The order of damage comes from the seed that is printed; when exactly it hits does not.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/bulkhead-llm/bulkhead/conformance/cluster/ask"
	"github.com/bulkhead-llm/bulkhead/internal/cluster"
)

// clientCount is how many clients ask at once.
const clientCount = 16

// questionCount is how many different questions they have.
const questionCount = 80

type options struct {
	seed   uint64
	netns  bool
	tls    bool
	dir    string
	time   time.Duration
	binary string

	network *cluster.Network // with netns
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the damage and of the load (default: a random one)")
	flag.BoolVar(&o.netns, "netns", false, "each process in a network namespace of its own, with mutual TLS, and partitions between them (root, iproute2)")
	flag.BoolVar(&o.tls, "tls", false, "mutual TLS on loopback")
	flag.StringVar(&o.binary, "binary", "", "the bulkhead to run (default: built from this checkout)")
	flag.StringVar(&o.dir, "dir", "", "folder for logs; it is kept (default: a temporary one, kept when something is wrong)")
	seconds := flag.Int("seconds", 60, "how long the damage goes on, 1 to 86400")
	flag.Parse()
	if flag.NArg() > 0 || *seconds < 1 || *seconds > 86400 {
		fmt.Fprintln(os.Stderr, "usage: chaos -seconds 1..86400 [-seed N] [-netns] [-tls] [-dir DIR]")
		os.Exit(2)
	}
	o.time = time.Duration(*seconds) * time.Second
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	os.Exit(o.main())
}

// main is the program without flags. With -netns it goes on in a copy of itself in a network namespace of its own.
func (o *options) main() int {
	if o.netns {
		again := append(os.Args[1:], "-seed", strconv.FormatUint(o.seed, 10))
		if inside, code, err := cluster.InOwnNamespace(again); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
			return 1
		} else if !inside {
			return code
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := cluster.EndWithParent(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	fmt.Printf("chaos: seed %d\n", o.seed)
	err := o.run(ctx)
	if ctx.Err() != nil {
		fmt.Fprintf(os.Stderr, "chaos: interrupted; logs are in %s\n", o.dir)
		return 1
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "chaos: WRONG: %v\nchaos: seed %d; logs are in %s\n", err, o.seed, o.dir)
		return 1
	}
	return 0
}

func (o *options) run(ctx context.Context) (err error) {
	temporary := o.dir == ""
	if temporary {
		if o.dir, err = os.MkdirTemp("", "chaos"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	if o.binary == "" {
		if o.binary, err = cluster.Build(ctx, o.dir); err != nil {
			return err
		}
	}
	if o.netns { // before anything is started: in a new namespace loopback is not up
		if o.network, err = cluster.NewNetwork(); err != nil {
			return err
		}
		defer o.network.Close()
	}
	rng := rand.New(rand.NewPCG(o.seed, 1))
	questions := tenants(ask.Load(rng, questionCount))
	keys, err := writeKeys(o.dir)
	if err != nil {
		return err
	}
	want, err := o.reference(ctx, questions, keys)
	if err != nil {
		return err
	}
	if err := o.damage(ctx, rng, questions, want, keys); err != nil {
		return err
	}
	if temporary {
		return os.RemoveAll(o.dir)
	}
	return nil
}

// The flags make pools that hold a few requests, so that some are set back, and a patience that is short beside the damage.
var (
	commonFlags = []string{"--window", "1024", "--running", "8", "--page-tokens", "16"}
	workerFlags = append(slices.Clone(commonFlags), "--pool", "4096", "--drain-timeout", "3s",
		"--handoff-stall-timeout", "3s", "--handoff-write-timeout", "3s")
	gatewayFlags = []string{"--first-token-timeout", "15s", "--idle-timeout", "5s", "--hold-timeout", "10s", "--generate-timeout", "5s",
		"--breaker-backoff-limit", "5s"}
)

// reference is what every answer must be.
func (o *options) reference(ctx context.Context, questions []ask.Question, keys string) ([]*ask.Answer, error) {
	s, err := cluster.Serve(ctx, o.binary, o.dir, append(slices.Clone(commonFlags), "--keys", keys)...)
	if err != nil {
		return nil, err
	}
	defer s.Process.Kill()
	want, err := ask.Reference(ctx, http.DefaultClient, s.URL, questions)
	if err != nil {
		return nil, err
	}
	for i, a := range want {
		if a.Failure != nil {
			return nil, fmt.Errorf("the reference, %s: %v", questions[i].Name, a.Failure)
		}
	}
	return want, nil
}

// damage runs the load and the monkey, heals, and looks at what is left.
func (o *options) damage(ctx context.Context, rng *rand.Rand, questions []ask.Question, want []*ask.Answer, keys string) error {
	config := cluster.Config{Binary: o.binary, Dir: o.dir, Prefill: 2, Decode: 2, TLS: o.tls || o.netns,
		Network: o.network, WorkerFlags: workerFlags, GatewayFlags: append(slices.Clone(gatewayFlags), "--keys", keys)}
	c, err := cluster.Start(ctx, config)
	if err != nil {
		return err
	}
	defer c.Close()
	total, err := c.Totals(ctx)
	if err != nil {
		return err
	}
	t := &tally{}
	l := &load{url: c.URL(), questions: questions, want: want, tally: t, abort: ctx}
	m := &monkey{cluster: c, network: o.network, tally: t}
	if err := together(ctx, o.time, rng, l, m); err != nil {
		return fmt.Errorf("after %v: %w", t, err)
	}
	fmt.Printf("chaos: %v\n", t)
	if err := t.enough(); err != nil {
		return err
	}
	return healed(ctx, c, l, total, o.dir)
}
