package main

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"log/slog"
	"os/signal"
	"sync"
	"syscall"

	"github.com/bulkhead-llm/bulkhead/gateway"
	"github.com/bulkhead-llm/bulkhead/gateway/cluster"
	"github.com/bulkhead-llm/bulkhead/trust"
)

// gatewayCmd serves the OpenAI API in front of prefill and decode workers that are processes of their own.
type gatewayCmd struct {
	Listen     string   `default:"127.0.0.1:8080" help:"Address and port to serve clients on."`
	ModelName  string   `help:"What requests call the model (default: that of its file)." placeholder:"NAME"`
	Keys       fileName `help:"YAML file that maps API keys to tenants. Without it everybody is the tenant default." placeholder:"FILE"`
	CheckModel bool     `default:"true" negatable:"" help:"Hash the model's weights at the start, and use only workers that have the same; --no-check-model takes the model of the first worker."`

	Model   modelFile         `embed:""`
	Members memberFlags       `embed:"" group:"Workers"`
	Peers   peerFlags         `embed:"" group:"Trust"`
	Health  healthFlags       `embed:"" group:"Health of workers"`
	Bound   gatewayBoundFlags `embed:"" group:"Limits"`
	Log     logFlags          `embed:"" group:"Log"`
}

// front is what the command runs, put together and not yet listening.
type front struct {
	model   *described
	peers   *peers
	cluster *cluster.Cluster
	gateway *gateway.Gateway
	name    string
	members cluster.Members
}

// Run serves until SIGTERM or SIGINT, then drains.
func (c *gatewayCmd) Run(s *streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := c.Log.logger(s.err)
	f, err := c.assemble(log)
	if err != nil {
		return err
	}
	defer f.close()
	listener, err := listen("listen", c.Listen)
	if err != nil {
		return err
	}
	f.announce(log)
	log.Info("serving", "url", "http://"+listener.Addr().String())
	end := f.watch(string(c.Members.Workers))
	defer end()
	return service{
		server: f.gateway.Server(), listener: gateway.Listener(listener), log: log, limit: c.Bound.DrainTimeout,
		drain: f.drain,
	}.run(ctx, stop)
}

// drain takes no new requests and waits for what runs; what is left when ctx is done is ended on both workers.
func (f *front) drain(ctx context.Context) error {
	f.gateway.Drain()
	err := f.cluster.Drain(ctx)
	if err != nil {
		f.cluster.Close()
	}
	return err
}

// assemble makes the gateway. What it refuses is a configuration that contradicts itself, or the model file.
func (c *gatewayCmd) assemble(log *slog.Logger) (_ *front, err error) {
	if err := c.Bound.check(); err != nil {
		return nil, refused{err}
	}
	if err := c.Health.check(); err != nil {
		return nil, refused{err}
	}
	f := &front{name: c.ModelName}
	if f.members, err = c.Members.members(); err != nil {
		return nil, refused{err}
	}
	keys, err := loadKeys(c.Keys)
	if err != nil {
		return nil, err
	}
	if f.peers, err = c.Peers.open(trust.Gateway, nil, log); err != nil {
		return nil, err
	}
	if f.model, err = c.Model.describe(c.CheckModel, log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if f.name == "" {
		f.name = f.model.name
	}
	return f, c.connect(f, keys, log)
}

// connect makes the cluster and the gateway in front of it.
func (c *gatewayCmd) connect(f *front, keys *gateway.Keys, log *slog.Logger) (err error) {
	registry := newRegistry()
	config := cluster.Config{Vocab: f.model.text.Size(), Fingerprint: f.model.info.Fingerprint, Plaintext: c.Peers.InsecurePlaintext,
		Log: log, Registry: registry}
	c.Health.settings(c.Bound, &config)
	if config.Key, err = f.peers.key("bulkhead gateway affinity"); err != nil {
		return err
	}
	if node := f.peers.node; node != nil {
		config.TLS = func(role cluster.Role, name string) *tls.Config { return node.ClientTLS(trust.Role(role), name) }
		config.PeerName = func(s tls.ConnectionState) (cluster.Role, string, error) {
			role, name, err := trust.PeerOf(s)
			return cluster.Role(role), name, err
		}
	}
	if f.cluster, err = cluster.New(config); err != nil {
		return refused{err}
	}
	if err := f.cluster.SetMembers(f.members); err != nil {
		return refused{err}
	}
	f.gateway, err = gateway.New(gateway.Config{
		Backend: f.cluster, Text: f.model.text, Model: describe(f.name, f.model.info),
		Version: version, Keys: keys, Log: log, Registry: registry, MaxBody: c.Bound.MaxBody,
	})
	if err != nil {
		return refused{err}
	}
	return nil
}

// key is a secret for one use, from the cluster's; random where there is none.
func (p *peers) key(use string) (k [32]byte, err error) {
	secret := p.secret
	if secret == (trust.Secret{}) {
		secret = trust.NewSecret()
	}
	derived, err := hkdf.Key(sha256.New, secret[:], nil, use, len(k))
	copy(k[:], derived)
	return k, err
}

// watch keeps to the file of workers, where there is one, until its end is called.
func (f *front) watch(file string) (end func()) {
	if file == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { f.cluster.Watch(ctx, file) })
	return func() { cancel(); wait.Wait() }
}

func (f *front) announce(log *slog.Logger) {
	info := f.model.info
	log.Info("model", "name", f.name, "arch", info.Arch, "weights", info.Quantization, "parameters", info.Params, "loaded", false,
		"checked", info.Fingerprint != [32]byte{})
	log.Info("workers", "prefill", len(f.members.Prefill), "decode", len(f.members.Decode))
	f.peers.announce(log)
}

func (f *front) close() {
	if f.cluster != nil {
		f.cluster.Close()
	}
	f.model.file.Close()
}
