package host

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// improvised is a runtime whose followers tell what a text of bytes makes of them, over as many followings as the host begins.
type improvised struct {
	sdk.Runtime
	mu sync.Mutex
	by map[sdk.ContainerID]*improvisation
}

// improvisation is what is told of one process.
type improvisation struct {
	rest  []byte
	first *sdk.Exit // that was told
}

func (r *improvised) Worker(name string) (sdk.Worker, error) {
	w, err := r.Runtime.Worker(name)
	return &improvisedWorker{w, r}, err
}

type improvisedWorker struct {
	sdk.Worker
	of *improvised
}

func (w *improvisedWorker) FollowProcess(ctx context.Context, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	w.of.mu.Lock()
	i := w.of.by[c]
	w.of.mu.Unlock()
	return i.follow(ctx, p, from, f)
}

// byte takes the next one; 0 once there is none.
func (i *improvisation) byte() byte {
	if len(i.rest) == 0 {
		return 0
	}
	b := i.rest[0]
	i.rest = i.rest[1:]
	return b
}

// number takes an exit's code or a part of a position: mostly a small one.
func (i *improvisation) number() int64 {
	b := i.byte()
	if b < 250 || len(i.rest) < 8 {
		return int64(int8(b))
	}
	n := binary.BigEndian.Uint64(i.rest)
	i.rest = i.rest[8:]
	return int64(n)
}

func (i *improvisation) follow(ctx context.Context, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	at := from
	for len(i.rest) > 0 {
		var err error
		switch i.byte() % 10 {
		case 0, 1:
			err = f.Opened(sdk.Opened{State: sdk.ProcessState(i.byte()), StdinTaken: i.number()})
		case 2, 3:
			r := sdk.Record{Stream: sdk.Stdout, Position: at + sdk.Position(i.number()), Data: make([]byte, i.byte())}
			at = r.End()
			err = f.Output([]sdk.Record{r})
		case 4:
			r := sdk.Record{Position: at + sdk.Position(i.number()), GapTo: sdk.Position(i.number())}
			err = f.Output([]sdk.Record{r})
		case 5, 6:
			e := sdk.Exit{Code: int(i.number()), Reason: []sdk.ExitReason{sdk.ExitExited, sdk.ExitSignalled, sdk.ExitOOM, "because", ""}[i.byte()%5],
				Signal: []sdk.Signal{"", sdk.KILL, "none"}[i.byte()%3]}
			if e.Code >= 64 { // words and times without measure
				e.Message, e.StartedAt, e.EndedAt = strings.Repeat("\x1b[2J", 20<<10), time.Unix(-1<<60, 0), time.Unix(1<<60, 0)
			}
			if i.first == nil {
				i.first = &e
			}
			err = f.Exit(e)
		case 7:
			return nil
		case 8:
			reasons := []sdk.Reason{"", sdk.ReasonSuperseded, sdk.ReasonOutputGap, sdk.ReasonAbandoned, sdk.ReasonRecordLost, "because"}
			return &sdk.Error{Class: sdk.Class(i.byte() % 12), Kind: []sdk.Kind{"", sdk.KindContainer, sdk.KindProcess}[i.byte()%3], ID: string(p),
				Reason: reasons[int(i.byte())%len(reasons)], Position: from + sdk.Position(i.number()), RetryAfter: time.Duration(i.byte()), Message: "made up"}
		case 9:
			if i.byte()%4 == 0 { // nothing more comes of this following
				i.rest = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// FuzzFollow: whatever a plugin tells of a process, the host comes to an end of it within its patience, and takes nothing for a success but a first exit that is one.
func FuzzFollow(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 0, 2, 0, 5, 5, 0, 0, 0})                                           // opened, output, exit 0
	f.Add([]byte{5, 0, 0, 0})                                                             // exit 0 before all else
	f.Add([]byte{5, 64, 0, 0})                                                            // exit 64, with much to say
	f.Add([]byte{0, 1, 0, 5, 3, 0, 0, 5, 0, 0, 0})                                        // 3, then 0
	f.Add([]byte{0, 1, 0, 5, 251, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0})              // 256, then 0
	f.Add([]byte{0, 1, 0, 5, 0, 1, 1, 7, 5, 0, 0, 0})                                     // 0 by KILL, an end, then 0
	f.Add([]byte{0, 1, 0, 2, 255, 3, 2, 251, 127, 255, 255, 255, 255, 255, 255, 255})     // output before the first and beyond the last
	f.Add([]byte{4, 0, 251, 127, 255, 255, 255, 255, 255, 255, 255, 2, 0, 9, 5, 0, 0, 0}) // a gap to the last, output after it
	f.Add([]byte{8, 4, 0, 2, 1, 0, 8, 4, 0, 2, 1, 0, 8, 4, 0, 2, 1, 0})                   // gaps by errors
	f.Add([]byte{8, 1, 1, 0, 0, 0, 7, 8, 7, 0, 1, 0, 0})                                  // not found, superseded
	f.Add([]byte{0, 0, 5, 0, 0, 0, 2, 0, 200, 5, 1, 0, 0, 8, 1, 2, 0, 0, 0})              // what comes after an exit
	rt := &improvised{Runtime: newMemory(f, "m"), by: make(map[sdk.ContainerID]*improvisation)}
	cfg := testConfig("m")
	cfg.Timing.WorkerGone, cfg.Timing.MissingGrace = 20*time.Millisecond, 20*time.Millisecond
	h := openConfig(f, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": rt}})
	n := 0
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<10 {
			return
		}
		n++
		ctx := testkit.Context(t)
		c, err := h.Container(ctx, fmt.Sprintf("fuzz/%d", n), ContainerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		i := &improvisation{rest: text}
		rt.mu.Lock()
		rt.by[c.id] = i
		rt.mu.Unlock()
		p, err := c.Start(ctx, MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "sleep 600"}})
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := p.Wait(ctx)
		if err != nil {
			t.Fatalf("following it has no end: %v", err)
		}
		switch {
		case outcome.Exit == nil && outcome.Err == nil:
			t.Error("it came to nothing")
		case outcome.Exit != nil && (i.first == nil || outcome.Exit.Code != i.first.Code || outcome.Exit.Signal != i.first.Signal):
			t.Errorf("it came to %+v, and what was told first is %+v", outcome.Exit, i.first)
		case outcome.Exit != nil && outcome.Exit.Validate() != nil:
			t.Errorf("it came to %+v, which is no end", outcome.Exit)
		}
		if err := c.Destroy(ctx); err != nil {
			t.Error(err)
		}
	})
}
