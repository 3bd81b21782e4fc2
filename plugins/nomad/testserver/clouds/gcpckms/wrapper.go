// Package gcpckms stands in for the library by which Nomad has its keyring wrapped by a cloud's key service. Agents for tests are built without.
package gcpckms

import (
	"context"
	"errors"

	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
)

// Wrapper takes no configuration, and is never asked for more.
type Wrapper struct{ wrapping.Wrapper }

// NewWrapper makes one.
func NewWrapper() *Wrapper { return &Wrapper{} }

// SetConfig fails.
func (*Wrapper) SetConfig(context.Context, ...wrapping.Option) (*wrapping.WrapperConfig, error) {
	return nil, errors.New("this agent, built for tests, has no key service of a cloud: use aead or transit")
}
