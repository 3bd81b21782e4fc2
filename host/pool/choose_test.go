package pool_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/host/pool"
)

func placer(t testing.TB, p pool.Policy, o pool.Options) *pool.Placer {
	t.Helper()
	if o.Rand == nil {
		o.Rand = rand.NewPCG(1, 2)
	}
	pl, err := pool.NewPlacer(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

func index(ws ...pool.Worker) *pool.Index {
	x := pool.NewIndex()
	for _, w := range ws {
		x.Upsert(w)
	}
	return x
}

func running(name string, with ...func(*pool.Worker)) pool.Worker {
	w := pool.Worker{Name: name, Runtime: "memory", Platform: "linux", State: pool.Running}
	for _, f := range with {
		f(&w)
	}
	return w
}

func lease(t testing.TB, x *pool.Index, owner, worker string, k pool.Kind) {
	t.Helper()
	if err := x.Acquire(pool.Lease{Owner: owner, Worker: worker, Kind: k}); err != nil {
		t.Fatal(err)
	}
}

func TestConstraints(t *testing.T) {
	tests := []struct {
		name   string
		worker pool.Worker
		spec   pool.Spec
		want   pool.Reason
		detail string
	}{
		{"asks nothing", running("w"), pool.Spec{}, pool.OK, "shared worker"},
		{"all asked is there", running("w", func(w *pool.Worker) { w.Team, w.Tags, w.Features = "a", []string{"gpu", "big"}, []string{"tty"} }),
			pool.Spec{Team: "a", Platform: "linux", Runtime: "memory", Tags: []string{"big"}, Features: []string{"tty"}, With: "w"}, pool.OK, "own worker of the team"},
		{"with another", running("w"), pool.Spec{With: "v"}, pool.NotWith, `worker "v" is asked for`},
		{"excluded", running("w"), pool.Spec{Exclude: map[string]string{"w": "failed twice"}}, pool.Excluded, "failed twice"},
		{"another excluded", running("w"), pool.Spec{Exclude: map[string]string{"v": "failed twice"}}, pool.OK, "shared worker"},
		{"runtime", running("w"), pool.Spec{Runtime: "garden"}, pool.OtherRuntime, `"memory", not "garden"`},
		{"platform", running("w"), pool.Spec{Platform: "windows"}, pool.OtherPlatform, `"linux", not "windows"`},
		{"another team's worker", running("w", func(w *pool.Worker) { w.Team = "a" }), pool.Spec{Team: "b"}, pool.OtherTeam, `team "a" only`},
		{"a team's worker, no team", running("w", func(w *pool.Worker) { w.Team = "a" }), pool.Spec{}, pool.OtherTeam, `team "a" only`},
		{"shared worker, any team", running("w"), pool.Spec{Team: "b"}, pool.OK, "shared worker"},
		{"tagged takes no untagged work", running("w", func(w *pool.Worker) { w.Tags = []string{"gpu"} }), pool.Spec{}, pool.TaggedOnly, "tags gpu"},
		{"one of two tags", running("w", func(w *pool.Worker) { w.Tags = []string{"gpu"} }), pool.Spec{Tags: []string{"gpu", "big"}}, pool.MissingTag, "lacks big"},
		{"tag of an untagged worker", running("w"), pool.Spec{Tags: []string{"gpu"}}, pool.MissingTag, "lacks gpu"},
		{"feature", running("w", func(w *pool.Worker) { w.Features = []string{"tty"} }), pool.Spec{Features: []string{"tty", "users"}}, pool.NoFeature, "lacks users"},
		{"too big", running("w", func(w *pool.Worker) { w.Limits.Volumes = 3 }), pool.Spec{Volumes: 4}, pool.TooBig, "4 volumes wanted, 3 allowed"},
		{"too big with its inputs", running("w", func(w *pool.Worker) { w.Limits.Volumes = 3 }), pool.Spec{Volumes: 2, Inputs: []pool.Content{{Key: "i"}, {Key: "j"}, {Key: "i"}}},
			pool.TooBig, "4 volumes (2 of its own, 2 for its inputs) wanted, 3 allowed"},
		{"as big as allowed", running("w", func(w *pool.Worker) { w.Limits.Volumes = 3 }), pool.Spec{Volumes: 3}, pool.OK, "shared worker"},
		{"stalled", running("w", func(w *pool.Worker) { w.State, w.Reason = pool.Stalled, "no status for 30 s" }), pool.Spec{}, pool.NotRunning, "stalled, no status for 30 s"},
		{"cordoned, for what goes on there", running("w", func(w *pool.Worker) { w.State = pool.Cordoned }), pool.Spec{With: "w"}, pool.OK, "shared worker"},
		{"cordoned", running("w", func(w *pool.Worker) { w.State = pool.Cordoned }), pool.Spec{}, pool.NotRunning, "cordoned"},
		{"landing", running("w", func(w *pool.Worker) { w.State = pool.Landing }), pool.Spec{}, pool.NotRunning, "landing"},
		{"landed", running("w", func(w *pool.Worker) { w.State = pool.Landed }), pool.Spec{}, pool.NotRunning, "landed"},
		{"retiring", running("w", func(w *pool.Worker) { w.State = pool.Retiring }), pool.Spec{}, pool.NotRunning, "retiring"},
		{"retired", running("w", func(w *pool.Worker) { w.State = pool.Retired }), pool.Spec{}, pool.NotRunning, "retired"},
		{"resource type", running("w", func(w *pool.Worker) { w.ResourceTypes = []string{"git", "time"} }), pool.Spec{ResourceType: "s3"}, pool.NoType, `has git, time, not "s3"`},
		{"resource type that is there", running("w", func(w *pool.Worker) { w.ResourceTypes = []string{"git"} }), pool.Spec{ResourceType: "git"}, pool.OK, "shared worker"},
		{"resource type, worker does not tell", running("w"), pool.Spec{ResourceType: "s3"}, pool.OK, "shared worker"},
		{"more memory than there is", running("w", func(w *pool.Worker) { w.Capacity.MemoryBytes = 10 }), pool.Spec{Resources: pool.Resources{CPUMillis: 1, MemoryBytes: 11}}, pool.TooBig, "11 bytes of memory wanted, it has 10"},
		{"all of the memory", running("w", func(w *pool.Worker) { w.Capacity.MemoryBytes = 10 }), pool.Spec{Resources: pool.Resources{CPUMillis: 1, MemoryBytes: 10}}, pool.OK, "shared worker"},
		{"memory that nobody knows", running("w"), pool.Spec{Resources: pool.Resources{MemoryBytes: 1 << 50}}, pool.OK, "shared worker"},
		{"no state", running("w", func(w *pool.Worker) { w.State = "" }), pool.Spec{}, pool.NotRunning, ""},
		{"what cannot change is said first", running("w", func(w *pool.Worker) { w.State = pool.Stalled }), pool.Spec{Platform: "windows"}, pool.OtherPlatform, `"linux", not "windows"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x, p := index(tt.worker), placer(t, pool.Policy{}, pool.Options{})
			got := p.Explain(x, tt.spec)
			if len(got) != 1 || got[0].Reason != tt.want || got[0].Detail != tt.detail || got[0].OK != (tt.want == pool.OK) {
				t.Errorf("Explain = %+v, want %s, %q", got, tt.want, tt.detail)
			}
			c, err := p.Choose(x, tt.spec)
			if tt.want == pool.OK {
				if err != nil || c.Worker != "w" {
					t.Errorf("Choose = %+v, %v", c, err)
				}
				return
			}
			var none *pool.NoWorkerError
			if !errors.As(err, &none) || len(none.Reasons) != 1 || none.Reasons[0].Reason != tt.want {
				t.Errorf("Choose: %v, want a NoWorkerError for %s", err, tt.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	containers := []pool.Strategy{pool.LimitActiveContainers}
	tasks := []pool.Strategy{pool.LimitActiveTasks}
	volumes := []pool.Strategy{pool.LimitActiveVolumes}
	one := pool.Limits{Containers: 1, Tasks: 1, Volumes: 1}
	tests := []struct {
		name   string
		policy pool.Policy
		limits pool.Limits // of the options
		own    pool.Limits // of the worker
		lease  pool.Kind
		spec   pool.Spec
		want   pool.Reason
	}{
		{"no limit", pool.Policy{Build: containers}, pool.Limits{}, pool.Limits{}, pool.Build, pool.Spec{}, pool.OK},
		{"containers", pool.Policy{Build: containers}, one, pool.Limits{}, pool.Check, pool.Spec{}, pool.FullContainers},
		{"strategy not in the chain", pool.Policy{Build: containers, Check: []pool.Strategy{pool.Random}}, one, pool.Limits{}, pool.Build, pool.Spec{Kind: pool.Check}, pool.OK},
		{"no-input follows build", pool.Policy{Build: containers}, one, pool.Limits{}, pool.Build, pool.Spec{Kind: pool.NoInput}, pool.FullContainers},
		{"tasks", pool.Policy{Build: tasks}, one, pool.Limits{}, pool.Build, pool.Spec{}, pool.FullTasks},
		{"tasks do not count checks", pool.Policy{Build: tasks}, one, pool.Limits{}, pool.Check, pool.Spec{}, pool.OK},
		{"tasks without inputs are tasks", pool.Policy{Build: tasks}, one, pool.Limits{}, pool.NoInput, pool.Spec{}, pool.FullTasks},
		{"tasks hold back those without inputs", pool.Policy{Build: tasks}, one, pool.Limits{}, pool.Build, pool.Spec{Kind: pool.NoInput}, pool.FullTasks},
		{"tasks do not hold back checks", pool.Policy{Build: tasks, Check: tasks}, one, pool.Limits{}, pool.Build, pool.Spec{Kind: pool.Check}, pool.OK},
		{"volumes", pool.Policy{Build: volumes}, one, pool.Limits{}, pool.Build, pool.Spec{Volumes: 1}, pool.FullVolumes},
		{"volumes, none wanted", pool.Policy{Build: volumes}, one, pool.Limits{}, pool.Build, pool.Spec{}, pool.OK},
		{"own limit beats the options", pool.Policy{Build: containers}, one, pool.Limits{Containers: 2}, pool.Build, pool.Spec{}, pool.OK},
		{"own limit needs no strategy", pool.Policy{}, pool.Limits{}, pool.Limits{Containers: 1}, pool.Build, pool.Spec{Kind: pool.Check}, pool.FullContainers},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := index(running("w", func(w *pool.Worker) { w.Limits = tt.own }))
			there := pool.VolumeState{Stage: pool.Sealed, Key: "content"}
			x.ChangeVolume(pool.VolumeChange{Worker: "w", Is: there, Copies: 1})
			lease(t, x, "someone", "w", tt.lease)
			p := placer(t, tt.policy, pool.Options{Limits: tt.limits})
			if got := p.Explain(x, tt.spec)[0].Reason; got != tt.want {
				t.Errorf("Explain = %s, want %s", got, tt.want)
			}
			_, err := p.Choose(x, tt.spec)
			var full *pool.FullError
			if (tt.want == pool.OK) != (err == nil) || err != nil && !errors.As(err, &full) {
				t.Errorf("Choose: %v, want %s", err, tt.want)
			}
			x.Release("someone")
			x.ChangeVolume(pool.VolumeChange{Worker: "w", Was: there})
			if _, err := p.Choose(x, tt.spec); err != nil {
				t.Errorf("Choose once it is idle: %v", err)
			}
		})
	}
}

// What is promised is not promised again, to the last unit, and is free again with its lease.
func TestResources(t *testing.T) {
	x := index(running("w", func(w *pool.Worker) { w.Capacity = pool.Resources{CPUMillis: 2000, MemoryBytes: 100} }))
	p := placer(t, pool.Policy{}, pool.Options{})
	if err := x.Acquire(pool.Lease{Owner: "o", Worker: "w", Resources: pool.Resources{CPUMillis: 1500, MemoryBytes: 1, PIDs: 9}}); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		asks   pool.Resources
		want   pool.Reason
		detail string
	}{
		{pool.Resources{}, pool.OK, "shared worker"},
		{pool.Resources{CPUMillis: 500, MemoryBytes: 99, DiskBytes: 1 << 60}, pool.OK, "shared worker"},
		{pool.Resources{CPUMillis: 501}, pool.FullResources, "1500 of 2000 milli-CPUs are promised, 501 wanted"},
		{pool.Resources{MemoryBytes: 100}, pool.FullResources, "1 of 100 bytes of memory are promised, 100 wanted"},
		{pool.Resources{CPUMillis: -5}, pool.OK, "shared worker"},
	}
	for _, tt := range tests {
		if got := p.Explain(x, pool.Spec{Resources: tt.asks})[0]; got.Reason != tt.want || got.Detail != tt.detail {
			t.Errorf("%+v: %+v, want %s, %q", tt.asks, got, tt.want, tt.detail)
		}
	}
	x.Release("o")
	if c, err := p.Choose(x, pool.Spec{Resources: pool.Resources{CPUMillis: 2000, MemoryBytes: 100}}); err != nil || c.Worker != "w" {
		t.Errorf("once it is idle: %+v, %v", c, err)
	}
	if u := x.Usage("w"); u != (pool.Usage{}) {
		t.Errorf("left over: %+v", u)
	}
}

func TestTeamWorkersFirst(t *testing.T) {
	own := func(w *pool.Worker) { w.Team, w.Limits.Containers = "a", 1 }
	x := index(running("shared"), running("own", own))
	x.AddVolume("shared", "in", 1<<30) // the strategies would take the shared one
	p := placer(t, pool.Policy{}, pool.Options{})
	spec := pool.Spec{Team: "a", Inputs: []pool.Content{{Key: "in"}}}
	want := func(name string) {
		t.Helper()
		if c, err := p.Choose(x, spec); err != nil || c.Worker != name {
			t.Errorf("Choose = %+v, %v, want %s", c, err, name)
		}
	}
	want("own")
	lease(t, x, "o", "own", pool.Build)
	want("shared") // full
	x.Release("o")
	want("own")
	x.Upsert(running("own", own, func(w *pool.Worker) { w.State = pool.Cordoned }))
	want("shared") // unsuitable
}

func TestStrategiesChain(t *testing.T) {
	x := index(running("a"), running("b"), running("c"))
	x.AddVolume("a", "small", 10)
	x.AddVolume("a", "tiny", 0)
	x.AddVolume("b", "large", 1000)
	x.AddVolume("c", "large", 1000)
	lease(t, x, "1", "b", pool.NoInput)
	lease(t, x, "2", "c", pool.Check)
	lease(t, x, "3", "c", pool.Check)
	in := []pool.Content{{Key: "small"}, {Key: "tiny"}, {Key: "large"}, {Key: "large"}, {Key: "nowhere", Bytes: 1 << 40}}
	tests := []struct {
		name  string
		chain []pool.Strategy
		kind  pool.Kind
		want  pool.Choice
	}{
		{"bytes count, not volumes; ties go to the next", []pool.Strategy{pool.VolumeLocality, pool.FewestBuildContainers}, pool.Build,
			pool.Choice{Worker: "c", Scores: []pool.Score{{Strategy: pool.VolumeLocality, Value: 1000}, {Strategy: pool.FewestBuildContainers}}}},
		{"random decides nothing", []pool.Strategy{pool.Random, pool.VolumeLocality, pool.FewestBuildContainers}, pool.Build,
			pool.Choice{Worker: "c", Scores: []pool.Score{{Strategy: pool.Random}, {Strategy: pool.VolumeLocality, Value: 1000}, {Strategy: pool.FewestBuildContainers}}}},
		{"the first is primary", []pool.Strategy{pool.FewestBuildContainers, pool.VolumeLocality}, pool.Build,
			pool.Choice{Worker: "c", Scores: []pool.Score{{Strategy: pool.FewestBuildContainers}, {Strategy: pool.VolumeLocality, Value: 1000}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := placer(t, pool.Policy{Build: tt.chain}, pool.Options{})
			got, err := p.Choose(x, pool.Spec{Kind: tt.kind, Inputs: in})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("fewest tasks", func(t *testing.T) {
		x := index(running("a"), running("b"))
		lease(t, x, "1", "a", pool.Build)
		lease(t, x, "2", "b", pool.Check)
		p := placer(t, pool.Policy{Build: []pool.Strategy{pool.LimitActiveTasks}}, pool.Options{})
		if c, err := p.Choose(x, pool.Spec{}); err != nil || c.Worker != "b" {
			t.Errorf("Choose = %+v, %v, want b", c, err)
		}
	})
	t.Run("size of the spec where the index has none", func(t *testing.T) {
		p := placer(t, pool.Policy{}, pool.Options{})
		got := p.Explain(x, pool.Spec{Inputs: []pool.Content{{Key: "tiny", Bytes: 7}}})
		if got[0].Worker != "a" || got[0].Scores[0].Value != 7 {
			t.Errorf("Explain = %+v", got)
		}
	})
}

// Ties are broken evenly, and the same source breaks them the same way.
func TestChance(t *testing.T) {
	x := index(running("a"), running("b"), running("c"), running("d"))
	draw := func() map[string]int {
		p, got := placer(t, pool.Policy{}, pool.Options{}), map[string]int{}
		for range 4000 {
			c, err := p.Choose(x, pool.Spec{})
			if err != nil {
				t.Fatal(err)
			}
			got[c.Worker]++
		}
		return got
	}
	first := draw()
	for _, w := range []string{"a", "b", "c", "d"} {
		if n := first[w]; n < 850 || n > 1150 { // five standard deviations and more
			t.Errorf("%s was chosen %d times of 4000", w, n)
		}
	}
	if d := cmp.Diff(first, draw()); d != "" {
		t.Errorf("same source, other choices: %s", d)
	}
}

func TestErrorTexts(t *testing.T) {
	var many []pool.Worker
	for _, n := range strings.Split("abcdefghijkl", "") {
		many = append(many, running("w-"+n, func(w *pool.Worker) { w.Platform = "windows" }))
	}
	many = append(many,
		running("x-1", func(w *pool.Worker) { w.State, w.Reason = pool.Stalled, "no status for 30 s" }),
		running("x-2", func(w *pool.Worker) { w.State = pool.Cordoned }),
		running("y", func(w *pool.Worker) { w.Tags = []string{"gpu"} }))
	full := running("f", func(w *pool.Worker) { w.Limits.Containers = 1 })
	tests := []struct {
		name    string
		workers []pool.Worker
		spec    pool.Spec
		want    string
	}{
		{"none", nil, pool.Spec{Platform: "linux"},
			"no worker: none is known to this host: add a worker to the configuration, or see why its plugin reports none"},
		{"many", many, pool.Spec{Platform: "linux", Team: "a"},
			`no compatible worker for platform "linux", team "a": 12 of another platform (w-a: "windows", not "linux"; w-b: "windows", not "linux"; w-c: "windows", not "linux"; w-d: "windows", not "linux"; w-e: "windows", not "linux"; and 7 more), ` +
				`2 not running (x-1: stalled, no status for 30 s; x-2: cordoned), 1 for tagged work only (y: tags gpu): bring one back that is not running (uncordon it, or see why it stalled)`},
		{"full", []pool.Worker{full}, pool.Spec{},
			"no place free: 1 at the limit of containers (f: 1 of 1 containers): wait, raise the limit, or add a worker"},
		{"all that can be asked", []pool.Worker{full}, pool.Spec{Runtime: "r", With: "g", Tags: []string{"t"}, Features: []string{"u", "v"}, Volumes: 2},
			`no compatible worker for worker "g", runtime "r", tags ["t"], features ["u" "v"], 2 volumes: 1 not the one asked for (f: worker "g" is asked for): the worker asked for is gone, with what was on it`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := index(tt.workers...)
			lease(t, x, "o", "f", pool.Build)
			_, err := placer(t, pool.Policy{}, pool.Options{}).Choose(x, tt.spec)
			if err == nil {
				t.Fatal("no error")
			}
			if d := cmp.Diff(tt.want, err.Error()); d != "" {
				t.Error(d)
			}
		})
	}
}
