package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-llm/bulkhead/engine/arch"
	"github.com/bulkhead-llm/bulkhead/engine/gguf"
	"github.com/bulkhead-llm/bulkhead/engine/kernel"
	"github.com/bulkhead-llm/bulkhead/engine/llama"
)

// architectures are the ones that run, by what general.architecture says.
var architectures = map[string]func(*gguf.File) (*arch.Spec, error){
	llama.Name: llama.Read,
}

// readSpec finds the architecture of a file and has it read the metadata.
func readSpec(f *gguf.File) (name string, spec *arch.Spec, err error) {
	name, err = f.String("general.architecture")
	if err != nil {
		return "", nil, err
	}
	read, ok := architectures[name]
	if !ok {
		return "", nil, fmt.Errorf("architecture %q is not supported: supported are %s", name, strings.Join(Architectures(), ", "))
	}
	spec, err = read(f)
	return name, spec, err
}

// Architectures lists the supported architectures.
func Architectures() []string {
	var names []string
	for name := range architectures {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// weightType is the table's row for a tensor's type.
func weightType(t *gguf.Tensor) (*kernel.Type, error) {
	k, ok := kernel.TypeOf(uint32(t.Type))
	if !ok {
		var names []string
		for _, t := range kernel.Types() {
			names = append(names, t.Name)
		}
		return nil, fmt.Errorf("tensor %q has type %v, which is not supported: supported are %s; "+
			"convert the model to one of them", t.Name, t.Type, strings.Join(names, ", "))
	}
	return k, nil
}
