package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Network is several network namespaces on one bridge. The bridge is in the namespace of the program itself, which must be
// one of its own: InOwnNamespace starts the program again in one, so that nothing of this is ever seen by the machine.
// Namespaces have no name and no file: each is held by a thread of the program and by the processes in it, and vanishes with
// them, whatever kills them. The addresses are 10.77.0.0/24, inside these namespaces only.
//
// Two places are cut off from each other as a broken switch does it: frames from one to the other go to a hardware address
// that nobody has. Nobody is told, connections that are open stay open, and nothing arrives. It takes iproute2 and no
// kernel module beside bridge and veth.
type Network struct {
	mu     sync.Mutex
	places []*Place
}

// Place is one namespace of a Network, at an address of its own.
type Place struct {
	Name string
	IP   string

	launcher *launcher
	port     string // name of the bridge's end of its cable
}

const (
	subnet    = "10.77.0."
	bridgeIP  = subnet + "1"
	nobodyMAC = "02:00:00:00:00:01" // a locally administered address that no interface here has
	maxPlaces = 200
)

const ownNamespace = "BULKHEAD_CLUSTER_NAMESPACE"

// InOwnNamespace reports whether the program is in a network namespace of its own. Where it is not, it runs the program
// again in one, with these arguments, and gives its exit code.
func InOwnNamespace(args []string) (inside bool, code int, err error) {
	if os.Getenv(ownNamespace) != "" {
		return true, 0, nil
	}
	code, err = againInNamespace(args)
	return false, code, err
}

func againInNamespace(args []string) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), ownNamespace+"=1")
	cmd.SysProcAttr = dieWithParent()
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	if err := here.do(cmd.Start); err != nil {
		return 0, fmt.Errorf("a network namespace of its own (this needs root): %w", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM) // it ends in order, and this program after it
	defer func() { signal.Stop(signals); close(signals) }()
	go func() {
		for sig := range signals {
			_ = cmd.Process.Signal(sig)
		}
	}()
	err = cmd.Wait()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return e.ExitCode(), nil
	}
	return 0, err
}

// NewNetwork makes the bridge.
func NewNetwork() (*Network, error) {
	if os.Getenv(ownNamespace) == "" {
		return nil, errors.New("cluster: not in a network namespace of its own")
	}
	return &Network{}, run(here,
		"link set lo up",
		"link add br0 type bridge",
		"addr add "+bridgeIP+"/24 dev br0",
		"link set br0 up")
}

// Add makes a namespace and plugs it into the bridge.
func (w *Network) Add(name string) (*Place, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.places) >= maxPlaces {
		return nil, fmt.Errorf("cluster: %d places are the most", maxPlaces)
	}
	n := len(w.places) + 2
	p := &Place{Name: name, IP: subnet + strconv.Itoa(n), port: "port" + strconv.Itoa(n)}
	// The bridge's namespace is named by a thread that never leaves it: the process's first thread may be a place's.
	var thread int
	if err := here.do(func() error { thread = unix.Gettid(); return nil }); err != nil {
		return nil, err
	}
	p.launcher = newLauncher(func() error { return unix.Unshare(unix.CLONE_NEWNET) })
	w.places = append(w.places, p)
	err := run(p.launcher,
		"link set lo up",
		"link add eth0 type veth peer name "+p.port+" netns "+strconv.Itoa(thread),
		"addr add "+p.IP+"/24 dev eth0",
		"link set eth0 up")
	if err != nil {
		return nil, err
	}
	return p, run(here, "link set "+p.port+" master br0", "link set "+p.port+" up")
}

// Close ends the namespaces that no process is in any more. The bridge goes with the program.
func (w *Network) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.places {
		p.launcher.close()
	}
	w.places = nil
}

// Cut lets nothing more through from one place to the other; the other way stays open.
func (w *Network) Cut(from, to *Place) error {
	return run(from.launcher, "neigh replace "+to.IP+" lladdr "+nobodyMAC+" dev eth0 nud permanent")
}

// Join undoes Cut.
func (w *Network) Join(from, to *Place) error {
	mac, err := to.hardware()
	if err != nil {
		return err
	}
	return run(from.launcher, "neigh replace "+to.IP+" lladdr "+mac+" dev eth0 nud stale")
}

// Unplug pulls the place's cable: nothing gets in or out.
func (w *Network) Unplug(p *Place) error { return run(here, "link set "+p.port+" down") }

// Plug puts it back.
func (w *Network) Plug(p *Place) error { return run(here, "link set "+p.port+" up") }

// hardware is the address of the place's interface.
func (p *Place) hardware() (mac string, err error) {
	err = p.launcher.do(func() error {
		i, err := net.InterfaceByName("eth0")
		if err == nil {
			mac = i.HardwareAddr.String()
		}
		return err
	})
	return mac, err
}

// run runs iproute2 in a namespace.
func run(l *launcher, commands ...string) error {
	for _, c := range commands {
		cmd := exec.Command("ip", strings.Fields(c)...)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := l.do(cmd.Start); err != nil {
			return fmt.Errorf("ip %s: %w (Debian package iproute2; root)", c, err)
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, strings.TrimSpace(out.String()))
		}
	}
	return nil
}
