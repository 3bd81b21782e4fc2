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
	// On is, of one that is not there yet, the worker that it would be on by then: it counts as little there as what is known of its size.
	On string
}

// Spec is what is asked of a worker. The zero value of a field asks nothing.
type Spec struct {
	Team     string // empty: only shared workers
	Platform string
	Runtime  string
	Tags     []string  // all must be on the worker; with none, tagged workers are not considered
	Features []string  // all must be on the worker
	Kind     Kind      // empty means Build
	Inputs   []Content // the worker will have a volume of each, beside the container's own
	Volumes  int       // how many volumes of its own the container will have

	// Resources are what the container needs to itself. A worker promises no more of them than it has.
	Resources Resources
	// ResourceType is a kind of image that lies on workers by name. A worker that names the types it has must have this one; one that
	// names none may have it.
	ResourceType string

	With    string            // the one worker that will do: that of a container to share with
	Exclude map[string]string // workers that will not do, and why
	// Exhausted are workers that had no room for it as they said themselves, and what they said: they count as full. One is asked again when
	// something on it was released, and all of them RetryIn after the wait began.
	Exhausted map[string]string
	RetryIn   time.Duration // zero: never

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
	s.Exhausted = maps.Clone(s.Exhausted)
	return s
}

// Resources are amounts of what a worker can run out of. Zero asks nothing, or is no limit.
type Resources struct {
	CPUMillis   int64 // thousandths of a core
	MemoryBytes int64
	DiskBytes   int64
	PIDs        int64
}

func (r Resources) plus(o Resources, n int64) Resources {
	return Resources{r.CPUMillis + n*o.CPUMillis, r.MemoryBytes + n*o.MemoryBytes, r.DiskBytes + n*o.DiskBytes, r.PIDs + n*o.PIDs}
}

// positive is r with no amount below nothing.
func (r Resources) positive() Resources {
	return Resources{max(r.CPUMillis, 0), max(r.MemoryBytes, 0), max(r.DiskBytes, 0), max(r.PIDs, 0)}
}

// only is r without the amounts that o asks nothing of.
func (r Resources) only(o Resources) Resources {
	keep := func(v, of int64) int64 {
		if of <= 0 {
			return 0
		}
		return v
	}
	return Resources{keep(r.CPUMillis, o.CPUMillis), keep(r.MemoryBytes, o.MemoryBytes), keep(r.DiskBytes, o.DiskBytes), keep(r.PIDs, o.PIDs)}
}

// beyond is r without the amounts that there are beside what is used of them.
func (r Resources) beyond(has, used Resources) Resources {
	keep := func(asks, has, used int64) int64 {
		if has > 0 && asks > has-used {
			return asks
		}
		return 0
	}
	return Resources{keep(r.CPUMillis, has.CPUMillis, used.CPUMillis), keep(r.MemoryBytes, has.MemoryBytes, used.MemoryBytes),
		keep(r.DiskBytes, has.DiskBytes, used.DiskBytes), keep(r.PIDs, has.PIDs, used.PIDs)}
}

// amount is one of the resources, with what a worker has of it, what of that is promised, and what is asked.
type amount struct {
	name            string
	has, used, asks int64
}

func (r Resources) amounts() [4]amount {
	return [4]amount{{name: "milli-CPUs", asks: r.CPUMillis}, {name: "bytes of memory", asks: r.MemoryBytes},
		{name: "bytes of disk", asks: r.DiskBytes}, {name: "pids", asks: r.PIDs}}
}

// over is the first resource of which used and asked together are more than there is.
func over(has, used, asks Resources) (amount, bool) {
	if asks == (Resources{}) {
		return amount{}, false
	}
	for i, a := range asks.amounts() {
		a.has, a.used = has.amounts()[i].asks, used.amounts()[i].asks
		if a.has > 0 && a.asks > 0 && a.asks > a.has-a.used {
			return a, true
		}
	}
	return amount{}, false
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
