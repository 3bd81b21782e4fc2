//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"code.cloudfoundry.org/garden"
	"github.com/slipway-run/slipway/plugins/runc/engine"
)

// initPath is where process 1 is in a container: on the tmpfs that is mounted there anyway, so that the root needs no place for it.
const initPath = "/dev/garden-init"

// mappedRoot is the user who is root in an unprivileged container, as guardian and Concourse have it.
const mappedRoot = math.MaxUint32 - 1

const (
	handleMax   = 100
	hostnameMax = 63
)

// Create makes a container. After an error nothing of it is left, but for mount points that were made in its root; with -like-concourse one that could not be started
// is listed on, and has to be destroyed.
func (b *backend) Create(spec garden.ContainerSpec) (garden.Container, error) {
	if spec.Handle == "" {
		spec.Handle = strings.ToLower(rand.Text())
	}
	if err := checkHandle(spec.Handle); err != nil {
		return nil, err
	}
	e, err := b.spec(spec)
	if err != nil {
		return nil, err
	}
	if err := b.reserve(spec.Handle); err != nil {
		return nil, err
	}
	rec := record{Handle: spec.Handle, RootFS: e.Rootfs, Env: spec.Env, Limits: spec.Limits, Properties: maps.Clone(spec.Properties)}
	err = b.make(rec, e)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.busy, spec.Handle)
	if err != nil && !b.concourse {
		return nil, err
	}
	c := &container{backend: b, rec: rec}
	b.containers[spec.Handle] = c
	if err != nil {
		return nil, err
	}
	return c, nil
}

// checkHandle holds handles to what may name files and control groups. Garden itself has no rule.
func checkHandle(handle string) error {
	const letters, more = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "_.-"
	if len(handle) <= handleMax && strings.ContainsRune(letters, rune(handle[0])) && !strings.ContainsFunc(handle, func(r rune) bool { return !strings.ContainsRune(letters+more, r) }) {
		return nil
	}
	return fmt.Errorf("handle %q must be at most %d letters, digits and any of %q, the first a letter or digit", handle, handleMax, more)
}

// reserve takes a handle for the one who makes it.
func (b *backend) reserve(handle string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.containers[handle] != nil || b.busy[handle] {
		return fmt.Errorf("handle %q already in use", handle)
	}
	being := 0 // those that are destroyed count already
	for h := range b.busy {
		if b.containers[h] == nil {
			being++
		}
	}
	if b.maxContainers > 0 && len(b.containers)+being >= b.maxContainers {
		return fmt.Errorf("max containers reached: there are %d", b.maxContainers)
	}
	b.busy[handle] = true
	return nil
}

// make puts the record down first, so that who comes after a crash knows what to look for.
func (b *backend) make(rec record, e engine.Spec) error {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if err := b.records.put(rec); err != nil {
		return err
	}
	err := b.engine.Create(ctx, e)
	if err != nil && !b.concourse {
		err = errors.Join(err, b.records.remove(rec.Handle))
	}
	return err
}

// spec says in the engine's words what was asked for.
func (b *backend) spec(spec garden.ContainerSpec) (engine.Spec, error) {
	rootfs, err := rawRoot(spec)
	if err != nil {
		return engine.Spec{}, err
	}
	e := engine.Spec{
		ID: spec.Handle, Rootfs: rootfs, Args: []string{initPath}, Hostname: spec.Handle[:min(len(spec.Handle), hostnameMax)],
		Privileged: spec.Privileged, HostNetwork: len(spec.NetOut) > 0,
	}
	if e.Mounts, err = mounts(spec.BindMounts); err != nil {
		return engine.Spec{}, err
	}
	if b.strictMounts {
		if err := pointsThere(rootfs, e.Mounts); err != nil {
			return engine.Spec{}, err
		}
	}
	e.Mounts = append(e.Mounts, engine.Mount{Source: b.init, Path: initPath, ReadOnly: true})
	if !spec.Privileged && !b.noUserNamespaces {
		e.UIDs = []engine.IDMap{{Container: 0, Host: mappedRoot, Size: 1}, {Container: 1, Host: 1, Size: mappedRoot - 1}}
		e.GIDs = slices.Clone(e.UIDs)
	}
	if !b.noLimits {
		e.MemoryBytes = int64(min(spec.Limits.Memory.LimitInBytes, math.MaxInt64))
		e.PIDs = int64(min(spec.Limits.Pid.Max, math.MaxInt64))
		e.CPUShares = spec.Limits.CPU.Weight
		if e.CPUShares == 0 {
			e.CPUShares = spec.Limits.CPU.LimitInShares //lint:ignore SA1019 it is what Concourse sends
		}
	}
	return e, nil
}

func rawRoot(spec garden.ContainerSpec) (string, error) {
	uri := spec.Image.URI
	if uri == "" {
		uri = spec.RootFSPath
	}
	if uri == "" {
		return "", errors.New("rootfs must not be empty: name one as raw:///directory")
	}
	dir, ok := strings.CutPrefix(uri, "raw://")
	if !ok || !filepath.IsAbs(dir) {
		return "", fmt.Errorf("rootfs %q is not of the kind raw:///directory, and there is no other here", uri)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("rootfs: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("rootfs %q is not a directory", dir)
	}
	return filepath.Clean(dir), nil
}

func mounts(binds []garden.BindMount) ([]engine.Mount, error) {
	var all []engine.Mount
	for _, m := range binds {
		if m.Origin != garden.BindMountOriginHost {
			return nil, fmt.Errorf("bind mount at %q: only what is on the host can be mounted", m.DstPath)
		}
		if _, err := os.Stat(m.SrcPath); err != nil {
			return nil, fmt.Errorf("bind mount at %q: %w", m.DstPath, err)
		}
		all = append(all, engine.Mount{Source: m.SrcPath, Path: path.Clean("/" + m.DstPath), ReadOnly: m.Mode == garden.BindMountModeRO})
	}
	return all, nil
}

// serverPoints are where guardian and Concourse's backend mount what is theirs: the kernel's file systems, their own init in /tmp, and files of names in /etc.
func serverPoints() []string { return []string{"/proc", "/sys", "/dev", "/tmp", "/etc"} }

// pointsThere looks for each mount point in what will be there before: another mount, or the root.
func pointsThere(rootfs string, all []engine.Mount) error {
	own, err := openRoot(rootfs)
	if err != nil {
		return err
	}
	defer own.close()
	for _, p := range serverPoints() {
		if err := own.stat(p); err != nil {
			return fmt.Errorf("mount point %q is not in the root: %w", p, err)
		}
	}
	for _, m := range all {
		outer, rel := rootfs, m.Path
		depth := 0
		for _, o := range all {
			below, ok := strings.CutPrefix(m.Path, o.Path+"/")
			if ok && len(o.Path) > depth {
				outer, rel, depth = o.Source, below, len(o.Path)
			}
		}
		root, err := openRoot(outer)
		if err != nil {
			return err
		}
		err = root.stat(rel)
		root.close()
		if err != nil {
			return fmt.Errorf("mount point %q is not in the root: %w", m.Path, err)
		}
	}
	return nil
}
