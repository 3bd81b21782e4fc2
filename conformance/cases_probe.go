package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// probeCases look at containers from inside, with the suite's own program: they need nothing of an image.
func probeCases() []Case {
	probe, linux := []Requirement{EnvProbe}, []Requirement{EnvProbeLinux}
	return []Case{
		{
			ID: "P06-path-lookup", Title: "a bare name is sought in the process's PATH, and a relative path begins in its directory", Promises: []string{"11d", "13i"}, Level: Must, Profile: Core, Run: runPathLookup,
			Env: probe, Doc: "Catches a look-up in the plugin's own PATH, which finds the machine's program or none.",
		},
		{
			ID: "I05-big-output", Title: "64 MiB of output that no two chunks of are alike come whole, on either stream", Promises: []string{"5a"}, Level: Must, Profile: Core, Run: runBigOutput,
			Env: probe, Timeout: 4 * time.Minute, Doc: "Catches chunks that are swapped, repeated or lost, which a pattern that repeats hides.",
		},
		{
			ID: "I06-big-stdin", Title: "64 MiB of stdin come whole, which the program itself says", Promises: []string{"7a"}, Level: Must, Profile: Core, Run: runBigStdin,
			Env: probe, Timeout: 2 * time.Minute, Doc: "Catches faults of stdin that a way back through cat would hide or be blamed for.",
		},
		{
			ID: "I26-order-across", Title: "what is written to stdout and stderr by turns comes in that order", Promises: []string{"5b"}, Level: Must, Profile: Core, Run: runOrderAcross,
			Env: probe, Doc: "Catches two readers without a common clock: the error message comes before the line that it is about.",
		},
		{
			ID: "V11-clone-changes", Title: "what a process removes, renames, replaces and cuts in a clone is so in the clone, and not in the parent", Promises: []string{"9f"}, Level: Must, Profile: Core, Run: runCloneChanges,
			Env: probe, Doc: "Catches layers that forget a removal: the file is back in the next step.",
		},
		{
			ID: "V18-owner", Title: "a volume's root belongs to whom its spec says, of a clone too, and nothing below it is changed", Promises: []string{"9a"}, Level: Must, Profile: Linux, Run: runOwner,
			Env: linux, Doc: "Catches volumes that only root can write, and owners that are set on all of a clone's files.",
		},
		{
			ID: "F33-seen-inside", Title: "a tree is, for a process, what its archive said: modes, owners, sizes, times and links", Promises: []string{"9l"}, Level: Must, Profile: Linux, Run: runSeenInside,
			Env: linux, Doc: "Catches a plugin that keeps what an archive said beside the files, and gives that back: no process ever sees it.",
		},
		{
			ID: "C17-empty-image", Title: "an image that holds nothing will do: processes start, read, write and are killed in it", Promises: []string{"8b"}, Level: Must, Profile: Core, Run: runEmptyImage,
			Needs: []sdk.Feature{sdk.FeatureImageVolume}, Env: probe, Doc: "Catches a plugin that uses the image's own sh, kill, tar or /etc/passwd.",
		},
		{
			ID: "Z14-own-processes", Title: "a process sees those of its own container and of no other", Promises: []string{"13f"}, Level: Must, Profile: Isolation, Run: runOwnProcesses,
			Env: linux, Doc: "Catches containers that share a view of processes: arguments hold secrets, and what can be seen can be signalled.",
		},
		{
			ID: "L06-memory-together", Title: "a limit on memory is for all processes of a container together", Promises: []string{"6i"}, Level: Must, Profile: Linux, Run: runMemoryTogether,
			Needs: []sdk.Feature{sdk.FeatureLimitsMemory, sdk.FeatureExitOOM}, Env: linux, Timeout: 2 * DefaultTimeout, Doc: "Catches a limit that is set for each process: ten of them take ten times as much.",
		},
	}
}

func runPathLookup(ctx context.Context, c *C) {
	id := c.Container(ctx)
	cmd := c.Probe("print", "found", "")
	for what, tt := range map[string]struct {
		path, dir string
		env       []string
	}{
		"a bare name in PATH":            {probeName, "", []string{"PATH=/no/such/place:" + probeDir}},
		"a bare name in the last PATH":   {probeName, "", []string{"PATH=/no/such/place", "PATH=" + probeDir}},
		"a path relative to Dir":         {"./" + probeName, probeDir, []string{"PATH=/"}},
		"one that goes up":               {"../" + strings.TrimPrefix(probeDir, "/") + "/" + probeName, probeDir, []string{"PATH=/"}},
		"an absolute one, whatever PATH": {probeDir + "/" + probeName, "", []string{"PATH="}},
	} {
		j := c.Exec(ctx, id, Cmd{Path: tt.path, Args: cmd.Args}, func(s *sdk.ProcessSpec) { s.Dir, s.Env = tt.dir, tt.env })
		c.WantOutput(j, "found", "", "%s", what)
	}
	for _, env := range []string{"PATH=/no/such/place", "PATH=" + probeDir + "/" + probeName} {
		spec := c.Spec(Cmd{Path: probeName, Args: cmd.Args}, func(s *sdk.ProcessSpec) { s.Env = []string{env} })
		c.WantReason(c.W.StartProcess(ctx, id, spec), sdk.Invalid, sdk.ReasonExecutableNotFound, "PATH is the process's own", "a bare name with %s", env)
	}
}

func runBigOutput(ctx context.Context, c *C) {
	id := c.Container(ctx)
	total := int64(c.Times(64 << 20))
	for _, tt := range []struct {
		stream sdk.Stream
		chunk  int64
		args   []string
	}{{sdk.Stdout, 64 << 10, nil}, {sdk.Stderr, 1<<20 + 1, []string{"stderr"}}, {sdk.Stdout, total, nil}} {
		seed := c.Rand.Int64N(1 << 40)
		args := append([]string{"pattern", strconv.FormatInt(seed, 10), strconv.FormatInt(total, 10), strconv.FormatInt(tt.chunk, 10)}, tt.args...)
		p := c.Start(ctx, id, c.Probe(args...))
		want := newGenerator(uint64(seed))
		var n int64
		buf := make([]byte, sdk.MaxRecordBytes)
		var exit *sdk.Exit
		err := c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{
			Output: func(rs []sdk.Record) error {
				for _, r := range rs {
					want.fill(buf[:len(r.Data)])
					if r.Stream != tt.stream || !bytes.Equal(r.Data, buf[:len(r.Data)]) {
						c.Errorf("output is exact per stream", "of %d bytes of %s in writes of %d, what comes at %d on %s is another", total, tt.stream, tt.chunk, r.Position, r.Stream)
						return callerError{}
					}
					n += int64(len(r.Data))
				}
				return nil
			},
			Exit: func(e sdk.Exit) error { exit = &e; return nil },
		})
		if err == (callerError{}) {
			return // said already
		}
		c.OK(err, "following")
		if n != total || exit == nil || exit.Code != 0 {
			c.Errorf("output is exact per stream", "%d bytes came of %d, and %s", n, total, exitText(exit))
		}
	}
}

func runBigStdin(ctx context.Context, c *C) {
	id := c.Container(ctx)
	total := int64(c.Times(64 << 20))
	in := hashed(io.LimitReader(newGenerator(c.Rand.Uint64()), total))
	p := c.Start(ctx, id, c.Probe("hash"), WithStdin)
	j := c.FollowStdin(ctx, id, p, in)
	c.WantOutput(j, fmt.Sprintf("%d %x\n", total, in.sum()), "", "the checksum of %d bytes of stdin", total)
	c.WantExit(j, 0, "the checksum of %d bytes of stdin", total)
}

func runOrderAcross(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Probe("talk"), WithStdin)
	in, keyboard := io.Pipe()
	defer in.Close()
	const turns = 20
	answered := make(chan struct{}, turns)
	c.Go(func(context.Context) {
		defer keyboard.Close()
		for i := range turns {
			if _, err := fmt.Fprintf(keyboard, "%c %d\n", "oe"[i%2], i); err != nil {
				return
			}
			select {
			case <-answered:
			case <-ctx.Done():
				return
			}
		}
	})
	var got, want []string
	for i := range turns {
		want = append(want, fmt.Sprintf("%s %d", []sdk.Stream{sdk.Stdout, sdk.Stderr}[i%2], i))
	}
	c.OK(c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{Stdin: in, Output: func(rs []sdk.Record) error {
		for _, r := range rs {
			for line := range strings.Lines(string(r.Data)) {
				got = append(got, fmt.Sprintf("%s %s", r.Stream, strings.TrimSpace(line)))
				answered <- struct{}{}
			}
		}
		return nil
	}}), "following")
	if !slices.Equal(got, want) {
		c.Errorf("output is in the order in which it was seen, across streams", "lines by turns came as %q, want %q", got, want)
	}
}

func runCloneChanges(ctx context.Context, c *C) {
	before := []Entry{Dir("d"), File("d/in", "in"), File("gone", "gone"), File("old-name", "renamed"), File("file", "file"), File("cut", "0123456789"), Dir("empty"), File("kept", "kept")}
	parent := c.Sealed(ctx, before...)
	clone := c.Clone(ctx, parent)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: clone, Path: "/v"}))
	j := c.Exec(ctx, id, c.Probe("seq",
		"rm", "/v/gone", ";", "mv", "/v/old-name", "/v/new-name", ";",
		"rm", "/v/file", ";", "mkdir", "/v/file", ";", "write", "/v/file/inside", "now a directory", ";",
		"rm", "/v/d", ";", "write", "/v/d", "now a file", ";",
		"truncate", "3", "/v/cut", ";", "rm", "/v/empty", ";", "mkdir", "/v/empty", ";", "append", "/v/kept", "+"))
	c.WantExit(j, 0, "changing a clone")
	want := []Entry{File("d", "now a file"), File("new-name", "renamed"), Dir("file"), File("file/inside", "now a directory"), File("cut", "012"), Dir("empty"), File("kept", "kept+")}
	c.WantTree(c.Tree(ctx, clone, ""), want, IgnoreMeta, "the clone")
	c.WantTree(c.Tree(ctx, parent, ""), before, c.treeTimes(), "the parent")
	c.OK(c.W.SealVolume(ctx, clone), "sealing the clone")
	c.WantTree(c.Tree(ctx, c.Clone(ctx, clone), ""), want, IgnoreMeta, "a clone of the clone")
}

// seenInside is a line of the probe's tree.
type seenInside struct {
	Path     string
	Mode     fs.FileMode
	Size     int64
	UID, GID int
	Links    int
	Time     int64
	Link     string
}

// look gives a tree as a process sees it, by path; the root is ".".
func (c *C) look(ctx context.Context, id sdk.ContainerID, path string) map[string]seenInside {
	j := c.Exec(ctx, id, c.Probe("tree", path))
	c.WantExit(j, 0, "looking at %s", path)
	all := make(map[string]seenInside)
	lines := bufio.NewScanner(bytes.NewReader(j.Stdout))
	for lines.Scan() {
		var s seenInside
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			c.Broken(fmt.Errorf("the probe's tree: %w", err))
		}
		all[s.Path] = s
	}
	return all
}

func runOwner(ctx context.Context, c *C) {
	spec := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels(), UID: 1234, GID: 5678}
	c.OK(c.W.CreateVolume(ctx, spec), "creating a volume with an owner")
	inner := File("f", "x")
	inner.UID, inner.GID = 42, 43
	c.Put(ctx, spec.ID, inner)
	c.OK(c.W.SealVolume(ctx, spec.ID), "sealing")
	clone := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels(), Clone: spec.ID, UID: 99, GID: 100}
	c.OK(c.W.CreateVolume(ctx, clone), "cloning it for another owner")
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: spec.ID, Path: "/v", ReadOnly: true}, sdk.Mount{Volume: clone.ID, Path: "/w"}))
	for path, want := range map[string][2]int{"/v": {1234, 5678}, "/w": {99, 100}} {
		tree := c.look(ctx, id, path)
		if root := tree["."]; root.UID != want[0] || root.GID != want[1] {
			c.Errorf("a volume's root belongs to whom its spec says", "%s belongs to %d:%d, want %d:%d", path, root.UID, root.GID, want[0], want[1])
		}
		if f := tree["f"]; f.UID != 42 || f.GID != 43 {
			c.Errorf("the owner is set on nothing below the root", "%s/f belongs to %d:%d, want 42:43", path, f.UID, f.GID)
		}
	}
}

func runSeenInside(ctx context.Context, c *C) {
	v := c.Sealed(ctx, someTree()...)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v", ReadOnly: true}))
	tree := c.look(ctx, id, "/v")
	for _, want := range someTree() {
		got, ok := tree[want.Path]
		mode := fs.FileMode(want.Mode & 0o777)
		links := 1
		size := int64(len(want.Data))
		switch {
		case want.Mode&0o4000 != 0:
			mode |= fs.ModeSetuid
		case want.Type == '5':
			mode, links, size = mode|fs.ModeDir, got.Links, got.Size
		case want.Type == '2':
			mode, size = got.Mode.Perm()|fs.ModeSymlink, got.Size
		case want.Type == '1':
			size = int64(len("hello, world\n"))
		}
		if want.Type == '1' || want.Path == "hello" {
			links = 2
		}
		link := ""
		if want.Type == '2' {
			link = want.Link
		}
		if !ok || got.Mode != mode || got.UID != want.UID || got.GID != want.GID || got.Size != size || got.Links != links || got.Link != link {
			c.Errorf("a process sees what the archive said", "%q is, from inside, %+v (there: %v); want mode %v, owner %d:%d, %d bytes, %d links, target %q",
				want.Path, got, ok, mode, want.UID, want.GID, size, links, link)
		}
		if want.Type != '5' && got.Time != want.ModTime {
			c.Errorf("a process sees what the archive said", "%q has the time %d from inside, want %d", want.Path, got.Time, want.ModTime)
		}
	}
	if len(tree) != len(someTree())+1 {
		c.Errorf("a process sees what the archive said", "there are %d files, want %d", len(tree)-1, len(someTree()))
	}
}

func runEmptyImage(ctx context.Context, c *C) {
	image := c.Sealed(ctx, Dir("rootfs"), File("metadata.json", "{}"))
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}), func(s *sdk.ContainerSpec) { s.Image = sdk.Image{Volume: image} })
	c.WantExit(c.Exec(ctx, id, c.Commands.Exit(7)), 7, "a process in an empty image")
	c.WantOutput(c.Exec(ctx, id, c.Commands.Print("out", "err")), "out", "err", "a process in an empty image")
	c.WantExit(c.Exec(ctx, id, c.Commands.Append("/v/f", "x")), 0, "writing to a volume")
	c.WantOutput(c.Exec(ctx, id, c.Commands.Dir(), func(s *sdk.ProcessSpec) { s.Dir = "/made" }), "/made\n", "", "a directory that is made")
	p := c.Start(ctx, id, c.Commands.Gate("before\n", "after\n", 3), WithStdin)
	c.WantOutput(c.FollowStdin(ctx, id, p, strings.NewReader("go\n")), "before\nafter\n", "", "stdin in an empty image")
	for _, signal := range []sdk.Signal{sdk.TERM, sdk.KILL} {
		p := c.Started(ctx, id, c.Commands.Sleep())
		c.OK(c.W.SignalProcess(ctx, id, p, signal), "sending %s", signal)
		if e := c.FollowAfter(ctx, signal, id, p).Exit; e.Code != 128+signal.Number() {
			c.Errorf("signals need nothing in the image", "after %s: got %s", signal, exitText(e))
		}
	}
	c.WantTree(c.Tree(ctx, v, ""), []Entry{File("f", "x")}, IgnoreMeta, "the volume")
	c.WantTree(c.Tree(ctx, image, "rootfs"), nil, 0, "the image afterwards")
}

// inside gives what /proc says of a container's processes.
func (c *C) inside(ctx context.Context, id sdk.ContainerID) (all [][]string) {
	j := c.Exec(ctx, id, c.Probe("processes"))
	c.WantExit(j, 0, "listing processes from inside")
	for line := range strings.Lines(string(j.Stdout)) {
		var p struct{ Args []string }
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			c.Broken(fmt.Errorf("the probe's processes: %w", err))
		}
		all = append(all, p.Args)
	}
	return all
}

// seenInside puts the probe into a container whose commands are a shell's, where the target has one that sees processes.
func (c *C) seenInside(spec *sdk.ContainerSpec) {
	if c.seesShell() {
		c.mountProbe(spec)
	}
}

func (c *C) seesShell() bool {
	p, ok := c.suite.target.probe()
	_, shell := c.Commands.(Shell)
	return ok && !p.wasm && shell
}

// sleepers counts the processes that have to do with Commands.Sleep, in a container with [C.seenInside]. Where nobody can look there are none.
func (c *C) sleepers(ctx context.Context, id sdk.ContainerID) (n int) {
	if !c.seesShell() {
		return 0
	}
	for _, args := range c.inside(ctx, id) {
		if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "sleep") }) {
			n++
		}
	}
	return n
}

func runOwnProcesses(ctx context.Context, c *C) {
	first, second := c.Container(ctx), c.Container(ctx)
	secret := "secret-" + string(sdk.NewToken())
	p := c.Start(ctx, first, c.Probe("gate", "ready\n", secret, "0"), WithStdin)
	c.AwaitOutput(ctx, first, p, "ready\n")
	sees := func(id sdk.ContainerID) bool {
		return slices.ContainsFunc(c.inside(ctx, id), func(args []string) bool { return slices.Contains(args, secret) })
	}
	if !sees(first) {
		c.Errorf("a process sees those of its container", "it does not see the one beside it")
	}
	if sees(second) {
		c.Errorf("a process sees those of no other container", "it sees the arguments of another container's")
	}
}

func runMemoryTogether(ctx context.Context, c *C) {
	id := c.Container(ctx, func(s *sdk.ContainerSpec) { s.Limits.MemoryBytes = 256 << 20 })
	hold := c.Probe("seq", "alloc", strconv.Itoa(170<<20), ";", "nap", "3600000")
	first := c.Start(ctx, id, hold)
	c.AwaitOutput(ctx, id, first, "held\n")
	if i, _ := c.Process(ctx, id, first); i.State != sdk.ProcessRunning {
		c.Errorf("what is within a limit is not ended by it", "a process with 170 of 256 MiB is %s with %s", i.State, exitText(i.Exit))
	}
	second := c.Start(ctx, id, hold)
	var j Journal
	err := c.W.FollowProcess(ctx, id, second, 0, j.Into(sdk.Follow{Output: func([]sdk.Record) error { return errSeen }}))
	victim := second // or the first, if it is that which makes room
	if err == errSeen {
		victim = first
		if _, ok := c.FollowFor(ctx, c.Patience(soonDead), id, first); !ok {
			c.Fatalf("a limit holds for all processes together", "two processes have 170 MiB each, of 256")
		}
	} else {
		c.OK(err, "following the second process")
	}
	if i, _ := c.Process(ctx, id, victim); i.Exit == nil || i.Exit.Reason != sdk.ExitOOM || i.Exit.Code == 0 {
		c.Errorf("a process that memory ran out for says so", "of two processes with 170 MiB each, of 256, the one that had to go: %s", exitText(i.Exit))
	}
	c.WantExit(c.Exec(ctx, id, c.Commands.Exit(3)), 3, "the container afterwards")
}
