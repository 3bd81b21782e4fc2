//go:build linux

package engine

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Spec describes a container.
type Spec struct {
	ID string

	Rootfs         string // absolute; may be empty: mount points are made in it, and are left there
	ReadonlyRootfs bool
	Mounts         []Mount

	Args []string // of process 1, with which the container lives and dies
	Env  []string // of process 1; nil: a PATH
	Dir  string   // of process 1, made where missing; empty: "/"
	User User     // of process 1

	MemoryBytes int64 // swap included where the kernel counts it; zero: unlimited, as the next two
	PIDs        int64
	CPUMillis   int64 // thousandths of a core
	// DiskBytes bounds what is written to the root beside Mounts; Rootfs itself then stays as it is. What is written is kept in memory, and
	// counts towards MemoryBytes, too. Zero: as much as there is room in Rootfs.
	DiskBytes int64

	CPUShares uint64 // weight against others when the cores are busy, 2 to 262144; zero: 1024

	UIDs, GIDs []IDMap // both or none: the container has a user namespace, and Rootfs must belong to its root

	Privileged  bool // every capability that this process has, all devices, nothing of /proc and /sys hidden
	HostNetwork bool // else there is none but an empty loopback
	Hostname    string
	Annotations map[string]string // come back from State
}

// User is a user of a container, by numbers.
type User struct {
	UID, GID uint32
	Groups   []uint32 // further ones
}

// Mount binds a directory or file of the machine into a container, with what is mounted below it.
type Mount struct {
	Source   string // absolute
	Path     string // absolute and clean; one may lie below another. Missing in a source that is mounted read-only, it shows all the same
	ReadOnly bool
}

// IDMap maps ids of a container to those of the machine.
type IDMap struct{ Container, Host, Size uint32 }

func (s Spec) check() error {
	if err := checkID(s.ID); err != nil {
		return err
	}
	if !filepath.IsAbs(s.Rootfs) {
		return fmt.Errorf("container %q: rootfs %q is not absolute", s.ID, s.Rootfs)
	}
	if len(s.Args) == 0 {
		return fmt.Errorf("container %q: process 1 has no command", s.ID)
	}
	if (len(s.UIDs) == 0) != (len(s.GIDs) == 0) {
		return fmt.Errorf("container %q: a user namespace needs users and groups mapped", s.ID)
	}
	for _, m := range s.Mounts {
		if !filepath.IsAbs(m.Source) || !filepath.IsAbs(m.Path) || filepath.Clean(m.Path) != m.Path || m.Path == "/" {
			return fmt.Errorf("container %q: mount of %q at %q: both must be absolute, the latter clean and not \"/\"", s.ID, m.Source, m.Path)
		}
	}
	return nil
}

// defaultPath is what a command gets that has no environment.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// oci is the bundle's config.json.
func (e *Engine) oci(s Spec) (*specs.Spec, error) {
	caps, err := capabilities(s.Privileged)
	if err != nil {
		return nil, err
	}
	binds, err := e.binds(s)
	if err != nil {
		return nil, err
	}
	env := s.Env
	if env == nil {
		env = []string{defaultPath}
	}
	namespaces := []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace}}
	if !s.HostNetwork {
		namespaces = append(namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace})
	}
	if len(s.UIDs) > 0 {
		namespaces = append(namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
	}
	if onlyVersion2() {
		namespaces = append(namespaces, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	config := &specs.Spec{
		Version:     "1.0.2",
		Root:        &specs.Root{Path: s.Rootfs, Readonly: s.ReadonlyRootfs},
		Hostname:    cmp.Or(s.Hostname, s.ID),
		Annotations: s.Annotations,
		Process: &specs.Process{
			Args: s.Args, Env: env, Cwd: cmp.Or(s.Dir, "/"), User: s.User.oci(), Capabilities: caps,
		},
		Mounts: append(systemMounts(s), binds...),
		Linux: &specs.Linux{
			CgroupsPath: e.cgroup(s.ID),
			Namespaces:  namespaces,
			UIDMappings: mappings(s.UIDs),
			GIDMappings: mappings(s.GIDs),
			Resources:   resources(s),
		},
	}
	if !s.Privileged {
		config.Linux.MaskedPaths = []string{
			"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
			"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
		}
		config.Linux.ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	}
	return config, nil
}

func (u User) oci() specs.User { return specs.User{UID: u.UID, GID: u.GID, AdditionalGids: u.Groups} }

func mappings(maps []IDMap) []specs.LinuxIDMapping {
	var all []specs.LinuxIDMapping
	for _, m := range maps {
		all = append(all, specs.LinuxIDMapping{ContainerID: m.Container, HostID: m.Host, Size: m.Size})
	}
	return all
}

func resources(s Spec) *specs.LinuxResources {
	r := &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: s.Privileged, Access: "rwm"}}} // runc allows the usual ones
	if s.MemoryBytes > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &s.MemoryBytes}
		if countsSwap() {
			r.Memory.Swap = &s.MemoryBytes
		}
	}
	if s.PIDs > 0 {
		r.Pids = &specs.LinuxPids{Limit: s.PIDs}
	}
	if s.CPUMillis > 0 {
		period := uint64(100_000)
		quota := max(s.CPUMillis*int64(period)/1000, 1000) // the kernel takes no less than a millisecond
		r.CPU = &specs.LinuxCPU{Period: &period, Quota: &quota}
	}
	if s.CPUShares > 0 {
		if r.CPU == nil {
			r.CPU = &specs.LinuxCPU{}
		}
		r.CPU.Shares = &s.CPUShares
	}
	return r
}

// systemMounts are what every program may expect. Runc makes the device nodes and links in /dev.
func systemMounts(s Spec) []specs.Mount {
	access := "ro"
	if s.Privileged {
		access = "rw"
	}
	sys := specs.Mount{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", access}}
	if len(s.UIDs) > 0 && s.HostNetwork { // who does not own the network may not mount a sysfs of it
		sys = specs.Mount{Destination: "/sys", Type: "bind", Source: "/sys", Options: []string{"rbind", "nosuid", "noexec", "nodev", access}}
	}
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		sys,
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", access}},
	}
}

// binds puts outer mounts before inner ones.
func (e *Engine) binds(s Spec) ([]specs.Mount, error) {
	mounts := slices.SortedStableFunc(slices.Values(s.Mounts), func(a, b Mount) int {
		return cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/"))
	})
	var all []specs.Mount
	for i, m := range mounts {
		access := "rw"
		if m.ReadOnly {
			access = "ro"
		}
		points, err := missingPoints(m, mounts)
		if err != nil {
			return nil, err
		}
		if m.ReadOnly && len(points) > 0 {
			scaffold := filepath.Join(e.bundle(s.ID), "scaffold", fmt.Sprint(i))
			for _, p := range points {
				if err := os.MkdirAll(filepath.Join(scaffold, p), 0o755); err != nil {
					return nil, err
				}
			}
			if strings.ContainsAny(m.Source, ":,\\") {
				return nil, fmt.Errorf("container %q: %q cannot be part of an overlay because of its name", s.ID, m.Source)
			}
			all = append(all, specs.Mount{Destination: m.Path, Type: "overlay", Source: "overlay", Options: []string{"ro", "lowerdir=" + m.Source + ":" + scaffold}})
			continue
		}
		all = append(all, specs.Mount{Destination: m.Path, Type: "bind", Source: m.Source, Options: []string{"rbind", access}})
	}
	return all, nil
}

// missingPoints tells which mounts below a mount have no directory in its source. What is mounted in between hides the source.
func missingPoints(outer Mount, mounts []Mount) ([]string, error) {
	var points []string
	var root *os.Root
	for _, m := range mounts {
		rel, below := strings.CutPrefix(m.Path, outer.Path+"/")
		if !below || slices.ContainsFunc(mounts, func(between Mount) bool {
			return strings.HasPrefix(between.Path, outer.Path+"/") && strings.HasPrefix(m.Path, between.Path+"/")
		}) {
			continue
		}
		if root == nil {
			var err error
			if root, err = os.OpenRoot(outer.Source); err != nil {
				return nil, err
			}
			defer root.Close()
		}
		if _, err := root.Stat(rel); err != nil {
			points = append(points, rel)
		}
	}
	return points, nil
}
