package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Patience gives a time as the user's Options.TimeScale makes it: for what happens soon, unless never.
func (c *C) Patience(d time.Duration) time.Duration {
	return c.suite.scaled(d)
}

// Volume makes an empty open volume.
func (c *C) Volume(ctx context.Context) sdk.VolumeID {
	id := c.VolumeID()
	c.OK(c.W.CreateVolume(ctx, sdk.VolumeSpec{ID: id, Token: sdk.NewToken(), Labels: c.Labels()}), "creating volume %q", id)
	return id
}

// Filled makes an open volume that holds the entries.
func (c *C) Filled(ctx context.Context, entries ...Entry) sdk.VolumeID {
	id := c.Volume(ctx)
	c.Put(ctx, id, entries...)
	return id
}

// Sealed makes a sealed volume that holds the entries.
func (c *C) Sealed(ctx context.Context, entries ...Entry) sdk.VolumeID {
	id := c.Filled(ctx, entries...)
	c.OK(c.W.SealVolume(ctx, id), "sealing volume %q", id)
	return id
}

// Clone makes a clone.
func (c *C) Clone(ctx context.Context, parent sdk.VolumeID) sdk.VolumeID {
	id := c.VolumeID()
	spec := sdk.VolumeSpec{ID: id, Token: sdk.NewToken(), Labels: c.Labels(), Clone: parent}
	c.OK(c.W.CreateVolume(ctx, spec), "cloning volume %q into %q", parent, id)
	return id
}

// Put streams entries into a volume.
func (c *C) Put(ctx context.Context, id sdk.VolumeID, entries ...Entry) {
	c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(c.Pack(entries))), "streaming into volume %q", id)
}

// Tree streams a path of a volume out; empty: all of it.
func (c *C) Tree(ctx context.Context, id sdk.VolumeID, path string) []Entry {
	var b bytes.Buffer
	c.OK(c.W.StreamOut(ctx, id, sdk.StreamOut{Path: path}, &b), "streaming %q out of volume %q", path, id)
	entries, err := Unpack(&b)
	if err != nil {
		c.Fatalf("what a volume gives must be an archive that others can read", "streaming %q out of volume %q: %v", path, id, err)
	}
	return entries
}

// ListVolume gives what the list says of a volume; ok is false if it is not listed. That it is listed twice is a failure.
func (c *C) ListVolume(ctx context.Context, id sdk.VolumeID) (info sdk.VolumeInfo, ok bool) {
	err := c.W.ListVolumes(ctx, sdk.Filter{ID: string(id)}, func(v sdk.VolumeInfo) error {
		if ok || v.ID != id {
			c.Errorf("a list by id holds that one thing", "listing volume %q gave %q", id, v.ID)
		}
		info, ok = v, true
		return nil
	})
	c.OK(err, "listing volume %q", id)
	return info, ok
}

// Mounts makes a mount of each path and volume.
func (c *C) Mounts(ms ...sdk.Mount) func(*sdk.ContainerSpec) {
	return func(s *sdk.ContainerSpec) { s.Mounts = ms }
}

// ContainerSpec gives the spec of a plain container.
func (c *C) ContainerSpec(with ...func(*sdk.ContainerSpec)) sdk.ContainerSpec {
	spec := sdk.ContainerSpec{ID: c.ContainerID(), Token: sdk.NewToken(), Labels: c.Labels(), Image: c.suite.target.Image}
	for _, f := range with {
		f(&spec)
	}
	c.withProbe(&spec)
	return spec
}

// Container makes a container.
func (c *C) Container(ctx context.Context, with ...func(*sdk.ContainerSpec)) sdk.ContainerID {
	spec := c.ContainerSpec(with...)
	c.OK(c.W.CreateContainer(ctx, spec, nil), "creating container %q", spec.ID)
	return spec.ID
}

// ListContainer gives what the list says of a container; ok is false if it is not listed. That it is listed twice is a
// failure.
func (c *C) ListContainer(ctx context.Context, id sdk.ContainerID) (info sdk.ContainerInfo, ok bool) {
	err := c.W.ListContainers(ctx, sdk.Filter{ID: string(id)}, func(i sdk.ContainerInfo) error {
		if ok || i.ID != id {
			c.Errorf("a list by id holds that one thing", "listing container %q gave %q", id, i.ID)
		}
		info, ok = i, true
		return nil
	})
	c.OK(err, "listing container %q", id)
	return info, ok
}

// Spec gives the spec of a process.
func (c *C) Spec(cmd Cmd, with ...func(*sdk.ProcessSpec)) sdk.ProcessSpec {
	spec := sdk.ProcessSpec{ID: c.ProcessID(), Token: sdk.NewToken(), Path: cmd.Path, Args: cmd.Args}
	for _, f := range with {
		f(&spec)
	}
	return spec
}

// WithStdin lets a process have stdin.
func WithStdin(s *sdk.ProcessSpec) { s.Stdin = true }

// Start starts a process.
func (c *C) Start(ctx context.Context, id sdk.ContainerID, cmd Cmd, with ...func(*sdk.ProcessSpec)) sdk.ProcessID {
	spec := c.Spec(cmd, with...)
	c.OK(c.W.StartProcess(ctx, id, spec), "starting process %q in container %q", spec.ID, id)
	return spec.ID
}

// Exec starts a process and follows it to its exit.
func (c *C) Exec(ctx context.Context, id sdk.ContainerID, cmd Cmd, with ...func(*sdk.ProcessSpec)) Journal {
	p := c.Start(ctx, id, cmd, with...)
	return c.Follow(ctx, id, p)
}

// Follow follows a process from its start to its exit.
func (c *C) Follow(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID) Journal {
	var j Journal
	c.OK(c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{})), "following process %q", p)
	if j.Exit == nil {
		c.Fatalf("a follower that returns nil has delivered the exit: a host would wait for ever or guess",
			"following process %q ended without an exit", p)
	}
	return j
}

// FollowAfter is Follow after a signal, which a failure then names.
func (c *C) FollowAfter(ctx context.Context, signal sdk.Signal, id sdk.ContainerID, p sdk.ProcessID) Journal {
	var j Journal
	c.OK(c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{})), "following process %q to its end after %s", p, signal)
	if j.Exit == nil {
		c.Fatalf("a follower that returns nil has delivered the exit: a host would wait for ever or guess",
			"following process %q after %s ended without an exit", p, signal)
	}
	return j
}

// Process gives what the list says of a process; ok is false if it is not listed.
func (c *C) Process(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID) (info sdk.ProcessInfo, ok bool) {
	infos, err := c.W.ListProcesses(ctx, id)
	c.OK(err, "listing the processes of container %q", id)
	for _, i := range infos {
		if i.ID != p {
			continue
		}
		if ok {
			c.Errorf("a process is listed once", "process %q is listed twice", p)
		}
		info, ok = i, true
	}
	return info, ok
}

// Journal is what a follower got. It belongs to one follower at a time.
type Journal struct {
	Opened         sdk.Opened
	Stdout, Stderr []byte
	Gaps           []sdk.Record
	End            sdk.Position // after the last record
	Exit           *sdk.Exit
}

// Into makes a follower write into j, before it does what f says.
func (j *Journal) Into(f sdk.Follow) sdk.Follow {
	own := f
	own.Opened = func(o sdk.Opened) error {
		j.Opened = o
		if f.Opened != nil {
			return f.Opened(o)
		}
		return nil
	}
	own.Output = func(rs []sdk.Record) error {
		for _, r := range rs {
			j.add(r)
		}
		if f.Output != nil {
			return f.Output(rs)
		}
		return nil
	}
	own.Exit = func(e sdk.Exit) error {
		j.Exit = &e
		if f.Exit != nil {
			return f.Exit(e)
		}
		return nil
	}
	return own
}

func (j *Journal) add(r sdk.Record) {
	j.End = r.End()
	switch {
	case r.IsGap():
		j.Gaps = append(j.Gaps, r)
	case r.Stream == sdk.Stderr:
		j.Stderr = append(j.Stderr, r.Data...)
	default:
		j.Stdout = append(j.Stdout, r.Data...)
	}
}

// WantExit fails the case unless the process exited by itself with the code.
func (c *C) WantExit(j Journal, code int, what string, args ...any) {
	e := j.Exit
	if e == nil || e.Code != code || e.Reason != sdk.ExitExited || e.Signal != "" {
		c.Errorf("the exit is what a host calls success or failure: it must be the process's own",
			"%s: got %s, want code %d", fmt.Sprintf(what, args...), exitText(e), code)
	}
}

// WantOutput fails the case unless the streams held exactly these bytes.
func (c *C) WantOutput(j Journal, stdout, stderr string, what string, args ...any) {
	const why = "output is exact per stream: not a byte lost, added, changed or on the other stream"
	what = fmt.Sprintf(what, args...)
	if got := string(j.Stdout); got != stdout {
		c.Errorf(why, "%s: stdout is %s", what, difference(got, stdout))
	}
	if got := string(j.Stderr); got != stderr {
		c.Errorf(why, "%s: stderr is %s", what, difference(got, stderr))
	}
}

// difference shows two strings around the first byte that differs.
func difference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(0, i-16)
	cut := func(s string) string { return fmt.Sprintf("%q", s[min(from, len(s)):min(i+48, len(s))]) }
	if from == 0 && len(got) <= i+48 && len(want) <= i+48 {
		return fmt.Sprintf("%q, want %q", got, want)
	}
	return fmt.Sprintf("%d bytes, want %d; they differ from byte %d on: …%s…, want …%s…", len(got), len(want), i, cut(got), cut(want))
}

func exitText(e *sdk.Exit) string {
	if e == nil {
		return "no exit"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "code %d (%s", e.Code, e.Reason)
	if e.Signal != "" {
		fmt.Fprintf(&b, " by %s", e.Signal)
	}
	b.WriteString(")")
	if e.OutputCut {
		b.WriteString(", output cut")
	}
	return b.String()
}

// sameExit compares what must never change.
func sameExit(a, b sdk.Exit) bool {
	return a.Code == b.Code && a.Signal == b.Signal && a.Reason == b.Reason && a.OutputCut == b.OutputCut
}

func isCanceled(err error) bool { return errors.Is(err, context.Canceled) }

// asError gives the contract's error in err's chain, or an empty one.
func asError(err error) sdk.Error {
	e, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		return sdk.Error{}
	}
	return *e
}
