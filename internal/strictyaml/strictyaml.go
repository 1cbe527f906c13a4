// Package strictyaml reads YAML that people write for us: unknown and duplicate keys are errors, and so is whatever makes
// the library panic.
package strictyaml

import (
	"errors"

	"github.com/goccy/go-yaml"
)

// errMalformed is text on which goccy/go-yaml v1.19.2 panics, such as "!000 000".
var errMalformed = errors.New("this is not YAML")

// Unmarshal reads data into v. Errors show the line.
func Unmarshal(data []byte, v any) (err error) {
	defer func() {
		if recover() != nil {
			err = errMalformed
		}
	}()
	if err := yaml.UnmarshalWithOptions(data, v, yaml.Strict()); err != nil {
		return errors.New(yaml.FormatError(err, false, false))
	}
	return nil
}
