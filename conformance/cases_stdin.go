package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// stdinCases check what processes read.
func stdinCases() []Case {
	return []Case{
		{
			ID: "I08-stdin-eof", Title: "stdin comes byte for byte, its end is seen, and output after it still comes", Promises: []string{"7a", "7b"}, Level: Must, Profile: Core, Run: runStdin,
			Doc: "sort, tar and compilers wait for the end of stdin before they write anything.",
		},
		{
			ID: "I09-stdin-none", Title: "a process without stdin sees its end at once, also when a follower brings some", Promises: []string{"7d"}, Level: Must, Profile: Core, Run: runStdinNone,
			Doc: "A program that reads the plugin's own stdin hangs, or eats it.",
		},
		{
			ID: "I10-stdin-error", Title: "an error of the caller's stdin ends the call unchanged and closes nothing", Promises: []string{"7c", "14b"}, Level: Must, Profile: Core, Run: runStdinError,
			Doc: "The end of stdin is said, never inferred: half of an input that looks whole gives a wrong result with code 0.",
		},
		{
			ID: "I20-stdin-resume", Title: "stdin that is resumed from where it was taken neither repeats nor skips a byte", Promises: []string{"7e"}, Level: Must, Profile: Core, Run: runStdinResume,
			Doc: "What was sent and not taken is lost with the connection, what was taken must not come twice.",
		},
		{
			ID: "I21-stdin-generation", Title: "bytes of a follower that was superseded are not taken", Promises: []string{"7f"}, Level: Must, Profile: Core, Run: runStdinGeneration,
			Doc: "Two writers on one stdin mix their bytes.",
		},
		{
			ID: "I22-stdin-unread", Title: "an exit is delivered although stdin was not read", Promises: []string{"6h"}, Level: Must, Profile: Core, Run: runStdinUnread,
			Doc: "A program that ends early breaks the pipe; that is not the program's failure, nor the follower's.",
		},
	}
}

// FollowStdin follows a process from its start, with stdin, to its exit.
func (c *C) FollowStdin(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, stdin io.Reader) Journal {
	var j Journal
	c.OK(c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{Stdin: stdin})), "following process %q with stdin", p)
	if j.Exit == nil {
		c.Fatalf("a follower that returns nil has delivered the exit", "following process %q ended without an exit", p)
	}
	return j
}

func runStdin(ctx context.Context, c *C) {
	id := c.Container(ctx)
	for _, n := range []int{0, 1, 4096, 1_000_003} {
		p := c.Start(ctx, id, c.Commands.Cat(), WithStdin)
		var taken int64
		var j Journal
		data := pattern(n)
		c.OK(c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{
			Stdin: strings.NewReader(data),
			Taken: func(total int64) {
				if total < taken || total > int64(n) {
					c.Errorf("Taken counts what was taken, upwards", "Taken says %d after %d, of %d bytes", total, taken, n)
				}
				taken = total
			},
		})), "following with stdin")
		c.WantOutput(j, data, "", "cat with %d bytes", n)
		c.WantExit(j, 0, "cat with %d bytes", n)
		if j.Opened.StdinGeneration == 0 || j.Opened.StdinTaken != 0 {
			c.Errorf("the first follower with stdin gets a generation, and nothing was taken yet", "generation %d, taken %d", j.Opened.StdinGeneration, j.Opened.StdinTaken)
		}
	}
}

func runStdinNone(ctx context.Context, c *C) {
	id := c.Container(ctx)
	j := c.Exec(ctx, id, c.Commands.Cat())
	c.WantOutput(j, "", "", "cat without stdin")
	c.WantExit(j, 0, "cat without stdin")
	p := c.Start(ctx, id, c.Commands.Cat())
	j = c.FollowStdin(ctx, id, p, strings.NewReader("nobody asked for this"))
	c.WantOutput(j, "", "", "cat without stdin, and a follower with some")
	c.WantExit(j, 0, "cat without stdin, and a follower with some")
}

func runStdinError(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Cat(), WithStdin)
	var none int64
	broken := newTakenReader(ctx)
	in := io.MultiReader(strings.NewReader("half"), broken)
	err := c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{Stdin: in, Acks: acknowledge(0), Taken: broken.after(&none), Exit: func(sdk.Exit) error {
		return errSeen // its stdin was closed: nothing more will come
	}})
	if err != (callerError{}) {
		c.Errorf("errors of the caller's own reader come back unchanged", "following with a broken stdin: got %s", describe(err))
	}
	if i, _ := c.Process(ctx, id, p); i.State != sdk.ProcessRunning {
		c.Fatalf("a lost stdin is not its end", "cat is %s after its stdin broke", i.State)
	}
	j := c.resumeStdin(ctx, id, p, "half and half")
	c.WantOutput(j, "half and half", "", "cat after its stdin was resumed")
}

// resumeStdin follows from the start and gives of data what was not taken yet.
func (c *C) resumeStdin(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, data string) Journal {
	var j Journal
	in := &lateReader{}
	c.OK(c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{Stdin: in, Opened: func(o sdk.Opened) error {
		if o.StdinTaken < 0 || o.StdinTaken > int64(len(data)) {
			c.Errorf("Opened tells how much of stdin was taken", "Opened says %d of %d bytes", o.StdinTaken, len(data))
			return callerError{}
		}
		in.r = strings.NewReader(data[o.StdinTaken:])
		return nil
	}})), "following with the rest of stdin")
	return j
}

// lateReader must not be read before Opened has returned.
type lateReader struct{ r io.Reader }

func (l *lateReader) Read(p []byte) (int, error) {
	if l.r == nil {
		return 0, fmt.Errorf("stdin was read before Opened had returned")
	}
	return l.r.Read(p)
}

// takenReader has nothing to give, and fails once a follower heard that something was taken: so what was sent before is not all lost with
// the call. From is what had been taken when that call began.
type takenReader struct {
	ctx   context.Context
	once  sync.Once
	taken chan struct{}
}

func newTakenReader(ctx context.Context) *takenReader {
	return &takenReader{ctx: ctx, taken: make(chan struct{})}
}

// after gives a follower's Taken: more than from must have been taken.
func (r *takenReader) after(from *int64) func(int64) {
	return func(total int64) {
		if total > *from {
			r.once.Do(func() { close(r.taken) })
		}
	}
}

func (r *takenReader) Read([]byte) (int, error) {
	select {
	case <-r.taken:
		return 0, callerError{}
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

func runStdinResume(ctx context.Context, c *C) {
	id := c.Container(ctx)
	data := pattern(3_000_000)
	p := c.Start(ctx, id, c.Commands.Cat(), WithStdin)
	sent := 0
	for i := range 4 {
		// Each follower stops somewhere in the middle of its stdin.
		in, broken := &lateReader{}, newTakenReader(ctx)
		n := 200_000 + c.Rand.IntN(300_000)
		var from int64
		var j Journal
		err := c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{Stdin: in, Acks: acknowledge(0), Taken: broken.after(&from), Opened: func(o sdk.Opened) error {
			if o.StdinTaken < 0 || o.StdinTaken > int64(sent) {
				c.Errorf("only what was sent can have been taken", "follower %d: Opened says %d bytes of stdin, %d were sent", i+1, o.StdinTaken, sent)
				return callerError{}
			}
			from = o.StdinTaken
			sent = int(from) + n
			in.r = io.MultiReader(strings.NewReader(data[from:sent]), broken)
			return nil
		}}))
		if err != (callerError{}) {
			c.Fatalf("errors of the caller's own reader come back unchanged", "follower %d: got %s", i+1, describe(err))
		}
	}
	j := c.resumeStdin(ctx, id, p, data)
	c.WantOutput(j, data, "", "cat of a stdin in five parts")
	c.WantExit(j, 0, "cat of a stdin in five parts")
}

func runStdinGeneration(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Cat(), WithStdin)
	oldIn, oldOut := io.Pipe()
	defer oldOut.Close()
	older := make(chan error, 1)
	generation := make(chan int64, 1)
	c.Go(func(ctx context.Context) {
		older <- c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{
			Stdin: oldIn, Acks: acknowledge(0),
			Opened: func(o sdk.Opened) error { generation <- o.StdinGeneration; return nil },
		})
		oldIn.Close() // nobody reads it any more
	})
	var first int64
	select {
	case first = <-generation:
	case <-ctx.Done():
		c.Fatalf("a follower is opened", "the older follower's Opened did not come")
	}
	newIn, newOut := io.Pipe()
	defer newOut.Close()
	newer := make(chan error, 1)
	opened := make(chan struct{})
	var j Journal
	c.Go(func(ctx context.Context) {
		newer <- c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{Stdin: newIn, Opened: func(o sdk.Opened) error { close(opened); return nil }}))
		newIn.Close()
	})
	c.Await(ctx, opened, "the newer follower's Opened")
	io.WriteString(oldOut, "of the older one\n") // taken by a read that was under way, or refused: in no case by the process
	err := c.AwaitError(ctx, older, "the older follower's end")
	c.WantReason(err, sdk.FailedPrecondition, sdk.ReasonSuperseded, "a follower must know that it is not the one any more", "the older follower")
	io.WriteString(newOut, "of the newer one\n")
	newOut.Close()
	c.OK(c.AwaitError(ctx, newer, "the newer follower's end"), "the newer follower")
	c.WantOutput(j, "of the newer one\n", "", "cat with two followers")
	if j.Opened.StdinGeneration <= first {
		c.Errorf("generations grow", "the newer follower's generation is %d, the older one's was %d", j.Opened.StdinGeneration, first)
	}
}

func runStdinUnread(ctx context.Context, c *C) {
	id := c.Container(ctx)
	for range 5 {
		p := c.Start(ctx, id, c.Commands.Exit(8), WithStdin)
		j := c.FollowStdin(ctx, id, p, bytes.NewReader(make([]byte, 4<<20)))
		c.WantExit(j, 8, "a process that does not read its stdin")
	}
	// A reader that never returns must not hold the exit either.
	never, w := io.Pipe()
	defer w.Close()
	p := c.Start(ctx, id, c.Commands.Exit(9), WithStdin)
	c.WantExit(c.FollowStdin(ctx, id, p, never), 9, "a process whose follower's stdin is blocked")
}
