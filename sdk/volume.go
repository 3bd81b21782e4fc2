package sdk

// VolumeSpec describes a volume to make.
type VolumeSpec struct {
	ID     VolumeID
	Token  Token
	Labels map[string]string

	// At most one source is set; with none, the volume begins empty.
	Clone  VolumeID // copy-on-write copy of this sealed volume of the same worker
	Import string   // path on the worker that its operator allowed; needs [FeatureVolumeImport]

	// Owner of the volume's root directory, as numbers inside the container.
	UID, GID   int64
	Privileged bool // for privileged containers, where the runtime maps users; needs [FeaturePrivileged]
}

// Validate tells what is wrong with the spec itself, as Invalid with [ReasonSpec].
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
	if s.UID < 0 || s.GID < 0 {
		return NewInvalid(ReasonSpec, "volume %q: owner %d:%d is negative", s.ID, s.UID, s.GID)
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
	Parent VolumeID // what it was cloned from
	Bytes  int64    // of content; negative: unknown
}

// EncodingRaw is a tar stream as it is.
const EncodingRaw = "raw"

// StreamIn says where and how an archive comes into a volume.
type StreamIn struct {
	Path     string // directory below which to unpack, made where missing; empty: the volume's root
	Encoding string // one of the worker's Encodings; empty: EncodingRaw
}

// StreamOut says what goes out of a volume, and how.
type StreamOut struct {
	Path     string // a directory gives what is below it, a file gives one entry; empty: the volume's root
	Encoding string // one of the worker's Encodings; empty: EncodingRaw
}
