//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"code.cloudfoundry.org/garden"
	"code.cloudfoundry.org/lager/v3"
	"github.com/slipway-run/slipway/plugins/runc/engine"
	"golang.org/x/sys/unix"
)

// callLimit bounds one call, for a Garden server's calls have no contexts of their own.
const callLimit = 2 * time.Minute

// errNotImplemented is the answer to all that Concourse's containerd backend lacks.
var errNotImplemented = errors.New("not implemented")

// backend is the server's set of containers.
type backend struct {
	options
	log     lager.Logger
	engine  *engine.Engine
	records records
	lock    *os.File

	mu         sync.Mutex
	containers map[string]*container
	busy       map[string]bool // handles that are being made or destroyed
}

// open takes over a directory and the containers that live there. What was half made or half destroyed goes.
func open(ctx context.Context, o options, log lager.Logger) (*backend, error) {
	b := &backend{
		options: o, log: log, records: records{dir: filepath.Join(o.state, "records")},
		containers: make(map[string]*container), busy: make(map[string]bool),
	}
	if err := os.MkdirAll(o.state, 0o711); err != nil { // a container's own root passes through
		return nil, err
	}
	var err error
	if b.lock, err = os.Open(o.state); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(b.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("state directory %s: another server uses it: %w", o.state, err), b.close())
	}
	if err := os.MkdirAll(b.records.dir, 0o700); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.engine, err = engine.New(filepath.Join(o.state, "engine"), engine.Options{Runc: o.runc}); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if err := b.adopt(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// close gives the directory back. Containers stay.
func (b *backend) close() error { return b.lock.Close() }

// adopt finds the containers of earlier servers. Each had its record first, and loses it last.
func (b *backend) adopt(ctx context.Context) error {
	recs, err := b.records.all()
	if err != nil {
		return err
	}
	forgets, err := b.forgets()
	if err != nil {
		return err
	}
	for _, rec := range recs {
		if forgets {
			rec.Properties = nil
		}
		info, err := b.engine.State(ctx, rec.Handle)
		if err == nil && info.Status != engine.Created {
			b.containers[rec.Handle] = &container{backend: b, rec: rec}
			continue
		}
		b.log.Info("clearing-away-half-a-container", lager.Data{"handle": rec.Handle})
		if err := b.engine.Delete(ctx, rec.Handle); err != nil {
			return fmt.Errorf("container %q of an earlier server: %w", rec.Handle, err)
		}
		if err := b.records.remove(rec.Handle); err != nil {
			return err
		}
	}
	b.log.Info("adopted", lager.Data{"containers": len(b.containers)})
	return nil
}

// ordered is the name of a file that says of the last server that it was stopped in order.
const ordered = "stopped-in-order"

// inOrder leaves word that the server was stopped in order.
func (b *backend) inOrder() error { return os.WriteFile(filepath.Join(b.state, ordered), nil, 0o600) }

// forgets tells whether properties are lost, since an earlier server was killed.
func (b *backend) forgets() (bool, error) {
	err := os.Remove(filepath.Join(b.state, ordered))
	if errors.Is(err, fs.ErrNotExist) {
		return b.guardian, nil
	}
	return false, err
}

// Start has nothing to do: open did it all.
func (b *backend) Start() error { return nil }

// Stop leaves the containers.
func (b *backend) Stop() error { return nil }

// GraceTime is zero, whatever was asked for: nothing expires.
func (b *backend) GraceTime(garden.Container) time.Duration { return 0 }

// Ping tells that the server is there.
func (b *backend) Ping() error { return nil }

// Capacity is one of those that Concourse's backend lacks.
func (b *backend) Capacity() (garden.Capacity, error) { return garden.Capacity{}, errNotImplemented }

// BulkMetrics is another.
func (b *backend) BulkMetrics([]string) (map[string]garden.ContainerMetricsEntry, error) {
	return nil, errNotImplemented
}

// BulkInfo tells state and properties, and nothing else.
func (b *backend) BulkInfo(handles []string) (map[string]garden.ContainerInfoEntry, error) {
	if b.concourse {
		return nil, errNotImplemented
	}
	all := make(map[string]garden.ContainerInfoEntry)
	for _, h := range handles {
		c, err := b.lookup(h)
		if err != nil {
			all[h] = garden.ContainerInfoEntry{Err: &garden.Error{Err: err}}
			continue
		}
		info, err := c.bulkInfo()
		if err != nil {
			all[h] = garden.ContainerInfoEntry{Err: &garden.Error{Err: err}}
			continue
		}
		all[h] = garden.ContainerInfoEntry{Info: info}
	}
	return all, nil
}

// Lookup finds a container that is there whole.
func (b *backend) Lookup(handle string) (garden.Container, error) {
	c, err := b.lookup(handle)
	if err != nil {
		return nil, err // and not a nil *container, which would be no nil interface
	}
	return c, nil
}

func (b *backend) lookup(handle string) (*container, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.containers[handle]; ok {
		return c, nil
	}
	return nil, b.missing(handle)
}

// missing says that there is no such container: with a type that clients can tell, as guardian does, or without.
func (b *backend) missing(handle string) error {
	if b.concourse {
		return errors.New("get container: not found")
	}
	return garden.ContainerNotFoundError{Handle: handle}
}

// Containers gives those that have all of the properties, by handle. It takes no other names and values than Concourse's containerd backend, which makes a filter of
// them that is then parsed.
func (b *backend) Containers(wanted garden.Properties) ([]garden.Container, error) {
	for name, value := range wanted {
		if !plain(name) || !plain(value) {
			return nil, fmt.Errorf("parse filter labels.%s.0==%s: what it is of is no name", name, value)
		}
	}
	b.mu.Lock()
	all := make([]*container, 0, len(b.containers))
	for _, c := range b.containers {
		all = append(all, c)
	}
	b.mu.Unlock()
	slices.SortFunc(all, func(x, y *container) int { return strings.Compare(x.rec.Handle, y.rec.Handle) })
	var some []garden.Container
	for _, c := range all {
		if c.has(wanted) && c.listed() {
			some = append(some, c)
		}
	}
	return some, nil
}

func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// Destroy kills what runs in a container and takes it away. After an error it is there still.
func (b *backend) Destroy(handle string) error {
	b.mu.Lock()
	c, ok := b.containers[handle]
	if !ok {
		b.mu.Unlock()
		return b.missing(handle)
	}
	if b.busy[handle] {
		b.mu.Unlock()
		return fmt.Errorf("container %q is being destroyed", handle)
	}
	b.busy[handle] = true
	b.mu.Unlock()
	err := b.destroy(c)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.busy, handle)
	if err == nil {
		delete(b.containers, handle)
	}
	return err
}

func (b *backend) destroy(c *container) error {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if err := b.engine.Delete(ctx, c.rec.Handle); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true // who sets a property now must not write the record again
	return b.records.remove(c.rec.Handle)
}
