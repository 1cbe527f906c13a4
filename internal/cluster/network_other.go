//go:build !linux

package cluster

import "errors"

// Network is several network namespaces on one bridge, which only Linux has.
type Network struct{}

// Place is one namespace.
type Place struct {
	Name, IP string
	launcher *launcher
}

// InOwnNamespace fails: there are no network namespaces here.
func InOwnNamespace([]string) (inside bool, code int, err error) {
	return false, 0, errors.New("cluster: network namespaces need Linux")
}

// NewNetwork fails: there are no network namespaces here.
func NewNetwork() (*Network, error) { return nil, errors.New("cluster: network namespaces need Linux") }

// Add fails.
func (*Network) Add(string) (*Place, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Network) Close() {}

// Cut fails.
func (*Network) Cut(_, _ *Place) error { return errors.ErrUnsupported }

// Join fails.
func (*Network) Join(_, _ *Place) error { return errors.ErrUnsupported }

// Unplug fails.
func (*Network) Unplug(*Place) error { return errors.ErrUnsupported }

// Plug fails.
func (*Network) Plug(*Place) error { return errors.ErrUnsupported }
