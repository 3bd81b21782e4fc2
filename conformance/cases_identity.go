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

// identityCases check what a thing is: its id, its token, its labels, and how it is listed.
func identityCases() []Case {
	return []Case{
		{
			ID: "W06-status", Title: "the status says the same each time, names raw tar, and its features are not repeated",
			Rules: []int{4}, Level: Must, Profile: Core, Run: runStatus,
			Doc: "A host places work by the status and gives up all it had when an incarnation changes; one that is made anew on each call makes it forget running steps.",
		},
		{
			ID: "W10-list-filter", Title: "a filter passes what has all of its labels, and its id", Rules: []int{10}, Level: Must, Profile: Core, Run: runListFilter,
			Doc: "Hosts find their own things by label. A filter that takes any label for all shows a host things of others, which it then reaps.",
		},
		{
			ID: "W19-labels-exact", Title: "labels up to the contract's bounds come back as they were given", Rules: []int{10}, Level: Must, Profile: Core, Run: runLabelsExact,
			Doc: "Backends have bounds of their own on properties and metadata. A plugin has to encode labels so that none is cut, changed or lost.",
		},
		{
			ID: "W20-labels-refused", Title: "labels beyond the bounds are Invalid and nothing is made", Rules: []int{10}, Level: Must, Profile: Core, Run: runLabelsRefused,
			Doc: "What is cut silently cannot be found again by its labels.",
		},
		{
			ID: "W21-list-callback", Title: "an error of the caller's callback ends a list and comes back unchanged", Rules: []int{14}, Level: Must, Profile: Core, Run: runListCallback,
			Doc: "A host stops a list by an error of its own and must know it again.",
		},
		{
			ID: "W22-list-churn", Title: "what lives through a whole list is in it exactly once while other things come and go",
			Rules: []int{1}, Level: Must, Profile: Core, Run: runListChurn,
			Doc: "A thing that a list leaves out by chance is taken for lost, and one that is listed twice for two.",
		},
		{
			ID: "D01-create-again", Title: "creating with the same id and token ten times makes one thing", Rules: []int{1}, Level: Must, Profile: Core, Run: runCreateAgain,
			Doc: "A host repeats a call whose answer was lost. The repetition has to be the same thing, and specs are not compared.",
		},
		{
			ID: "D02-create-race", Title: "of many creations at once with different tokens one wins and the others are AlreadyExists",
			Rules: []int{1}, Level: Must, Profile: Core, Run: runCreateRace, Repeat: 3,
			Doc: "Looking first and creating then lets two winners through.",
		},
		{
			ID: "D03-other-token", Title: "the id of another token is AlreadyExists and leaves the first thing alone", Rules: []int{1}, Level: Must, Profile: Core, Run: runOtherToken,
			Doc: "Two creations that mistake each other's thing for their own write into one volume.",
		},
		{
			ID: "C04-bad-ids", Title: "ids and tokens outside the contract's alphabet are Invalid and nothing is made", Rules: []int{1}, Level: Must, Profile: Core, Run: runBadIDs,
			Doc: "An id ends up in paths, names and commands of the backend: one with a slash or dots in it must never get that far.",
		},
		{
			ID: "C05-longest-id", Title: "the longest id, and the longest token, are taken", Rules: []int{1}, Level: Must, Profile: Core, Run: runLongestID,
			Doc: "A plugin that puts a prefix before the host's id runs into the backend's bound.",
		},
		{
			ID: "E02-unknown-ids", Title: "an unknown id is NotFound of what was not found; destroying it succeeds", Rules: []int{3, 1}, Level: Must, Profile: Core, Run: runUnknownIDs,
			Doc: "NotFound of a process means that it never ran and may be started; NotFound of its container that all is lost. A host that hears the wrong one runs a step twice, or never.",
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

func runListFilter(ctx context.Context, c *C) {
	made := map[string]map[string]string{
		"ab": {"a": "1", "b": "2"},
		"a":  {"a": "1"},
		"b":  {"b": "2"},
		"a2": {"a": "2", "b": "2"},
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
		{map[string]string{}, []string{"a", "a2", "ab", "b"}},
		{map[string]string{"a": "1"}, []string{"a", "ab"}},
		{map[string]string{"a": "1", "b": "2"}, []string{"ab"}},
		{map[string]string{"b": "2"}, []string{"a2", "ab", "b"}},
		{map[string]string{"a": "3"}, nil},
		{map[string]string{"c": ""}, nil},
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

	vi, ok := c.ListVolume(ctx, v.ID)
	if !ok {
		c.Fatalf("what was made is listed", "volume %q is not listed", v.ID)
	}
	ki, ok := c.ListContainer(ctx, k.ID)
	if !ok {
		c.Fatalf("what was made is listed", "container %q is not listed", k.ID)
	}
	want = c.boundLabels() // whatever was done with the map that was handed over
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

func (c *C) wantNoVolume(ctx context.Context, id sdk.VolumeID) {
	if _, ok := c.ListVolume(ctx, id); ok {
		c.Errorf("a creation that was refused makes nothing", "volume %q is listed", id)
	}
}

func (c *C) wantNoContainer(ctx context.Context, id sdk.ContainerID) {
	if _, ok := c.ListContainer(ctx, id); ok {
		c.Errorf("a creation that was refused makes nothing", "container %q is listed", id)
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

func runCreateAgain(ctx context.Context, c *C) {
	v := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels()}
	k := c.ContainerSpec()
	for i := range 10 {
		c.OK(c.W.CreateVolume(ctx, v), "creating a volume, time %d", i+1)
		c.OK(c.W.CreateContainer(ctx, k, nil), "creating a container, time %d", i+1)
		if i == 0 {
			c.Put(ctx, v.ID, File("kept", "still here"))
		}
	}
	v.UID = 7 // specs are never compared
	c.OK(c.W.CreateVolume(ctx, v), "creating a volume again with another owner and the same token")
	c.WantTree(c.Tree(ctx, v.ID, ""), []Entry{File("kept", "still here")}, 0, "after eleven creations")
	c.ListVolume(ctx, v.ID) // once
	c.ListContainer(ctx, k.ID)

	c.OK(c.W.SealVolume(ctx, v.ID), "sealing the volume")
	c.OK(c.W.CreateVolume(ctx, v), "creating a sealed volume again")
	if i, _ := c.ListVolume(ctx, v.ID); i.State != sdk.VolumeSealed {
		c.Errorf("creating what is there changes nothing", "the volume is %s, want sealed", i.State)
	}
}

func runCreateRace(ctx context.Context, c *C) {
	const racers = 8
	v, k := c.VolumeID(), c.ContainerSpec()
	volumes, containers := make(chan error, racers), make(chan error, racers)
	begin := make(chan struct{})
	for range racers {
		token := sdk.NewToken()
		c.Go(func(ctx context.Context) {
			<-begin
			volumes <- c.W.CreateVolume(ctx, sdk.VolumeSpec{ID: v, Token: token, Labels: c.Labels()})
		})
		c.Go(func(ctx context.Context) {
			own := k
			own.Token, own.Labels = token, c.Labels()
			<-begin
			containers <- c.W.CreateContainer(ctx, own, nil)
		})
	}
	close(begin)
	for what, errs := range map[string]chan error{"volume": volumes, "container": containers} {
		won := 0
		for range racers {
			err := <-errs
			if err == nil {
				won++
				continue
			}
			c.WantClass(err, sdk.AlreadyExists, "the losers must know that the thing is not theirs", "creating one %s with %d tokens", what, racers)
		}
		if won != 1 {
			c.Errorf("an id belongs to one token", "%d of %d creations of one %s with different tokens succeeded, want 1", won, racers, what)
		}
	}
}

func runOtherToken(ctx context.Context, c *C) {
	v := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels()}
	c.OK(c.W.CreateVolume(ctx, v), "creating a volume")
	c.Put(ctx, v.ID, File("mine", "mine"))
	k := c.ContainerSpec()
	c.OK(c.W.CreateContainer(ctx, k, nil), "creating a container")
	out := c.Exec(ctx, k.ID, c.Commands.Print("x", ""))
	c.WantOutput(out, "x", "", "before")

	const why = "the same id with another token is another thing: success would hand out what belongs to somebody else"
	v2, k2 := v, k
	v2.Token, k2.Token = sdk.NewToken(), sdk.NewToken()
	c.WantClass(c.W.CreateVolume(ctx, v2), sdk.AlreadyExists, why, "creating the volume with another token")
	c.WantClass(c.W.CreateContainer(ctx, k2, nil), sdk.AlreadyExists, why, "creating the container with another token")

	c.WantTree(c.Tree(ctx, v.ID, ""), []Entry{File("mine", "mine")}, 0, "the first volume afterwards")
	if i, ok := c.ListVolume(ctx, v.ID); !ok || i.Token != v.Token {
		c.Errorf("the first thing is left alone", "the volume's token is %q (listed: %v), want %q", i.Token, ok, v.Token)
	}
	if i, ok := c.ListContainer(ctx, k.ID); !ok || i.Token != k.Token {
		c.Errorf("the first thing is left alone", "the container's token is %q (listed: %v), want %q", i.Token, ok, k.Token)
	}
	infos, err := c.W.ListProcesses(ctx, k.ID)
	c.OK(err, "listing processes")
	if len(infos) != 1 {
		c.Errorf("the first thing is left alone", "the container has %d processes, want the 1 from before", len(infos))
	}
}

func badIDs() []string {
	return []string{"", "-", "-a", "a-", "A", "a_b", "a.b", "a/b", "../a", "..", ".", "a b", "a\x00b", "a\n", "ü", strings.Repeat("a", sdk.MaxIDBytes+1)}
}

func runBadIDs(ctx context.Context, c *C) {
	const why = "an id outside of the alphabet may be a path, an option or another id to the backend"
	container := c.Container(ctx)
	for _, id := range badIDs() {
		v := sdk.VolumeSpec{ID: sdk.VolumeID(id), Token: sdk.NewToken(), Labels: c.Labels()}
		c.WantReason(c.W.CreateVolume(ctx, v), sdk.Invalid, sdk.ReasonSpec, why, "volume %q", id)
		k := c.ContainerSpec()
		k.ID = sdk.ContainerID(id)
		c.WantReason(c.W.CreateContainer(ctx, k, nil), sdk.Invalid, sdk.ReasonSpec, why, "container %q", id)
		p := c.Spec(c.Commands.Exit(0))
		p.ID = sdk.ProcessID(id)
		c.WantReason(c.W.StartProcess(ctx, container, p), sdk.Invalid, sdk.ReasonSpec, why, "process %q", id)
		clone := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels(), Clone: sdk.VolumeID(id)}
		if id != "" {
			c.WantReason(c.W.CreateVolume(ctx, clone), sdk.Invalid, sdk.ReasonSpec, why, "cloning volume %q", id)
		}
	}
	for _, token := range []sdk.Token{"", "a b", "a\n", "ü", sdk.Token(strings.Repeat("a", 129))} {
		v := sdk.VolumeSpec{ID: c.VolumeID(), Token: token, Labels: c.Labels()}
		c.WantReason(c.W.CreateVolume(ctx, v), sdk.Invalid, sdk.ReasonSpec, "a token must be kept as it is", "a volume with token %q", token)
		k := c.ContainerSpec()
		k.Token = token
		c.WantReason(c.W.CreateContainer(ctx, k, nil), sdk.Invalid, sdk.ReasonSpec, "a token must be kept as it is", "a container with token %q", token)
		p := c.Spec(c.Commands.Exit(0))
		p.Token = token
		c.WantReason(c.W.StartProcess(ctx, container, p), sdk.Invalid, sdk.ReasonSpec, "a token must be kept as it is", "a process with token %q", token)
	}
	c.wantCount(ctx, 0, 1)
	infos, err := c.W.ListProcesses(ctx, container)
	c.OK(err, "listing processes")
	if len(infos) != 0 {
		c.Errorf("a start that was Invalid leaves no record", "the container lists %d processes, want none", len(infos))
	}
}

// wantCount fails the case unless that many things with its labels are listed.
func (c *C) wantCount(ctx context.Context, volumes, containers int) {
	var v, k []string
	c.OK(c.W.ListVolumes(ctx, sdk.Filter{Labels: c.Labels()}, func(i sdk.VolumeInfo) error { v = append(v, string(i.ID)); return nil }), "listing volumes")
	c.OK(c.W.ListContainers(ctx, sdk.Filter{Labels: c.Labels()}, func(i sdk.ContainerInfo) error { k = append(k, string(i.ID)); return nil }), "listing containers")
	if len(v) != volumes || len(k) != containers {
		c.Errorf("what was refused makes nothing, and what was made is listed",
			"listed volumes are %q and containers %q, want %d and %d", v, k, volumes, containers)
	}
}

func runLongestID(ctx context.Context, c *C) {
	longest := func(id string) string { return id + "-" + strings.Repeat("9", sdk.MaxIDBytes-len(id)-1) }
	token := sdk.Token(strings.Repeat("~!", 64))
	v := sdk.VolumeSpec{ID: sdk.VolumeID(longest(string(c.VolumeID()))), Token: token, Labels: c.Labels()}
	c.OK(c.W.CreateVolume(ctx, v), "creating volume %q", v.ID)
	k := c.ContainerSpec()
	k.ID, k.Token = sdk.ContainerID(longest(string(k.ID))), token
	c.OK(c.W.CreateContainer(ctx, k, nil), "creating container %q", k.ID)
	p := c.Spec(c.Commands.Exit(0))
	p.ID, p.Token = sdk.ProcessID(longest(string(p.ID))), token
	c.OK(c.W.StartProcess(ctx, k.ID, p), "starting process %q", p.ID)
	c.WantExit(c.Follow(ctx, k.ID, p.ID), 0, "process with the longest id")
	if i, ok := c.ListVolume(ctx, v.ID); !ok || i.Token != token {
		c.Errorf("ids and tokens come back whole", "volume %q is listed: %v, with token %q", v.ID, ok, i.Token)
	}
	if i, ok := c.ListContainer(ctx, k.ID); !ok || i.Token != token {
		c.Errorf("ids and tokens come back whole", "container %q is listed: %v, with token %q", k.ID, ok, i.Token)
	}
	if i, ok := c.Process(ctx, k.ID, p.ID); !ok || i.Token != token {
		c.Errorf("ids and tokens come back whole", "process %q is listed: %v, with token %q", p.ID, ok, i.Token)
	}
}

func runUnknownIDs(ctx context.Context, c *C) {
	v, k, p := c.VolumeID(), c.ContainerID(), c.ProcessID()
	c.OK(c.W.DestroyVolume(ctx, v), "destroying a volume that never was")
	c.OK(c.W.DestroyContainer(ctx, k), "destroying a container that never was")

	const ofVolume = "NotFound names what is not there"
	c.WantNotFound(c.W.SealVolume(ctx, v), sdk.KindVolume, ofVolume, "sealing an unknown volume")
	c.WantNotFound(c.W.StreamIn(ctx, v, sdk.StreamIn{}, strings.NewReader(string(c.Pack([]Entry{File("a", "a")})))), sdk.KindVolume, ofVolume, "streaming into an unknown volume")
	var out strings.Builder
	c.WantNotFound(c.W.StreamOut(ctx, v, sdk.StreamOut{}, &out), sdk.KindVolume, ofVolume, "streaming out of an unknown volume")
	if out.Len() > 0 {
		c.Errorf("there is nothing to write", "streaming out of an unknown volume wrote %d bytes", out.Len())
	}

	const ofContainer = "NotFound of a container means that all in it is lost, of a process that it never ran: they must not be mixed up"
	_, err := c.W.ListProcesses(ctx, k)
	c.WantNotFound(err, sdk.KindContainer, ofContainer, "listing processes of an unknown container")
	c.WantNotFound(c.W.StartProcess(ctx, k, c.Spec(c.Commands.Exit(0))), sdk.KindContainer, ofContainer, "starting in an unknown container")
	c.WantNotFound(c.W.FollowProcess(ctx, k, p, 0, sdk.Follow{}), sdk.KindContainer, ofContainer, "following in an unknown container")
	c.WantNotFound(c.W.SignalProcess(ctx, k, p, sdk.TERM), sdk.KindContainer, ofContainer, "signalling in an unknown container")

	known := c.Container(ctx)
	c.WantNotFound(c.W.FollowProcess(ctx, known, p, 0, sdk.Follow{}), sdk.KindProcess, ofContainer, "following an unknown process")
	c.WantNotFound(c.W.SignalProcess(ctx, known, p, sdk.TERM), sdk.KindProcess, ofContainer, "signalling an unknown process")
	c.wantCount(ctx, 0, 1)
}
