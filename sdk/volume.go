package sdk

import (
	"math"
	"path"
	"strings"
)

// VolumeSpec describes a volume to make.
type VolumeSpec struct {
	ID     VolumeID
	Token  Token
	Labels map[string]string

	// At most one source is set; with none, the volume begins empty.
	Clone  VolumeID // copy-on-write copy of this sealed volume of the same worker
	Import string   // path on the worker that its operator allowed, of what the volume begins with a copy of, or Invalid with [ReasonPath]; needs [FeatureVolumeImport]

	// Owner of the volume's root directory, as numbers inside the container: 0 to 4294967294. It is set on a clone, too, and on nothing
	// below the root.
	UID, GID   int64
	Privileged bool // for privileged containers, where the runtime maps users; needs [FeaturePrivileged]
}

// Validate tells the first thing that is wrong with the spec itself, as Invalid with [ReasonSpec]. It knows nothing of features and of
// what exists.
func (s VolumeSpec) Validate() error {
	if err := CheckID(KindVolume, string(s.ID)); err != nil {
		return err
	}
	if err := CheckToken(s.Token); err != nil {
		return err
	}
	if err := CheckLabels(s.Labels); err != nil {
		return err
	}
	if s.Clone != "" && s.Import != "" {
		return NewInvalid(ReasonSpec, "volume %q: clone and import are both set; a volume has one source", s.ID)
	}
	if s.Clone != "" {
		if err := CheckID(KindVolume, string(s.Clone)); err != nil {
			return err
		}
	}
	if strings.Contains(s.Import, "\x00") {
		return NewInvalid(ReasonSpec, "volume %q: the path to import contains a NUL byte", s.ID)
	}
	// One more is -1 in 32 bits, which tells chown to change nothing.
	if min(s.UID, s.GID) < 0 || max(s.UID, s.GID) > math.MaxUint32-1 {
		return NewInvalid(ReasonSpec, "volume %q: owner %d:%d must be numbers from 0 to %d", s.ID, s.UID, s.GID, uint32(math.MaxUint32-1))
	}
	return nil
}

// VolumeState is where a volume stands.
type VolumeState uint8

// The states of a volume.
const (
	VolumeCreating VolumeState = iota + 1 // half made; only good for DestroyVolume or for CreateVolume with its token
	VolumeOpen
	VolumeSealed
)

// String gives the word that the CLI shows.
func (s VolumeState) String() string {
	switch s {
	case VolumeCreating:
		return "creating"
	case VolumeOpen:
		return "open"
	case VolumeSealed:
		return "sealed"
	}
	return "unknown"
}

// VolumeInfo is a listed volume.
type VolumeInfo struct {
	ID     VolumeID
	Token  Token
	Labels map[string]string
	State  VolumeState
	Parent VolumeID // what it was cloned from; empty: nothing
	Bytes  int64    // of content; negative: unknown
}

// EncodingRaw is a tar stream as it is.
const EncodingRaw = "raw"

// CheckPath is nil for a path inside a volume: relative, with ".." taken by the letter, and free of NUL bytes. Else it is Invalid with [ReasonPath]. Where links
// on the way lead only the worker sees.
func CheckPath(p string) error {
	switch clean := path.Clean(p); {
	case path.IsAbs(p):
		return NewInvalid(ReasonPath, "path %.255q is absolute; paths in a volume are relative to its root", p)
	case clean == "..", strings.HasPrefix(clean, "../"):
		return NewInvalid(ReasonPath, "path %.255q leads out of the volume", p)
	case strings.Contains(p, "\x00"):
		return NewInvalid(ReasonPath, "path %.255q contains a NUL byte", p)
	}
	return nil
}

// StreamIn says where and how an archive comes into a volume.
type StreamIn struct {
	// Path is a directory below which to unpack, relative, made where missing; empty: the volume's root. What is no directory, and a
	// symbolic link on the way or at its end, which is not followed, is Invalid with [ReasonPath].
	Path     string
	Encoding string // one of the worker's Encodings; empty: EncodingRaw
}

// StreamOut says what goes out of a volume, and how.
type StreamOut struct {
	Path     string // relative; a directory gives what is below it, all else one entry with its last name; empty: the volume's root
	Encoding string // one of the worker's Encodings; empty: EncodingRaw
}
