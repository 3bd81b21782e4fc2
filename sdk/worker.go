package sdk

import (
	"context"
	"io"
	"slices"
)

// MaxListed is how many volumes or containers of one installation a worker has at a time. A host gives up a longer list.
const MaxListed = 100_000

// Worker is one place where containers run, with one store of volumes. Each method is one call on the wire, flat and
// keyed by ids that the host chose. Its type may implement further abilities: [Resizer], [PeerStreamer], [FileReader].
//
// A volume, container or process that a call names and that is not there is NotFound of that kind, but destroying it is a success.
// Callbacks are never nil unless a method says so; emit may be called no times at all.
type Worker interface {
	// Status tells how the worker is, features and encodings without repetition. A server that is away is not an error: it is a Status with Health [Away] and a
	// Reason that names it. An error means that the plugin itself failed.
	Status(ctx context.Context) (Status, error)

	// CreateVolume makes an open volume. Idempotent by token (rule 1). After an error there may be a half-made volume, which
	// DestroyVolume removes and which is never listed as open. Cloning a volume that is not sealed is
	// FailedPrecondition with [ReasonNotSealed] unless the worker has [FeatureCloneLive].
	CreateVolume(ctx context.Context, spec VolumeSpec) error

	// SealVolume makes a volume read-only for ever. Idempotent. It may take as long as the content is big. While a stream comes in, it may
	// wait for that, be FailedPrecondition, or succeed; then the stream fails with [ReasonSealed] or has come whole. See rule 9.
	SealVolume(ctx context.Context, id VolumeID) error

	// ListVolumes emits every volume that the filter matches, in any order, with its labels. Filtering by
	// [LabelInstallation] is cheap, by anything else it need not be. Volumes that a plugin made for
	// its own use are left out. What lives through the whole call is listed exactly once.
	// There are at most [MaxListed] of an installation; a host gives up a longer list.
	ListVolumes(ctx context.Context, filter Filter, emit func(VolumeInfo) error) error

	// DestroyVolume removes a volume and its content. Idempotent; a volume that is not there is a success. The host never
	// destroys what is mounted or what a living clone descends from.
	DestroyVolume(ctx context.Context, id VolumeID) error

	// StreamIn unpacks the tar archive that r yields below a path of an open volume. It has read r to its end when it
	// returns nil: what follows the archive's end mark, two blocks of 512 zeros, is thrown away. A sparse file is always taken; without
	// [FeatureTarSparse] its holes may become zeros. Without [FeatureTarXattrs], extended attributes are left out or are Unsupported with that
	// feature; without [FeatureTarDevices], device nodes are Unsupported with that feature or Invalid with [ReasonArchive]. After any error the content is undefined. A sealed volume is FailedPrecondition with [ReasonSealed]; an
	// archive that is damaged or leaves the volume is Invalid with [ReasonArchive]; one that can never fit is Invalid with
	// [ReasonTooLarge], one that does not fit now is Exhausted. When it returns an error, a Read may still be blocked; its
	// result is thrown away.
	StreamIn(ctx context.Context, id VolumeID, in StreamIn, r io.Reader) error

	// StreamOut packs a path of a volume, open or sealed, as a tar archive into w. A path that is not there is NotFound of a file,
	// before anything is written; an encoding that the worker does not name is Invalid with [ReasonEncoding], here and in StreamIn.
	// An error of w comes back unchanged. Only nil means that w has the whole archive; after an error it has a part or nothing.
	StreamOut(ctx context.Context, id VolumeID, out StreamOut, w io.Writer) error

	// CreateContainer makes a container in which processes can start. Idempotent by token; it may take minutes (images,
	// queues) and tells of them through progress, which may be nil. After an error a half-made container is listed as
	// [ContainerCreating] or not at all; the host destroys it or calls again.
	CreateContainer(ctx context.Context, spec ContainerSpec, progress func(Progress)) error

	// ListContainers emits every container that the filter matches, as ListVolumes does.
	ListContainers(ctx context.Context, filter Filter, emit func(ContainerInfo) error) error

	// DestroyContainer kills what runs in the container and removes it and whatever the plugin made for it. Idempotent; a
	// container that is not there is a success.
	DestroyContainer(ctx context.Context, id ContainerID) error

	// StartProcess starts one command. It returns once the process is recorded as started. Idempotent by token: an id and
	// token that ran never runs again (rule 3); the call then succeeds whether the process still runs or not. A container that is
	// half made is FailedPrecondition with [ReasonCreating].
	StartProcess(ctx context.Context, container ContainerID, spec ProcessSpec) error

	// ListProcesses tells all processes of a container, ended ones too, from the container's own record, in any order. They are at
	// most [MaxProcesses]; none may be nil or an empty slice.
	ListProcesses(ctx context.Context, container ContainerID) ([]ProcessInfo, error)

	// FollowProcess delivers the journal of a process from a position on, takes its stdin, and ends after the exit was
	// delivered and the last position acknowledged, with nil; or when ctx ends, or a callback fails, or a newer follower comes. To
	// follow from a position acknowledges all before it. A position that is negative or beyond the journal's end is Invalid with
	// [ReasonSpec]. See [Follow] and rules 5 to 7.
	FollowProcess(ctx context.Context, container ContainerID, process ProcessID, from Position, follow Follow) error

	// SignalProcess sends a signal (rule 8). KILL is for all that descends from the leader, also where a process between has ended or made a
	// session of its own. After the leader's end and before the exit, KILL ends what it left, another signal reaches what is left in its
	// group, and with nothing left it succeeds. A signal outside [Signals] is Invalid with [ReasonSignal]. Not idempotent: after an error it
	// may have been sent.
	SignalProcess(ctx context.Context, container ContainerID, process ProcessID, signal Signal) error

	// Close frees what this handle holds. Containers and processes go on. Idempotent. Whoever closes waits for the other calls on
	// this handle first, and makes none afterwards.
	Close() error
}

// Health is a worker's condition.
type Health uint8

// The conditions of a worker.
const (
	HealthUnknown Health = iota
	Healthy
	Degraded // works in part; Reason says which
	Away     // takes no work; Reason says why
)

// String gives the word that the CLI shows.
func (h Health) String() string {
	switch h {
	case Healthy:
		return "healthy"
	case Degraded:
		return "degraded"
	case Away:
		return "away"
	}
	return "unknown"
}

// Status is the state of a worker at one moment.
type Status struct {
	Health Health
	Reason string // why it is not healthy, naming the server

	// ContainersAway says of a degraded worker that only its volumes can be reached: calls on containers and processes answer Unavailable, those
	// on volumes work. A host places nothing there meanwhile, and does not take the volumes for away. What needs both, as sealing a volume that a
	// container can write, is Unavailable, too.
	ContainersAway bool

	// ContainerIncarnation and VolumeIncarnation identify the two stores behind the worker (rule 4). Empty: unknown now.
	ContainerIncarnation string
	VolumeIncarnation    string

	Features  []Feature // what this worker can do beyond the required, in any order
	Capacity  Resources // what there is; zero fields are unlimited or unknown
	Used      Resources // what is taken; zero fields are nothing or unknown
	Encodings []string  // of tar streams, best first; [EncodingRaw] is always one, others are such as "gzip", "zstd"
	Zone      string    // workers in one zone can stream to each other; empty: none
}

// Has tells whether the worker named the feature.
func (s Status) Has(f Feature) bool { return slices.Contains(s.Features, f) }

// Resources are amounts. Zero means none asked, unlimited, or unknown, as the place says.
type Resources struct {
	CPUMillis   int64 // thousandths of a core
	MemoryBytes int64
	DiskBytes   int64
	PIDs        int64
	Containers  int64
	Volumes     int64
}

// Filter selects things in a list. All that is set must match; the zero Filter matches everything. A label without a value in the
// filter matches only things that have that label, with an empty value.
type Filter struct {
	ID     string            // that one thing
	Labels map[string]string // each label with exactly that value
}

// Match tells whether a thing with that id and those labels passes.
func (f Filter) Match(id string, labels map[string]string) bool {
	if f.ID != "" && f.ID != id {
		return false
	}
	for k, v := range f.Labels {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Progress tells what a long call is doing.
type Progress struct {
	Phase   string // one word, such as "queued", "pulling", "starting"
	Message string // in the runtime's own words
	Done    int64  // of Total, in Unit
	Total   int64  // zero: unknown
	Unit    string // "bytes", or what is counted
}
