package conformance

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// loadCases check processes that are many, short, loud, or not listened to.
func loadCases() []Case {
	linux := []Requirement{EnvProbeLinux}
	return []Case{
		{
			ID: "P29-args-kernel", Title: "what is within the contract's bound and beyond the kernel's works, or is Invalid with too-large and leaves no record", Promises: []string{"11e", "1i"}, Level: Must, Profile: Core, Run: runArgsKernel,
			Doc: "The kernel takes 128 KiB in one argument, and in all of them a part of what the stack may have. A host that hears of neither sees a program that fails for no reason.",
		},
		{
			ID: "S15-one-process", Title: "a signal reaches its process and no other one of the container", Promises: []string{"8a"}, Level: Must, Profile: Core, Run: runSignalOne,
			Doc: "Processes that share a group, or a backend that signals the whole container, show here.",
		},
		{
			ID: "S21-kill-strangers", Title: "KILL ends its process while others start in another container, and none of those", Promises: []string{"8a", "8b"}, Level: Must, Profile: Core, Run: runKillStrangers,
			Doc: "Whoever finds a tree by numbers that the kernel uses again, of processes, groups or namespaces, kills what has just got one of them.",
		},
		{
			ID: "X07-instant-exit", Title: "a thousand processes that end at once all say 0", Promises: []string{"6d"}, Level: Must, Profile: Core, Run: runInstantExit, Timeout: 5 * time.Minute,
			Doc: "A process may have ended before whoever started it begins to wait.",
		},
		{
			ID: "I03-tiny-writes", Title: "a million writes of one byte each come whole", Promises: []string{"5a"}, Level: Must, Profile: Linux, Run: runTinyWrites, Timeout: 2 * time.Minute,
			Env: linux, Doc: "A message for each write makes a megabyte into an hour.",
		},
		{
			ID: "I04-huge-write", Title: "64 MiB in one write come whole", Promises: []string{"5a"}, Level: Must, Profile: Linux, Run: runHugeWrite, Timeout: 2 * time.Minute,
			Env: linux, Doc: "Messages and buffers have bounds of their own.",
		},
		{
			ID: "I07-duplex", Title: "64 MiB go in and come out at the same time", Promises: []string{"7a", "5a"}, Level: Must, Profile: Core, Run: runDuplex, Timeout: 2 * time.Minute,
			Doc: "Whoever writes all of stdin before reading stdout waits for a program that waits for them.",
		},
		{
			ID: "I13-unfollowed", Title: "a process that nobody follows, held by its full journal, does not hold up another", Promises: []string{"5l"}, Level: Must, Profile: Core, Run: runUnfollowed,
			Doc: "One connection for all output stalls with its slowest reader.",
		},
		{
			ID: "A09-churn", Title: "two hundred followers that come and go leave the process, its output and the container as they were", Promises: []string{"2d"}, Level: Must, Profile: Core, Run: runChurn,
			Doc: "A leak for each lost connection fills the container of a service that runs for months.",
		},
	}
}

func runArgsKernel(ctx context.Context, c *C) {
	id := c.Container(ctx)
	many := make([]string, 60_000)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	for what, args := range map[string][]string{"one argument of 1 MiB": {strings.Repeat("x", 1<<20)}, "sixty thousand arguments": many} {
		spec := c.Spec(c.Commands.Args(args...))
		err := c.W.StartProcess(ctx, id, spec)
		if err != nil {
			c.WantReason(err, sdk.Invalid, sdk.ReasonTooLarge, "what cannot fit is told as such", "%s", what)
			if _, ok := c.Process(ctx, id, spec.ID); ok {
				c.Errorf("a start that was Invalid leaves no record", "the process with %s is listed", what)
			}
			continue
		}
		c.WantOutput(c.Follow(ctx, id, spec.ID), "["+strings.Join(args, "]\n[")+"]\n", "", what)
	}
	c.WantExit(c.Exec(ctx, id, c.Commands.Exit(3)), 3, "the container afterwards")
}

func runSignalOne(ctx context.Context, c *C) {
	id := c.Container(ctx)
	waiting := c.Start(ctx, id, c.Commands.Gate("before\n", "after\n", 6), WithStdin)
	c.AwaitOutput(ctx, id, waiting, "before\n")
	trapped := c.Started(ctx, id, c.Commands.Trap(sdk.TERM, 7))
	for signal, code := range map[sdk.Signal]int{sdk.TERM: 143, sdk.INT: 130, sdk.HUP: 129, sdk.KILL: 137} {
		p := c.Started(ctx, id, c.Commands.Sleep())
		c.OK(c.W.SignalProcess(ctx, id, p, signal), "sending %s", signal)
		if e := c.FollowAfter(ctx, signal, id, p).Exit; e.Code != code || e.Signal != signal {
			c.Errorf("a signal reaches its process", "after %s: got %s, want code %d", signal, exitText(e), code)
		}
	}
	for what, p := range map[string]sdk.ProcessID{"that waits": waiting, "that handles TERM": trapped} {
		if i, _ := c.Process(ctx, id, p); i.State != sdk.ProcessRunning {
			c.Errorf("a signal reaches no other process", "after signals to others, a process %s is %s with %s", what, i.State, exitText(i.Exit))
		}
	}
	j := c.FollowStdin(ctx, id, waiting, strings.NewReader("go\n"))
	c.WantExit(j, 6, "a process that nobody signalled")
	c.WantOutput(j, "before\nafter\n", "", "a process that nobody signalled")
	c.OK(c.W.SignalProcess(ctx, id, trapped, sdk.TERM), "sending TERM")
	c.WantOutput(c.Follow(ctx, id, trapped), "ready\ncaught\n", "", "a process that was signalled once")
}

func runKillStrangers(ctx context.Context, c *C) {
	killed, others := c.Container(ctx), c.Container(ctx)
	for i := range c.Times(50) {
		p := c.Started(ctx, killed, c.Commands.Sleep())
		waiting := c.Start(ctx, others, c.Commands.Gate("before\n", "after\n", 6), WithStdin)
		c.Each(ctx, 2, 2, func(ctx context.Context, n int) {
			if n == 0 {
				c.WantExit(c.Exec(ctx, others, c.Commands.Exit(0)), 0, "a process that starts while one of another container is killed, %d", i)
				return
			}
			c.OK(c.W.SignalProcess(ctx, killed, p, sdk.KILL), "sending KILL")
			if e := c.Follow(ctx, killed, p).Exit; e.Code != 137 || e.Signal != sdk.KILL {
				c.Errorf("KILL always kills", "after KILL %d: got %s, want code 137 (signalled by KILL)", i, exitText(e))
			}
		})
		c.WantExit(c.FollowStdin(ctx, others, waiting, strings.NewReader("go\n")), 6, "a process that was started just before one of another container was killed, %d", i)
	}
}

func runInstantExit(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.Each(ctx, c.Times(1000), 8, func(ctx context.Context, i int) {
		j := c.Exec(ctx, id, c.Commands.Exit(0))
		c.WantExit(j, 0, "process %d", i)
		c.WantOutput(j, "", "", "process %d", i)
	})
}

func runTinyWrites(ctx context.Context, c *C) { c.patternInWrites(ctx, c.Times(1_000_000), 1) }

func runHugeWrite(ctx context.Context, c *C) {
	total := c.Times(64<<20 + 10)
	c.patternInWrites(ctx, total, total)
}

// patternInWrites has a process write that many bytes, so many at a time, and wants them whole.
func (c *C) patternInWrites(ctx context.Context, total, each int) {
	id := c.Container(ctx)
	seed := c.Rand.Int64N(1 << 40)
	want := make([]byte, total)
	newGenerator(uint64(seed)).fill(want)
	j := c.Exec(ctx, id, c.Probe("pattern", strconv.FormatInt(seed, 10), strconv.Itoa(total), strconv.Itoa(each)))
	c.WantOutput(j, string(want), "", "%d bytes in writes of %d", total, each)
	c.WantExit(j, 0, "%d bytes in writes of %d", total, each)
}

func runDuplex(ctx context.Context, c *C) {
	total := int64(c.Times(64 << 20))
	unit := pattern(1_000_003)
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Cat(), WithStdin)
	got := sha256.New()
	in := hashed(io.LimitReader(&endless{unit: unit}, total))
	var end sdk.Position
	var exit *sdk.Exit
	acks := make(chan sdk.Position, 1)
	c.OK(c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{
		Stdin: in, Acks: acks,
		Output: func(rs []sdk.Record) error {
			for _, r := range rs {
				write(got, r)
				end = r.End()
			}
			select {
			case <-acks: // an older one that was not received yet
			default:
			}
			acks <- end
			return nil
		},
		Exit: func(e sdk.Exit) error { exit = &e; return nil },
	}), "following cat with %d bytes", total)
	if exit == nil || exit.Code != 0 {
		c.Errorf("the exit is the process's own", "cat with %d bytes: got %s, want code 0", total, exitText(exit))
	}
	if int64(end) != total || string(got.Sum(nil)) != string(in.sum()) {
		c.Errorf("output is exact", "cat with %d bytes gave %d, with the checksum %x, want %x", total, end, got.Sum(nil), in.sum())
	}
}

func write(h hash.Hash, r sdk.Record) {
	if r.Stream == sdk.Stdout {
		h.Write(r.Data)
	}
}

// endless repeats a text.
type endless struct {
	unit string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.unit[e.at:])
	e.at = (e.at + n) % len(e.unit)
	return n, nil
}

func runUnfollowed(ctx context.Context, c *C) {
	id, other := c.Container(ctx), c.Container(ctx)
	small := func(s *sdk.ProcessSpec) { s.Spill = spill }
	alone := c.Start(ctx, id, c.Commands.Lines(spillLines), small)
	// One that is followed and not acknowledged, by a follower that does not come back from its first output.
	stalled := c.Start(ctx, id, c.Commands.Lines(spillLines), small)
	release, stuck := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	ended := make(chan error, 1)
	var j Journal
	c.Go(func(ctx context.Context) {
		ended <- c.W.FollowProcess(ctx, id, stalled, 0, j.Into(sdk.Follow{Output: func([]sdk.Record) error {
			if first.CompareAndSwap(false, true) {
				close(stuck)
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return nil
		}}))
	})
	c.Await(ctx, stuck, "the first output")
	for _, where := range []sdk.ContainerID{id, other} {
		c.WantOutput(c.Exec(ctx, where, c.Commands.Lines(20_000)), numbers(1, 20_000), "", "a process beside two that are held")
	}
	for _, p := range []sdk.ProcessID{alone, stalled} {
		if i, _ := c.Process(ctx, id, p); i.State != sdk.ProcessRunning {
			c.Errorf("a writer whose output is not acknowledged waits", "it is %s with %s", i.State, exitText(i.Exit))
		}
	}
	close(release)
	c.OK(c.AwaitError(ctx, ended, "the end of the follower that was stalled"), "following")
	c.WantOutput(j, numbers(1, spillLines), "", "the process whose follower was stalled")
	c.WantOutput(c.Follow(ctx, id, alone), numbers(1, spillLines), "", "the process that nobody followed")
}

func runChurn(ctx context.Context, c *C) {
	c.preferProbe()
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("before\n", "after\n", 5), WithStdin)
	c.AwaitOutput(ctx, id, p, "before\n")
	before := c.openFiles(ctx, id)
	c.Each(ctx, 200, 4, func(ctx context.Context, i int) {
		followCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		in, keyboard := io.Pipe() // never a byte
		defer in.Close()
		defer keyboard.Close()
		err := c.W.FollowProcess(followCtx, id, p, 0, sdk.Follow{Stdin: in, Acks: acknowledge(0), Output: func([]sdk.Record) error {
			cancel()
			return nil
		}})
		if !isCanceled(err) && !errors.Is(err, sdk.ReasonSuperseded) { // four at once supersede each other
			c.Errorf("a context that has ended ends the call, as context.Canceled", "follower %d: got %s", i, describe(err))
		}
	})
	if after := c.openFiles(ctx, id); after > before+50 {
		c.Errorf("who comes and goes leaves nothing behind", "the container's processes have %d files open, %d before two hundred followers", after, before)
	}
	j := c.FollowStdin(ctx, id, p, strings.NewReader("go\n"))
	c.WantOutput(j, "before\nafter\n", "", "after two hundred followers")
	c.WantExit(j, 5, "after two hundred followers")
}

// openFiles counts the descriptors of all processes of a container; zero where that cannot be seen.
func (c *C) openFiles(ctx context.Context, id sdk.ContainerID) int {
	if p, ok := c.Commands.(caseProbe); !ok || p.wasm {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(c.Exec(ctx, id, c.Probe("open-files")).Stdout)))
	if err != nil {
		c.Broken(fmt.Errorf("the probe's count of open files: %w", err))
	}
	return n
}
