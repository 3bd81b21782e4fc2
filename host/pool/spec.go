package pool

import (
	"maps"
	"slices"
	"time"
)

// Kind selects the chain of strategies, and what a lease counts as.
type Kind string

const (
	Build   Kind = "build"    // has inputs: a task or a put
	NoInput Kind = "no-input" // makes something out of nothing: a get
	Check   Kind = "check"    // small, frequent, nobody waits for it
)

// Content is something a spec wants on its worker.
type Content struct {
	Key   string // of the artifact or cache
	Bytes int64  // its size where the index has none; 0 if unknown
}

// Spec is what is asked of a worker. The zero value of a field asks nothing.
type Spec struct {
	Team     string // empty: only shared workers
	Platform string
	Runtime  string
	Tags     []string // all must be on the worker; with none, tagged workers are not considered
	Features []string // all must be on the worker
	Kind     Kind     // empty means Build
	Inputs   []Content
	Volumes  int               // how many volumes the container will claim on the worker
	With     string            // the one worker that will do: that of a container to share with
	Exclude  map[string]string // workers that will not do, and why

	// Priority orders the queue before anything else, the highest first.
	Priority int
	// WaitLimit bounds the time in the queue. Zero means Options.WaitLimit;
	// a negative one means not to wait at all.
	WaitLimit time.Duration
}

func (s Spec) clone() Spec {
	s.Tags = slices.Clone(s.Tags)
	s.Features = slices.Clone(s.Features)
	s.Inputs = slices.Clone(s.Inputs)
	s.Exclude = maps.Clone(s.Exclude)
	return s
}

// Score is what one strategy thinks of one worker: the higher, the better.
type Score struct {
	Strategy Strategy
	Value    int64
}

// Choice is a worker for a spec.
type Choice struct {
	Worker string
	Scores []Score // in the order of the chain; nil if Held
	Held   bool    // the owner had a lease there already, so nothing was weighed
}
