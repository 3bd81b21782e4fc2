package sdk

import (
	"path"
	"strings"
	"unicode/utf8"
)

// ContainerSpec describes a container to make. It carries no environment: that comes with each process (rule 13).
type ContainerSpec struct {
	ID     ContainerID
	Token  Token
	Labels map[string]string

	Image  Image
	Mounts []Mount
	Dir    string // absolute; where relative things of processes begin, made where missing, Invalid with [ReasonPath] if it cannot be; empty: "/"

	// Limits bound the container. Zero fields: unlimited; each other one needs its limits feature; one of Containers or Volumes is Invalid. CPUMillis is a bound
	// where the runtime has one, and else a share: beside a container with twice as much it gets half of what that gets, when both want more than there is.
	Limits     Resources
	Privileged bool // needs [FeaturePrivileged]
	Hermetic   bool // no network; needs [FeatureNetworkNone]
}

// Image is the container's root. The zero Image is whatever the platform has without one.
type Image struct {
	Volume VolumeID // sealed, its rootfs/ is the root; needs [FeatureImageVolume]
	Ref    string   // the runtime's own reference; needs [FeatureImageRef]
}

// Mount puts a volume into a container.
type Mount struct {
	Volume   VolumeID
	Path     string // absolute, clean and not "/"; made where missing, Invalid with [ReasonPath] if it cannot be; no two mounts have the same, but one may lie below another
	ReadOnly bool   // sealed volumes can only be mounted so
}

// Validate tells the first thing that is wrong with the spec itself, as Invalid: with [ReasonPath] for Dir and the paths of mounts,
// else with [ReasonSpec]. It knows nothing of features and of what exists.
func (s ContainerSpec) Validate() error {
	if err := CheckID(KindContainer, string(s.ID)); err != nil {
		return err
	}
	if err := CheckToken(s.Token); err != nil {
		return err
	}
	if err := CheckLabels(s.Labels); err != nil {
		return err
	}
	if s.Image.Volume != "" && s.Image.Ref != "" {
		return NewInvalid(ReasonSpec, "container %q: image has a volume and a reference; give one", s.ID)
	}
	if s.Image.Volume != "" {
		if err := CheckID(KindVolume, string(s.Image.Volume)); err != nil {
			return err
		}
	}
	if !plainText(s.Image.Ref) {
		return NewInvalid(ReasonSpec, "container %q: the image's reference is not text", s.ID)
	}
	if s.Dir != "" && !cleanAbsolute(s.Dir) {
		return NewInvalid(ReasonPath, "container %q: dir %q is not a clean absolute path", s.ID, s.Dir)
	}
	l := s.Limits
	if l.CPUMillis < 0 || l.MemoryBytes < 0 || l.DiskBytes < 0 || l.PIDs < 0 {
		return NewInvalid(ReasonSpec, "container %q: a limit is negative; zero means unlimited", s.ID)
	}
	if l.Containers != 0 || l.Volumes != 0 {
		return NewInvalid(ReasonSpec, "container %q: a container has no limit of containers or volumes", s.ID)
	}
	seen := make(map[string]bool, len(s.Mounts))
	for _, m := range s.Mounts {
		if err := CheckID(KindVolume, string(m.Volume)); err != nil {
			return err
		}
		if !cleanAbsolute(m.Path) || m.Path == "/" {
			return NewInvalid(ReasonPath, "container %q: mount path %q is not a clean absolute path below /", s.ID, m.Path)
		}
		if seen[m.Path] {
			return NewInvalid(ReasonPath, "container %q: two mounts at %q", s.ID, m.Path)
		}
		seen[m.Path] = true
	}
	return nil
}

func cleanAbsolute(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.Contains(p, "\x00")
}

// plainText tells whether s can be a string of a C library and of the wire.
func plainText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// ContainerState is where a container stands.
type ContainerState uint8

// The states of a container.
const (
	ContainerCreating ContainerState = iota + 1 // half made
	ContainerReady                              // takes processes
	ContainerGone                               // its record is there, what ran in it is not; only good for DestroyContainer
)

// String gives the word that the CLI shows.
func (s ContainerState) String() string {
	switch s {
	case ContainerCreating:
		return "creating"
	case ContainerReady:
		return "ready"
	case ContainerGone:
		return "gone"
	}
	return "unknown"
}

// ContainerInfo is a listed container.
type ContainerInfo struct {
	ID     ContainerID
	Token  Token
	Labels map[string]string
	State  ContainerState
	Reason string // why it is gone, in the runtime's own words; else empty
}
