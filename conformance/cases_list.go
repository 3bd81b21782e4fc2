package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// listCases check the status, labels, and how things are listed.
func listCases() []Case {
	return []Case{
		{
			ID: "W06-status", Title: "the status says the same each time, names raw tar, and its features are not repeated",
			Promises: []string{"4a", "9u"}, Level: Must, Profile: Core, Run: runStatus,
			Doc: "A host places work by the status and gives up all it had when an incarnation changes; one that is made anew on each call makes it forget running steps.",
		},
		{
			ID: "W07-workers", Title: "the runtime reports its workers at once and goes on until it is told to stop; an unknown one is NotFound of a worker",
			Promises: []string{"4e", "3e"}, Level: Must, Profile: Core, Run: runWorkers,
			Doc: "A host that gets no snapshot has no worker; one that gets an end calls again, for ever.",
		},
		{
			ID: "W10-list-filter", Title: "a filter passes what has all of its labels, and its id", Promises: []string{"10c"}, Level: Must, Profile: Core, Run: runListFilter,
			Doc: "Hosts find their own things by label. A filter that takes any label for all shows a host things of others, which it then reaps.",
		},
		{
			ID: "W19-labels-exact", Title: "labels up to the contract's bounds come back as they were given", Promises: []string{"10a"}, Level: Must, Profile: Core, Run: runLabelsExact,
			Doc: "Backends have bounds of their own on properties and metadata. A plugin has to encode labels so that none is cut, changed or lost.",
		},
		{
			ID: "W20-labels-refused", Title: "labels beyond the bounds are Invalid and nothing is made", Promises: []string{"10b"}, Level: Must, Profile: Core, Run: runLabelsRefused,
			Doc: "What is cut silently cannot be found again by its labels.",
		},
		{
			ID: "W21-list-callback", Title: "an error of the caller's callback ends a list and comes back unchanged", Promises: []string{"14b"}, Level: Must, Profile: Core, Run: runListCallback,
			Doc: "A host stops a list by an error of its own and must know it again.",
		},
		{
			ID: "W22-list-churn", Title: "what lives through a whole list is in it exactly once while other things come and go",
			Promises: []string{"10d"}, Level: Must, Profile: Core, Run: runListChurn,
			Doc: "A thing that a list leaves out by chance is taken for lost, and one that is listed twice for two.",
		},
	}
}

func runStatus(ctx context.Context, c *C) {
	first, err := c.W.Status(ctx)
	c.OK(err, "asking for the status")
	second, err := c.W.Status(ctx)
	c.OK(err, "asking for the status again")
	for _, s := range []sdk.Status{first, second} {
		if s.Health != sdk.Healthy && s.Health != sdk.Degraded {
			c.Errorf("only what is healthy or degraded takes work", "health is %s (%s)", s.Health, s.Reason)
		}
		if s.Health == sdk.Degraded && s.Reason == "" {
			c.Errorf("people act on the reason", "health is degraded without a reason")
		}
		if !slices.Contains(s.Encodings, sdk.EncodingRaw) {
			c.Errorf("raw tar is what every two workers have in common", "encodings are %q, want %q among them", s.Encodings, sdk.EncodingRaw)
		}
		sorted := slices.Sorted(slices.Values(s.Features))
		if n := len(slices.Compact(sorted)); n != len(s.Features) {
			c.Errorf("a set has no repetitions", "features are %q", s.Features)
		}
	}
	if first.ContainerIncarnation != second.ContainerIncarnation || first.VolumeIncarnation != second.VolumeIncarnation {
		c.Errorf("an incarnation changes only when all that was there is gone",
			"incarnations are %q, %q and then %q, %q", first.ContainerIncarnation, first.VolumeIncarnation, second.ContainerIncarnation, second.VolumeIncarnation)
	}
	if !slices.Equal(slices.Sorted(slices.Values(first.Features)), slices.Sorted(slices.Values(second.Features))) {
		c.Errorf("a feature stays while its worker does", "features are %q and then %q", first.Features, second.Features)
	}
}

func runWorkers(ctx context.Context, c *C) {
	rt := c.suite.inst.Runtime
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	events := 0
	err := rt.Workers(watching, func(e sdk.WorkerEvent) error {
		events++
		listed := slices.ContainsFunc(e.Workers, func(w sdk.WorkerInfo) bool { return w.Name == c.suite.name })
		switch {
		case events > 1:
		case e.Kind != sdk.WorkerSnapshot:
			c.Errorf("the snapshot comes first", "the first event is of kind %d", e.Kind)
		case !listed:
			c.Errorf("a snapshot holds all workers", "worker %q is not in it", c.suite.name)
		}
		cancel()
		return nil
	})
	if !isCanceled(err) {
		c.Errorf("Workers goes on until its context ends, and says so", "Workers ended with %s", describe(err))
	}
	if events == 0 {
		c.Errorf("the snapshot comes at once", "Workers ended without an event")
	}
	c.workersGoOn(ctx, rt)
	if err := rt.Workers(ctx, func(sdk.WorkerEvent) error { return callerError{} }); err != (callerError{}) {
		c.Errorf("errors of the caller's own callback come back unchanged", "Workers: got %s", describe(err))
	}
	w, err := rt.Worker(string(c.ContainerID()))
	if err == nil { // the plugin is another process: the first call tells
		_, err = w.Status(ctx)
		w.Close()
	}
	c.WantNotFound(err, sdk.KindWorker, "a host must tell a worker that is gone from one that is away", "a worker that was never reported")
}

// workersGoOn watches workers while one of them is used: an end that comes by itself is seen by then.
func (c *C) workersGoOn(ctx context.Context, rt sdk.Runtime) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	first, ended := make(chan struct{}), make(chan error, 1)
	c.Go(func(context.Context) {
		told := sync.OnceFunc(func() { close(first) })
		ended <- rt.Workers(watching, func(sdk.WorkerEvent) error { told(); return nil })
	})
	select {
	case <-first:
		c.Exec(ctx, c.Container(ctx), c.Commands.Exit(0))
	case <-ctx.Done():
	case err := <-ended:
		ended <- err
	}
	select {
	case err := <-ended:
		c.Errorf("a host that hears no more of workers does not place on new ones, nor stop placing on those that are gone", "Workers ended by itself, with %s", describe(err))
	default:
		cancel()
		c.AwaitError(ctx, ended, "the end of Workers once its context has ended")
	}
}

func runListFilter(ctx context.Context, c *C) {
	made := map[string]map[string]string{
		"ab": {"a": "1", "b": "2"},
		"a":  {"a": "1"},
		"b":  {"b": "2"},
		"a2": {"a": "2", "b": "2"},
		"e":  {"e": ""},
	}
	volumes, containers := map[string]string{}, map[string]string{} // id to its name here
	for name, labels := range made {
		v := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels()}
		maps.Copy(v.Labels, labels)
		c.OK(c.W.CreateVolume(ctx, v), "creating a volume with labels %v", labels)
		volumes[string(v.ID)] = name
		k := c.ContainerSpec()
		maps.Copy(k.Labels, labels)
		c.OK(c.W.CreateContainer(ctx, k, nil), "creating a container with labels %v", labels)
		containers[string(k.ID)] = name
	}
	for _, tt := range []struct {
		labels map[string]string
		want   []string
	}{
		{map[string]string{}, []string{"a", "a2", "ab", "b", "e"}},
		{map[string]string{"a": "1"}, []string{"a", "ab"}},
		{map[string]string{"a": "1", "b": "2"}, []string{"ab"}},
		{map[string]string{"b": "2"}, []string{"a2", "ab", "b"}},
		{map[string]string{"a": "3"}, nil},
		{map[string]string{"c": ""}, nil},
		{map[string]string{"e": ""}, []string{"e"}},
		{map[string]string{"a": ""}, nil},
	} {
		f := sdk.Filter{Labels: c.Labels()}
		maps.Copy(f.Labels, tt.labels)
		var got []string
		c.OK(c.W.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error { got = append(got, volumes[string(v.ID)]); return nil }), "listing volumes")
		c.wantNames(got, tt.want, "volumes with labels %v", tt.labels)
		got = nil
		c.OK(c.W.ListContainers(ctx, f, func(i sdk.ContainerInfo) error { got = append(got, containers[string(i.ID)]); return nil }), "listing containers")
		c.wantNames(got, tt.want, "containers with labels %v", tt.labels)
	}
	for id, name := range volumes {
		want := []string{name}
		labels := c.Labels()
		if name == "a" {
			labels["b"], want = "2", nil // the id alone does not do
		}
		var got []string
		err := c.W.ListVolumes(ctx, sdk.Filter{ID: id, Labels: labels}, func(v sdk.VolumeInfo) error { got = append(got, volumes[string(v.ID)]); return nil })
		c.OK(err, "listing volume %q", id)
		c.wantNames(got, want, "volume %q with labels %v", name, labels)
	}
}

func (c *C) wantNames(got, want []string, what string, args ...any) {
	slices.Sort(got)
	if !slices.Equal(got, want) {
		c.Errorf("all that a filter sets must match, and nothing else is listed", "%s: listed %q, want %q", fmt.Sprintf(what, args...), got, want)
	}
}

// boundLabels are at the contract's bounds in number and in the length of a key and a value.
func (c *C) boundLabels() map[string]string {
	labels := c.Labels()
	labels[strings.Repeat("k", sdk.MaxLabelKeyBytes)] = strings.Repeat("v", sdk.MaxLabelValueBytes)
	labels["a.b/c_d-e"] = "Ünïcödé, quotes \" ' `, $HOME, {\"a\":1}\nnew line\ttab"
	labels["empty"] = ""
	for i := len(labels); i < sdk.MaxLabels; i++ {
		labels[fmt.Sprintf("n%d", i)] = strings.Repeat("x", i)
	}
	return labels
}

func runLabelsExact(ctx context.Context, c *C) {
	want := c.boundLabels()
	v := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: want}
	c.OK(c.W.CreateVolume(ctx, v), "creating a volume with %d labels", len(want))
	k := c.ContainerSpec()
	k.Labels = want
	c.OK(c.W.CreateContainer(ctx, k, nil), "creating a container with %d labels", len(want))
	clear(want) // specs belong to the caller: what is kept of them is a copy

	vi, ok := c.ListVolume(ctx, v.ID)
	if !ok {
		c.Fatalf("what was made is listed", "volume %q is not listed", v.ID)
	}
	ki, ok := c.ListContainer(ctx, k.ID)
	if !ok {
		c.Fatalf("what was made is listed", "container %q is not listed", k.ID)
	}
	want = c.boundLabels()
	for what, got := range map[string]map[string]string{"volume": vi.Labels, "container": ki.Labels} {
		for key, value := range want {
			if g, ok := got[key]; !ok || g != value {
				c.Errorf("labels come back as they were given: what is mangled cannot be found again",
					"%s: label %q is %q (there: %v), want %q", what, key, g, ok, value)
			}
		}
		if len(got) != len(want) {
			c.Errorf("a plugin keeps its own notes out of the host's labels", "%s: %d labels, want %d", what, len(got), len(want))
		}
	}
	if vi.Token != v.Token || ki.Token != k.Token {
		c.Errorf("a host recognises its own creation by its token", "tokens are %q and %q, want %q and %q", vi.Token, ki.Token, v.Token, k.Token)
	}
	if vi.State != sdk.VolumeOpen || ki.State != sdk.ContainerReady {
		c.Errorf("a new volume is open and a new container ready", "states are %s and %s", vi.State, ki.State)
	}
}

func runLabelsRefused(ctx context.Context, c *C) {
	tooMany := make(map[string]string)
	for i := range sdk.MaxLabels + 1 {
		tooMany[fmt.Sprintf("n%d", i)] = ""
	}
	tooBig := make(map[string]string)
	for i := range 17 {
		tooBig[fmt.Sprintf("n%d", i)] = strings.Repeat("x", 256)
	}
	for what, labels := range map[string]map[string]string{
		"33 labels":          tooMany,
		"more than 4 KiB":    tooBig,
		"key of 64":          {strings.Repeat("k", 64): ""},
		"empty key":          {"": "x"},
		"key in upper case":  {"Key": "x"},
		"key with a space":   {"a b": "x"},
		"value of 257":       {"k": strings.Repeat("v", 257)},
		"value not in UTF-8": {"k": "\xff"},
	} {
		const why = "what can never be kept as it is must be refused, not cut"
		v := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: labels}
		c.WantReason(c.W.CreateVolume(ctx, v), sdk.Invalid, sdk.ReasonSpec, why, "a volume with %s", what)
		c.wantNoVolume(ctx, v.ID)
		k := c.ContainerSpec()
		k.Labels = labels
		c.WantReason(c.W.CreateContainer(ctx, k, nil), sdk.Invalid, sdk.ReasonSpec, why, "a container with %s", what)
		c.wantNoContainer(ctx, k.ID)
	}
}

type callerError struct{}

func (callerError) Error() string { return "the caller has had enough" }

func runListCallback(ctx context.Context, c *C) {
	c.Volume(ctx)
	c.Volume(ctx)
	c.Container(ctx)
	const why = "errors of the caller's own callback come back unchanged"
	calls := 0
	err := c.W.ListVolumes(ctx, sdk.Filter{Labels: c.Labels()}, func(sdk.VolumeInfo) error { calls++; return callerError{} })
	if err != (callerError{}) || calls != 1 {
		c.Errorf(why, "ListVolumes: got %v after %d calls, want the callback's error after 1", err, calls)
	}
	calls = 0
	err = c.W.ListContainers(ctx, sdk.Filter{Labels: c.Labels()}, func(sdk.ContainerInfo) error { calls++; return callerError{} })
	if err != (callerError{}) || calls != 1 {
		c.Errorf(why, "ListContainers: got %v after %d calls, want the callback's error after 1", err, calls)
	}
}

func runListChurn(ctx context.Context, c *C) {
	stable := map[sdk.VolumeID]bool{}
	for range 20 {
		stable[c.Volume(ctx)] = true
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for range 2 {
		wg.Go(func() {
			defer c.recover()
			for {
				select {
				case <-stop:
					return
				default:
				}
				id := c.VolumeID()
				spec := sdk.VolumeSpec{ID: id, Token: sdk.NewToken(), Labels: c.Labels()}
				c.OK(c.W.CreateVolume(ctx, spec), "creating volume %q", id)
				c.OK(c.W.DestroyVolume(ctx, id), "destroying volume %q", id)
			}
		})
	}
	for range c.Times(50) {
		seen := map[sdk.VolumeID]int{}
		c.OK(c.W.ListVolumes(ctx, sdk.Filter{Labels: c.Labels()}, func(v sdk.VolumeInfo) error { seen[v.ID]++; return nil }), "listing volumes")
		for id := range stable {
			if seen[id] != 1 {
				c.Fatalf("what lives through the whole call is listed exactly once", "volume %q is listed %d times", id, seen[id])
			}
		}
	}
}
