//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"code.cloudfoundry.org/garden"
	"github.com/slipway-run/slipway/plugins/runc/engine"
)

// container is one container. Its methods may be called at once.
type container struct {
	backend *backend

	mu   sync.Mutex // guards rec.Properties and gone
	rec  record
	gone bool
}

// Handle is its name.
func (c *container) Handle() string { return c.rec.Handle }

// state asks runc.
func (c *container) state(ctx context.Context) (engine.Info, error) {
	info, err := c.backend.engine.State(ctx, c.rec.Handle)
	if errors.Is(err, engine.ErrNotFound) {
		return info, c.backend.missing(c.rec.Handle)
	}
	return info, err
}

func (c *container) bulkInfo() (garden.ContainerInfo, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	info, err := c.state(ctx)
	if err != nil {
		return garden.ContainerInfo{}, err
	}
	properties, err := c.Properties()
	if err != nil {
		return garden.ContainerInfo{}, err
	}
	state := "active"
	if info.Status != engine.Running {
		state = "stopped"
	}
	return garden.ContainerInfo{State: state, Properties: properties}, nil
}

// has tells whether a container has all of the properties, with these values.
func (c *container) has(wanted garden.Properties) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, value := range wanted {
		if own, ok := c.rec.Properties[name]; !ok || own != value {
			return false
		}
	}
	return true
}

// listed tells whether the server lists it.
func (c *container) listed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.backend.guardian || len(c.rec.Properties) > 0
}

// Properties gives all of them.
func (c *container) Properties() (garden.Properties, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(c.rec.Properties)
	if all == nil {
		all = garden.Properties{}
	}
	if c.backend.concourse { // it makes a value of pieces, of which an empty one has none
		maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	}
	return all, nil
}

// Property gives one, which must be there.
func (c *container) Property(name string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.rec.Properties[name]
	if !ok {
		return "", fmt.Errorf("container %q has no property %q", c.rec.Handle, name)
	}
	return value, nil
}

// SetProperty sets one; it holds across restarts of the server once SetProperty has returned nil.
func (c *container) SetProperty(name, value string) error {
	return c.change(func(p garden.Properties) { p[name] = value })
}

// RemoveProperty removes one, which must be there.
func (c *container) RemoveProperty(name string) error {
	if _, err := c.Property(name); err != nil {
		return err
	}
	return c.change(func(p garden.Properties) { delete(p, name) })
}

func (c *container) change(how func(garden.Properties)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return c.backend.missing(c.rec.Handle)
	}
	rec := c.rec
	rec.Properties = maps.Clone(c.rec.Properties)
	if rec.Properties == nil {
		rec.Properties = garden.Properties{}
	}
	how(rec.Properties)
	if err := c.backend.records.put(rec); err != nil {
		return err
	}
	c.rec.Properties = rec.Properties
	return nil
}

// CurrentCPULimits are those that were asked for.
func (c *container) CurrentCPULimits() (garden.CPULimits, error) { return c.rec.Limits.CPU, nil }

// CurrentMemoryLimits are those that were asked for.
func (c *container) CurrentMemoryLimits() (garden.MemoryLimits, error) {
	return c.rec.Limits.Memory, nil
}

// What follows is what Concourse's backend lacks, or what clients must not rely on.

func (c *container) Info() (garden.ContainerInfo, error) {
	return garden.ContainerInfo{}, errNotImplemented
}
func (c *container) StreamIn(garden.StreamInSpec) error { return errNotImplemented }
func (c *container) StreamOut(garden.StreamOutSpec) (io.ReadCloser, error) {
	return nil, errNotImplemented
}
func (c *container) CurrentBandwidthLimits() (garden.BandwidthLimits, error) {
	return garden.BandwidthLimits{}, errNotImplemented
}
func (c *container) CurrentDiskLimits() (garden.DiskLimits, error) {
	return garden.DiskLimits{}, errNotImplemented
}
func (c *container) NetIn(_, _ uint32) (uint32, uint32, error)  { return 0, 0, errNotImplemented }
func (c *container) NetOut(garden.NetOutRule) error             { return errNotImplemented }
func (c *container) BulkNetOut([]garden.NetOutRule) error       { return errNotImplemented }
func (c *container) Metrics() (garden.Metrics, error)           { return garden.Metrics{}, errNotImplemented }
func (c *container) SetGraceTime(graceTime time.Duration) error { return errNotImplemented }

// Attach knows no process: who started one is the only one who hears of it.
func (c *container) Attach(id string, _ garden.ProcessIO) (garden.Process, error) {
	return nil, garden.ProcessNotFoundError{ProcessID: id}
}
