package main

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/alecthomas/kong"
)

// samples are values for flags that are not their defaults. A new flag needs one here.
var samples = map[string]string{
	"listen": "127.0.0.1:9", "model-name": "harbor", "keys": "keys.yaml", "log-format": "json", "log-level": "WARN",
	"model": "file.gguf", "threads": "3", "kernels": "go",
	"window": "96", "prefill-pool": "128", "decode-pool": "auto", "page-tokens": "64", "clear-on-free": "false",
	"running": "5", "queue": "6", "queue-tenant": "7", "chunk": "8", "request-timeout": "90s", "drain-timeout": "1m30s",
	"max-body": "1000", "json": "true", "type": "Q8_0", "quick": "true", "rounds": "2", "contexts": "64", "clients": "2",
	"against": "llama.cpp", "oracle": "dir", "prompt": "9", "decode": "10",
	"out": "dir", "days": "7",
	"name": "p1", "pool": "128", "handoff-listen": "127.0.0.1:9", "advertise": "127.0.0.1:9", "shared-memory": "false",
	"handoff-rooms": "3", "handoff-pages": "4", "handoff-batch": "5", "handoff-bytes": "6", "handoff-ring": "7", "handoff-peers": "8",
	"handoff-handshake-timeout": "9s", "handoff-ping-interval": "9s", "handoff-peer-timeout": "9s", "handoff-write-timeout": "9s",
	"handoff-stall-timeout": "9s", "handoff-entry-timeout": "9s", "handoff-answer-timeout": "9s", "handoff-claim-timeout": "9s",
	"handoff-dial-timeout": "9s", "handoff-backoff": "9s", "handoff-timeout": "9s",
	"skip": "iperf3", "mooncake": "dir", "only": "pages",
	"tls-dir": "dir", "secret-file": "file", "insecure-plaintext": "true", "check-model": "false",
	"prefill": "http://127.0.0.1:9", "workers": "file",
	"first-token-timeout": "3s", "idle-timeout": "4s", "hold-timeout": "5s", "retries": "1", "dial-timeout": "6s",
	"probe-interval": "7s", "probe-timeout": "8s", "probes-out": "9", "probes-back": "10", "generate-interval": "11s",
	"generate-timeout": "12s", "breaker-failures": "13", "breaker-window": "14", "breaker-backoff": "15s", "breaker-backoff-limit": "16s",
}

// Every flag of every command means the same on the command line, in the environment and in the file, and does something.
func TestFlagsEnvironmentAndFileAgree(t *testing.T) {
	var c cli
	commands := newParser(&c, io.Discard, io.Discard, nil).Model.Leaves(true)
	if len(commands) < 5 {
		t.Fatal("commands are missing", len(commands))
	}
	for _, command := range commands {
		var base []string
		for n := command; n.Type == kong.CommandNode; n = n.Parent {
			base = append([]string{n.Name}, base...)
		}
		for _, p := range command.Positional {
			base = append(base, p.Name)
		}
		for _, flag := range slices.Concat(command.AllFlags(true)...) {
			switch flag.Name {
			case "help", "version", "config":
				continue
			}
			checkFlag(t, append(base[:len(base):len(base)], needed(command, flag)...), flag)
		}
	}
}

// needed are the other flags that the command does not do without.
func needed(command *kong.Node, but *kong.Flag) (args []string) {
	for _, flag := range slices.Concat(command.AllFlags(true)...) {
		if flag.Required && flag != but {
			args = append(args, "--"+flag.Name+"="+samples[flag.Name])
		}
	}
	return args
}

func checkFlag(t *testing.T, base []string, flag *kong.Flag) {
	value, ok := samples[flag.Name]
	if !ok {
		t.Errorf("%v: --%s has no sample here", base, flag.Name)
		return
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(flag.Name+": "+value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	byFlag := parsed(t, append(base[:len(base):len(base)], "--"+flag.Name+"="+value))
	byFile := parsed(t, append(base[:len(base):len(base)], "--config="+file))
	t.Setenv(flag.Envs[0], value)
	byEnv := parsed(t, base)
	os.Unsetenv(flag.Envs[0])
	if !reflect.DeepEqual(byFlag, byFile) || !reflect.DeepEqual(byFlag, byEnv) {
		t.Errorf("%v --%s: by flag %+v, by file %+v, by environment %+v", base, flag.Name, byFlag, byFile, byEnv)
	}
	if flag.Required || value == flag.Default {
		return
	}
	if reflect.DeepEqual(byFlag, parsed(t, base)) {
		t.Errorf("%v --%s=%s changes nothing", base, flag.Name, value)
	}
}

// parsed is what the command of args is told.
func parsed(t *testing.T, args []string) any {
	t.Helper()
	var c cli
	ctx, err := newParser(&c, io.Discard, io.Discard, nil).Parse(args)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return ctx.Selected().Target.Interface()
}
