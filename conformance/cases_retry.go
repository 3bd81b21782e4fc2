package conformance

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// retryCases check what a call that failed, was given up or came at the same time as another leaves behind.
func retryCases() []Case {
	return []Case{
		{
			ID: "C09-create-retry", Title: "a container that could not be made for want of a volume can be made with the same id and token once that is there",
			Promises: []string{"1c"}, Level: Must, Profile: Core, Run: runContainerRetry,
			Doc: "Catches a creation that failed and is remembered as done, or holds its id for ever.",
		},
		{
			ID: "V14-clone-retry", Title: "a clone that could not be made for want of its parent can be made with the same id and token once that is there",
			Promises: []string{"1c"}, Level: Must, Profile: Core, Run: runCloneRetry,
			Doc: "Catches an empty volume that a failed clone leaves under its id, and that the next try takes for its own.",
		},
		{
			ID: "D04-start-race", Title: "of many starts at once with one id and different tokens one wins, runs once, and the others are AlreadyExists",
			Promises: []string{"1d", "3b"}, Level: Must, Profile: Core, Run: runStartRace, Repeat: 3,
			Doc: "Catches a look for the id and a start that are two steps: both callers believe that the process is theirs.",
		},
		{
			ID: "D05-destroy-race", Title: "destroying one thing many times at once succeeds each time", Promises: []string{"1e"}, Level: Must, Profile: Core, Run: runDestroyRace,
			Doc: "Catches the second destroyer that finds half of the thing gone and calls that an error.",
		},
		{
			ID: "E04-error-names", Title: "NotFound and AlreadyExists name the thing by kind and id", Promises: []string{"14a"}, Level: Must, Profile: Core, Run: runErrorNames,
			Doc: "Catches errors of a call with several things in it, a mount or a clone, that name the wrong one: a host then gives up what is there.",
		},
		{
			ID: "E05-refused-unchanged", Title: "calls that fail leave all that is there as it was", Promises: []string{"14d"}, Level: Must, Profile: Core, Run: runRefusedUnchanged,
			Doc: "Catches checks that come after the deed: a volume that a refused call has sealed, emptied or mounted.",
		},
		{
			ID: "K02-deadline-before", Title: "a call whose deadline has passed returns context.DeadlineExceeded and does nothing", Promises: []string{"14c", "2b"}, Level: Must, Profile: Core, Run: runDeadlineBefore,
			Doc: "Catches a deadline that comes back as Canceled, Unavailable or Internal: a host that waited long enough would count it against the plugin.",
		},
		{
			ID: "K03-cancel-create", Title: "a creation that was given up midway is completed by the same call again, and destroyed like any other", Promises: []string{"1c"}, Level: Must, Profile: Core, Run: runCancelCreate,
			Doc: "Catches what is half made and neither finished by the next call nor removed: it holds its id, and space, for ever.",
		},
		{
			ID: "K07-cancel-list", Title: "a list whose context ends in the middle ends as context.Canceled", Promises: []string{"14c"}, Level: Must, Profile: Core, Run: runCancelList,
			Doc: "Catches a list that was cut and returns as if it were whole: what is not in it is taken for lost.",
		},
		{
			ID: "N03-destroy-under-calls", Title: "calls at the moment when their container is destroyed succeed, are refused with dead or Unavailable, or are NotFound of the container; afterwards all are",
			Promises: []string{"8h", "8g"}, Level: Must, Profile: Core, Run: runDestroyUnderCalls, Timeout: 2 * DefaultTimeout,
			Doc: "Catches Internal errors, NotFound of a process that would be started again elsewhere, and followers that nobody wakes.",
		},
		{
			ID: "N04-create-under-destroy", Title: "creating and destroying one id at once leaves the whole thing or nothing", Promises: []string{"1h"}, Level: Must, Profile: Core, Run: runCreateUnderDestroy,
			Doc: "Catches what is listed and does not work, and what works and is not listed.",
		},
		{
			ID: "N10-seal-under-stream", Title: "what a seal has sealed does not change any more, also when a stream was under way", Promises: []string{"9b"}, Level: Must, Profile: Core, Run: runSealUnderStream,
			Doc: "Catches a seal that only stops the streams after it: the tree that was cached is another one a moment later.",
		},
	}
}

func runContainerRetry(ctx context.Context, c *C) {
	there, missing := c.Filled(ctx, File("a", "there")), c.VolumeID()
	spec := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: there, Path: "/a"}, sdk.Mount{Volume: missing, Path: "/b"}))
	for range 2 {
		c.WantNotFound(c.W.CreateContainer(ctx, spec, nil), sdk.KindVolume, "a host must learn what is lost", "mounting a volume that is not there")
	}
	c.OK(c.W.CreateVolume(ctx, sdk.VolumeSpec{ID: missing, Token: sdk.NewToken(), Labels: c.Labels()}), "making the volume")
	c.Put(ctx, missing, File("b", "late"))
	c.OK(c.W.CreateContainer(ctx, spec, nil), "creating the container again, with its volume there")
	if i, ok := c.ListContainer(ctx, spec.ID); !ok || i.State != sdk.ContainerReady {
		c.Errorf("after success the container is ready", "listed: %v, state %s", ok, i.State)
	}
	c.WantOutput(c.Exec(ctx, spec.ID, c.Commands.CatFile("/a/a")), "there", "", "the volume that was there at first")
	c.WantOutput(c.Exec(ctx, spec.ID, c.Commands.CatFile("/b/b")), "late", "", "the volume that came later")
}

func runCloneRetry(ctx context.Context, c *C) {
	parent := c.VolumeID()
	clone := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels(), Clone: parent}
	for range 2 {
		c.WantNotFound(c.W.CreateVolume(ctx, clone), sdk.KindVolume, "a host must learn that the source is lost", "cloning a volume that is not there")
	}
	c.OK(c.W.CreateVolume(ctx, sdk.VolumeSpec{ID: parent, Token: sdk.NewToken(), Labels: c.Labels()}), "making the parent")
	c.Put(ctx, parent, File("a", "of the parent"))
	c.OK(c.W.SealVolume(ctx, parent), "sealing the parent")
	c.OK(c.W.CreateVolume(ctx, clone), "cloning again, with the parent there")
	c.WantTree(c.Tree(ctx, clone.ID, ""), []Entry{File("a", "of the parent")}, 0, "the clone of the second try")
}

func runStartRace(ctx context.Context, c *C) {
	const racers = 8
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	spec := c.Spec(c.Commands.Append("/v/runs", "run\n"))
	errs := make(chan error, racers)
	begin := make(chan struct{})
	for range racers {
		own := spec
		own.Token = sdk.NewToken()
		c.Go(func(ctx context.Context) {
			<-begin
			errs <- c.W.StartProcess(ctx, id, own)
		})
	}
	close(begin)
	won := 0
	for range racers {
		err := c.AwaitError(ctx, errs, "the end of a start")
		if err == nil {
			won++
			continue
		}
		c.WantClass(err, sdk.AlreadyExists, "the losers must know that the process is not theirs", "starting one process with %d tokens", racers)
	}
	if won != 1 {
		c.Errorf("an id belongs to one token", "%d of %d starts of one process with different tokens succeeded, want 1", won, racers)
	}
	c.WantExit(c.Follow(ctx, id, spec.ID), 0, "the winner's process")
	c.WantExit(c.Exec(ctx, id, c.Commands.Exit(0)), 0, "another process")
	if runs := find(c.Tree(ctx, v, ""), "runs"); runs.Data != "run\n" {
		c.Errorf("one id is one process", "the file that each run appends a line to is %q, want %q", runs.Data, "run\n")
	}
}

func runDestroyRace(ctx context.Context, c *C) {
	v := c.Filled(ctx, File("a", pattern(100_000)))
	id := c.Container(ctx)
	c.Started(ctx, id, c.Commands.Sleep())
	c.Each(ctx, 8, 8, func(ctx context.Context, i int) {
		if err := c.W.DestroyContainer(ctx, id); err != nil {
			c.Errorf("destroying is idempotent", "destroying a container, one of eight at once: %s", describe(err))
		}
		if err := c.W.DestroyVolume(ctx, v); err != nil {
			c.Errorf("destroying is idempotent", "destroying a volume, one of eight at once: %s", describe(err))
		}
	})
	c.wantNoContainer(ctx, id)
	c.wantNoVolume(ctx, v)
}

func runErrorNames(ctx context.Context, c *C) {
	const why = "what a host gives up as lost, or looks at, is what the error names"
	there := c.Volume(ctx)
	id := c.Container(ctx)
	v, k, p := c.VolumeID(), c.ContainerID(), c.ProcessID()
	mount := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: there, Path: "/a"}, sdk.Mount{Volume: v, Path: "/b"}))
	clone := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels(), Clone: v}
	spec := c.Spec(c.Commands.Exit(0))
	c.OK(c.W.StartProcess(ctx, id, spec), "starting")
	spec.Token = sdk.NewToken()
	again := sdk.VolumeSpec{ID: there, Token: sdk.NewToken(), Labels: c.Labels()}
	for _, tt := range []struct {
		what  string
		err   error
		class sdk.Class
		kind  sdk.Kind
		id    string
	}{
		{"sealing", c.W.SealVolume(ctx, v), sdk.NotFound, sdk.KindVolume, string(v)},
		{"mounting it", c.W.CreateContainer(ctx, mount, nil), sdk.NotFound, sdk.KindVolume, string(v)},
		{"cloning it", c.W.CreateVolume(ctx, clone), sdk.NotFound, sdk.KindVolume, string(v)},
		{"starting in it", c.W.StartProcess(ctx, k, spec), sdk.NotFound, sdk.KindContainer, string(k)},
		{"following in it", c.W.FollowProcess(ctx, k, p, 0, sdk.Follow{}), sdk.NotFound, sdk.KindContainer, string(k)},
		{"following it", c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{}), sdk.NotFound, sdk.KindProcess, string(p)},
		{"signalling it", c.W.SignalProcess(ctx, id, p, sdk.TERM), sdk.NotFound, sdk.KindProcess, string(p)},
		{"another's process", c.W.StartProcess(ctx, id, spec), sdk.AlreadyExists, sdk.KindProcess, string(spec.ID)},
		{"another's volume", c.W.CreateVolume(ctx, again), sdk.AlreadyExists, sdk.KindVolume, string(there)},
	} {
		if !c.WantClass(tt.err, tt.class, why, "%s", tt.what) {
			continue
		}
		if e := asError(tt.err); e.Kind != tt.kind || e.ID != tt.id {
			c.Errorf(why, "%s: the error names the %s %q, want the %s %q", tt.what, e.Kind, e.ID, tt.kind, tt.id)
		}
	}
}

func runRefusedUnchanged(ctx context.Context, c *C) {
	open, sealed := c.Filled(ctx, File("a", "open")), c.Sealed(ctx, File("a", "sealed"))
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: open, Path: "/v"}))
	p := c.Started(ctx, id, c.Commands.Sleep())
	bad := c.Spec(Cmd{Path: "/no/such/program"})
	other := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: sealed, Path: "/v"}))
	for what, call := range map[string]func() error{
		"sealing a volume in use":        func() error { return c.W.SealVolume(ctx, open) },
		"mounting a sealed one writable": func() error { return c.W.CreateContainer(ctx, other, nil) },
		"streaming into a sealed one": func() error {
			return c.W.StreamIn(ctx, sealed, sdk.StreamIn{}, bytes.NewReader(c.Pack([]Entry{File("b", "b")})))
		},
		"streaming out what is not there": func() error { return c.W.StreamOut(ctx, open, sdk.StreamOut{Path: "x"}, &strings.Builder{}) },
		"another token for a volume": func() error {
			return c.W.CreateVolume(ctx, sdk.VolumeSpec{ID: open, Token: sdk.NewToken(), Labels: c.Labels(), Clone: sealed})
		},
		"another token for a container": func() error {
			return c.W.CreateContainer(ctx, sdk.ContainerSpec{ID: id, Token: sdk.NewToken(), Labels: c.Labels()}, nil)
		},
		"a start that is Invalid":  func() error { return c.W.StartProcess(ctx, id, bad) },
		"a signal that is Invalid": func() error { return c.W.SignalProcess(ctx, id, p, "NOPE") },
	} {
		if call() == nil {
			c.Errorf("what cannot be done is refused", "%s succeeded", what)
		}
	}
	c.wantCount(ctx, 2, 1)
	for v, want := range map[sdk.VolumeID]sdk.VolumeState{open: sdk.VolumeOpen, sealed: sdk.VolumeSealed} {
		if i, _ := c.ListVolume(ctx, v); i.State != want {
			c.Errorf("a refusal changes nothing", "a volume is %s, want %s", i.State, want)
		}
	}
	c.WantTree(c.Tree(ctx, open, ""), []Entry{File("a", "open")}, 0, "the open volume")
	c.WantTree(c.Tree(ctx, sealed, ""), []Entry{File("a", "sealed")}, 0, "the sealed volume")
	infos, err := c.W.ListProcesses(ctx, id)
	c.OK(err, "listing processes")
	if len(infos) != 1 || infos[0].ID != p || infos[0].State != sdk.ProcessRunning {
		c.Errorf("a refusal changes nothing", "the container lists %+v, want one running process", infos)
	}
}

func runDeadlineBefore(ctx context.Context, c *C) {
	open := c.Filled(ctx, File("a", "a"))
	container := c.Container(ctx)
	running := c.Started(ctx, container, c.Commands.Sleep())
	over, cancel := context.WithTimeout(ctx, -1)
	defer cancel()
	v, k := c.VolumeID(), c.ContainerSpec()
	for what, call := range map[string]func() error{
		"Status": func() error { _, err := c.W.Status(over); return err },
		"CreateVolume": func() error {
			return c.W.CreateVolume(over, sdk.VolumeSpec{ID: v, Token: sdk.NewToken(), Labels: c.Labels()})
		},
		"SealVolume":       func() error { return c.W.SealVolume(over, open) },
		"DestroyVolume":    func() error { return c.W.DestroyVolume(over, open) },
		"StreamOut":        func() error { return c.W.StreamOut(over, open, sdk.StreamOut{}, &strings.Builder{}) },
		"CreateContainer":  func() error { return c.W.CreateContainer(over, k, nil) },
		"DestroyContainer": func() error { return c.W.DestroyContainer(over, container) },
		"ListProcesses":    func() error { _, err := c.W.ListProcesses(over, container); return err },
		"FollowProcess":    func() error { return c.W.FollowProcess(over, container, running, 0, sdk.Follow{}) },
		"SignalProcess":    func() error { return c.W.SignalProcess(over, container, running, sdk.KILL) },
		"ListVolumes":      func() error { return c.W.ListVolumes(over, sdk.Filter{}, func(sdk.VolumeInfo) error { return nil }) },
		"ListContainers": func() error {
			return c.W.ListContainers(over, sdk.Filter{}, func(sdk.ContainerInfo) error { return nil })
		},
	} {
		if err := call(); !errors.Is(err, context.DeadlineExceeded) {
			c.Errorf("errors of a context come back as what they are", "%s after its deadline: got %s", what, describe(err))
		}
	}
	c.wantNoVolume(ctx, v)
	c.wantNoContainer(ctx, k.ID)
	if i, _ := c.Process(ctx, container, running); i.State != sdk.ProcessRunning {
		c.Errorf("a call that was given up has no effect", "the process that was running is %s", i.State)
	}
	c.WantTree(c.Tree(ctx, open, ""), []Entry{File("a", "a")}, 0, "the volume")
}

func runCancelCreate(ctx context.Context, c *C) {
	parent := c.Sealed(ctx, someTree()...)
	for i := range 3 {
		v := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels(), Clone: parent}
		k := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: parent, Path: "/v", ReadOnly: true}))
		half, cancel := context.WithCancel(ctx)
		begun, ended := make(chan struct{}, 2), make(chan error, 2)
		c.Go(func(context.Context) { begun <- struct{}{}; ended <- c.W.CreateVolume(half, v) })
		c.Go(func(context.Context) {
			begun <- struct{}{}
			ended <- c.W.CreateContainer(half, k, func(sdk.Progress) { cancel() })
		})
		for range 2 {
			c.Await(ctx, begun, "the beginning of a creation")
		}
		if i > 0 { // the first time it goes on until it reports progress or is done
			cancel()
		}
		for range 2 {
			if err := c.AwaitError(ctx, ended, "the end of a creation that was given up"); err != nil && !isCanceled(err) {
				c.Errorf("a context that has ended ends the call, as context.Canceled", "creating: got %s", describe(err))
			}
		}
		cancel()
		c.OK(c.W.CreateVolume(ctx, v), "creating the volume again")
		c.OK(c.W.CreateContainer(ctx, k, nil), "creating the container again")
		c.WantTree(c.Tree(ctx, v.ID, ""), someTree(), c.treeTimes(), "the volume")
		c.WantOutput(c.Exec(ctx, k.ID, c.Commands.CatFile("/v/hello")), "hello, world\n", "", "the container")
	}
}

func runCancelList(ctx context.Context, c *C) {
	for range 5 {
		c.Volume(ctx)
	}
	c.Container(ctx)
	c.Container(ctx)
	const why = "a context that has ended ends the call, as context.Canceled"
	seen := 0
	listing, cancel := context.WithCancel(ctx)
	defer cancel()
	err := c.W.ListVolumes(listing, sdk.Filter{Labels: c.Labels()}, func(sdk.VolumeInfo) error { seen++; cancel(); return listing.Err() })
	if !isCanceled(err) || seen != 1 {
		c.Errorf(why, "ListVolumes cancelled at its first volume: got %s after %d", describe(err), seen)
	}
	seen = 0
	listing, cancel = context.WithCancel(ctx)
	defer cancel()
	err = c.W.ListContainers(listing, sdk.Filter{Labels: c.Labels()}, func(sdk.ContainerInfo) error { seen++; cancel(); return listing.Err() })
	if !isCanceled(err) || seen != 1 {
		c.Errorf(why, "ListContainers cancelled at its first container: got %s after %d", describe(err), seen)
	}
}

func runDestroyUnderCalls(ctx context.Context, c *C) {
	const why = "of a destroyed container nothing is known: NotFound of a process would say that it never ran"
	for range max(2, c.Times(10)) {
		id := c.Container(ctx)
		old := c.Started(ctx, id, c.Commands.Sleep())
		calls := []func(context.Context) error{
			func(ctx context.Context) error { return c.W.StartProcess(ctx, id, c.Spec(c.Commands.Print("x", ""))) },
			func(ctx context.Context) error { _, err := c.W.ListProcesses(ctx, id); return err },
			func(ctx context.Context) error { return c.W.FollowProcess(ctx, id, old, 0, sdk.Follow{}) },
			func(ctx context.Context) error { return c.W.SignalProcess(ctx, id, old, sdk.CONT) },
		}
		begin := make(chan struct{})
		ended := make(chan error, len(calls)+1)
		for _, call := range calls {
			c.Go(func(ctx context.Context) {
				<-begin
				err := call(ctx)
				if errors.Is(err, sdk.FailedPrecondition) && errors.Is(err, sdk.ReasonDead) {
					err = nil // it is half gone, and still listed
				}
				ended <- err
			})
		}
		c.Go(func(ctx context.Context) {
			<-begin
			ended <- c.W.DestroyContainer(ctx, id)
		})
		close(begin)
		for range cap(ended) {
			err := c.AwaitError(ctx, ended, "the end of a call on a container that is being destroyed")
			if err != nil && !errors.Is(err, sdk.Unavailable) { // which says to call again
				c.WantNotFound(err, sdk.KindContainer, why, "a call on a container that is being destroyed")
			}
		}
		for _, call := range calls {
			c.WantNotFound(call(ctx), sdk.KindContainer, why, "a call on a container that was destroyed under another")
		}
		c.wantNoContainer(ctx, id)
	}
}

func runCreateUnderDestroy(ctx context.Context, c *C) {
	for range max(2, c.Times(20)) {
		v := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels()}
		begin := make(chan struct{})
		created, destroyed := make(chan error, 1), make(chan error, 1)
		c.Go(func(ctx context.Context) { <-begin; created <- c.W.CreateVolume(ctx, v) })
		c.Go(func(ctx context.Context) { <-begin; destroyed <- c.W.DestroyVolume(ctx, v.ID) })
		close(begin)
		c.AwaitError(ctx, created, "the end of a creation") // it may have lost, and say so as it likes
		c.OK(c.AwaitError(ctx, destroyed, "the end of a destruction"), "destroying what is being created")
		if i, ok := c.ListVolume(ctx, v.ID); ok && i.State == sdk.VolumeOpen {
			c.Put(ctx, v.ID, File("a", "a"))
			c.WantTree(c.Tree(ctx, v.ID, ""), []Entry{File("a", "a")}, 0, "a volume that is listed as open")
		} else if !ok {
			c.WantNotFound(c.W.SealVolume(ctx, v.ID), sdk.KindVolume, "what is not listed is not there", "sealing a volume that is not listed")
		}
		c.OK(c.W.DestroyVolume(ctx, v.ID), "destroying it")
		c.wantNoVolume(ctx, v.ID)
	}
}

func runSealUnderStream(ctx context.Context, c *C) {
	archive := c.Pack([]Entry{File("a", pattern(400_000)), File("b", "b")})
	for range max(2, c.Times(10)) {
		id := c.Volume(ctx)
		streamed := make(chan error, 1)
		reading := make(chan struct{})
		in := &tellingReader{r: bytes.NewReader(archive), first: reading}
		c.Go(func(ctx context.Context) { streamed <- c.W.StreamIn(ctx, id, sdk.StreamIn{}, in) })
		c.Await(ctx, reading, "the first read of an archive")
		sealErr := c.W.SealVolume(ctx, id)
		streamErr := c.AwaitError(ctx, streamed, "the end of a stream into a volume that is being sealed")
		if sealErr != nil {
			c.WantReason(sealErr, sdk.FailedPrecondition, sdk.ReasonInUse, "a seal that has to wait for a stream says so", "sealing under a stream")
			c.OK(streamErr, "the stream under which sealing was refused")
			continue
		}
		if streamErr != nil {
			c.WantReason(streamErr, sdk.FailedPrecondition, sdk.ReasonSealed, "a stream that came too late says so", "the stream under a seal")
		}
		first := c.Tree(ctx, id, "")
		c.WantTree(c.Tree(ctx, id, ""), first, 0, "a sealed volume a moment later")
		if streamErr == nil {
			c.WantTree(first, []Entry{File("a", pattern(400_000)), File("b", "b")}, 0, "a volume whose stream and seal have succeeded")
		}
	}
}

// tellingReader tells of its first read.
type tellingReader struct {
	r     *bytes.Reader
	first chan struct{}
	told  bool
}

func (t *tellingReader) Read(p []byte) (int, error) {
	if !t.told {
		t.told = true
		close(t.first)
	}
	return t.r.Read(p[:min(len(p), 4096)])
}
