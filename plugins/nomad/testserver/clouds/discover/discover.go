// Package discover stands in for the library by which Nomad's agents find each other in fifteen clouds: a quarter of what Nomad is compiled of,
// and of no use to agents of one machine. It finds nothing, and says so.
package discover

import (
	"errors"
	"log"
)

// Discover finds nothing.
type Discover struct{}

// Addrs fails.
func (*Discover) Addrs(string, *log.Logger) ([]string, error) {
	return nil, errors.New("this agent, built for tests, finds no others in clouds: name their addresses")
}

// Help describes no provider.
func (*Discover) Help() string { return "" }

// Names names no provider.
func (*Discover) Names() []string { return nil }
