package conformance

import (
	"context"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// identityCases check what a thing is: its id and its token.
func identityCases() []Case {
	return []Case{
		{
			ID: "D01-create-again", Title: "creating with the same id and token ten times makes one thing", Promises: []string{"1b"}, Level: Must, Profile: Core, Run: runCreateAgain,
			Doc: "A host repeats a call whose answer was lost. The repetition has to be the same thing, and specs are not compared.",
		},
		{
			ID: "D02-create-race", Title: "of many creations at once with different tokens one wins and the others are AlreadyExists",
			Promises: []string{"1d"}, Level: Must, Profile: Core, Run: runCreateRace, Repeat: 3,
			Doc: "Looking first and creating then lets two winners through.",
		},
		{
			ID: "D03-other-token", Title: "the id of another token is AlreadyExists and leaves the first thing alone", Promises: []string{"1d"}, Level: Must, Profile: Core, Run: runOtherToken,
			Doc: "Two creations that mistake each other's thing for their own write into one volume.",
		},
		{
			ID: "C04-bad-ids", Title: "ids and tokens outside the contract's alphabet are Invalid and nothing is made", Promises: []string{"1a"}, Level: Must, Profile: Core, Run: runBadIDs,
			Doc: "An id ends up in paths, names and commands of the backend: one with a slash or dots in it must never get that far.",
		},
		{
			ID: "C05-longest-id", Title: "the longest id, and the longest token, are taken", Promises: []string{"1a"}, Level: Must, Profile: Core, Run: runLongestID,
			Doc: "A plugin that puts a prefix before the host's id runs into the backend's bound.",
		},
		{
			ID: "E02-unknown-ids", Title: "an unknown id is NotFound of what was not found; destroying it succeeds", Promises: []string{"3e", "1e", "3f"}, Level: Must, Profile: Core, Run: runUnknownIDs,
			Doc: "NotFound of a process means that it never ran and may be started; NotFound of its container that all is lost. A host that hears the wrong one runs a step twice, or never.",
		},
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
