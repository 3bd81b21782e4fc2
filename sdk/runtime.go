package sdk

import "context"

// Runtime is what a plugin offers: workers that may come and go. One plugin process serves every worker block that is
// configured on it.
type Runtime interface {
	// Workers reports the workers until ctx ends. It emits one [WorkerSnapshot] first, at once, then [WorkerUpsert] and
	// [WorkerRemove] as things change. A block b yields one worker named b, or any number named b/<node>. Nothing is dialled
	// before it is needed: a server that is away is a worker whose Status says so. While it is not known which nodes there are, the block itself is
	// told, as a worker that is away: nodes that a snapshot leaves out are gone, but for those of such a block. An error from emit ends the call and
	// is returned unchanged; otherwise Workers returns ctx's error, or the reason why no more events can come, after which
	// the host calls it again. There are at most [MaxWorkers]. A host goes on without workers that it has not heard of 15 s after the plugin's
	// start, and takes them when they come.
	Workers(ctx context.Context, emit func(WorkerEvent) error) error

	// Worker gives the worker of that name. It is local: no call leaves the plugin. A name that Workers never
	// reported is NotFound of a [KindWorker]: at once, or, where the plugin is another process, from the worker's first call. The
	// host closes what it got.
	Worker(name string) (Worker, error)
}

// MaxWorkers is how many workers a plugin may have at a time. A host takes no more.
const MaxWorkers = 10_000

// WorkerInfo describes a worker to placement.
type WorkerInfo struct {
	Name       string            // the worker block's name, or name/<node>
	Platform   string            // such as "linux" or "memory"; the block's platform overrides it
	Team       string            // empty: shared by all; the block's team overrides it
	Tags       []string          // the block's tags are added; may be nil
	Attributes map[string]string // for display and explanation only; may be nil
	Ephemeral  bool              // forgotten by the host once away for long
}

// WorkerEventKind says what a [WorkerEvent] means.
type WorkerEventKind uint8

// The kinds of worker events.
const (
	WorkerSnapshot WorkerEventKind = iota + 1 // Workers holds all there are
	WorkerUpsert                              // Workers holds one that is new or changed
	WorkerRemove                              // Workers holds one that is gone; only its Name counts
)

// WorkerEvent is one change of the set of workers.
type WorkerEvent struct {
	Kind    WorkerEventKind
	Workers []WorkerInfo
}
