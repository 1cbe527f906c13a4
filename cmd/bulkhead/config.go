package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/bulkhead-llm/bulkhead/internal/strictyaml"
)

// fileName is the name of a file that a flag may leave out and not leave empty: --keys "$KEYS" with nothing in KEYS would
// serve everybody, and --model "$(command that fails)" another model.
type fileName string

// UnmarshalText takes any name.
func (f *fileName) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("the name of the file is empty: name one, or leave the flag out")
	}
	*f = fileName(text)
	return nil
}

// configFile gives flags their values from a YAML file: one mapping from flag names to values. A key that is no flag of
// any command is refused, so a misspelt limit cannot be silently without effect.
type configFile struct{ values map[string]any }

func loadConfig(r io.Reader) (kong.Resolver, error) {
	data, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return nil, err
	}
	f := configFile{values: map[string]any{}}
	if err := strictyaml.Unmarshal(data, &f.values); err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	return f, nil
}

func (f configFile) Validate(app *kong.Application) error {
	known := map[string]bool{}
	var walk func(*kong.Node)
	walk = func(n *kong.Node) {
		for _, flag := range n.Flags {
			known[flag.Name] = true
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(app.Node)
	var unknown []string
	for key := range f.values {
		if !known[key] || key == "config" || key == "help" || key == "version" { // these three are for the command line
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("configuration file: no flag is called %s", strings.Join(unknown, ", "))
	}
	return nil
}

// Resolve is asked for flags that the command line does not set. The environment wins over the file.
func (f configFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil
		}
	}
	value, ok := f.values[flag.Name]
	if !ok {
		return nil, nil
	}
	switch v := value.(type) {
	case string, bool:
		return v, nil
	case uint64, int64, int, float64:
		return fmt.Sprint(v), nil // kong parses numbers and sizes itself, exactly as on the command line
	case []any:
		return joined(flag, v)
	}
	return nil, fmt.Errorf("configuration file: %s must be a plain value, not a %T", flag.Name, value)
}

// joined is a list as it is written on the command line.
func joined(flag *kong.Flag, list []any) (any, error) {
	var words []string
	for _, v := range list {
		word, ok := v.(string)
		if !ok || !flag.IsSlice() || strings.ContainsRune(word, ',') {
			return nil, fmt.Errorf("configuration file: %s cannot be a list with %v in it", flag.Name, v)
		}
		words = append(words, word)
	}
	return strings.Join(words, ","), nil
}
