package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keeper"
)

// A runtime whose containers are plain commands: what it does to start a process, and to follow one.
func Example() {
	ctx := context.Background()
	spec := sdk.ProcessSpec{ID: "p1", Token: sdk.NewToken(), Path: "tr", Args: []string{"a-z", "A-Z"}, Stdin: true}

	// StartProcess: the process is the runtime's, not the call's (rule 2).
	journal := keeper.New(spec, nil)
	running, kill := context.WithCancel(context.Background())
	defer kill()
	ended := make(chan error, 1)
	go func() { ended <- run(running, spec, journal) }()

	// FollowProcess.
	err := journal.Follow(ctx, 0, sdk.Follow{
		Stdin: strings.NewReader("hello\n"),
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				fmt.Printf("%v: %s", r.Stream, r.Data)
			}
			return nil
		},
		Exit: func(e sdk.Exit) error {
			fmt.Println("exit", e.Code)
			return nil
		},
	})
	fmt.Println(err, <-ended)
	// Output:
	// stdout: HELLO
	// exit 0
	// <nil> <nil>
}

// run is the life of a process.
func run(ctx context.Context, spec sdk.ProcessSpec, journal *keeper.Journal) error {
	cmd := exec.CommandContext(ctx, spec.Path, spec.Args...)
	stdin, err1 := cmd.StdinPipe()
	stdout, stdoutEnd, err2 := os.Pipe()
	stderr, stderrEnd, err3 := os.Pipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err // files that are open are closed by the garbage collector
	}
	cmd.Stdout, cmd.Stderr = stdoutEnd, stderrEnd
	defer func() { _, _ = stdout.Close(), stderr.Close() }()
	started := time.Now()
	err := cmd.Start()
	_, _ = stdoutEnd.Close(), stderrEnd.Close() // the process has its own
	if err != nil {
		return err // a real runtime looks before it makes the journal: that would have been Invalid
	}

	var feeding, draining sync.WaitGroup
	feeding.Go(func() {
		_, _ = io.Copy(stdin, toProcess{ctx, journal})
		journal.CloseStdin() // at its end already, or the process reads no more
		_ = stdin.Close()
	})
	var cut [2]error
	draining.Go(func() { _, cut[0] = io.Copy(fromProcess{ctx, journal, sdk.Stdout}, stdout) })
	draining.Go(func() { _, cut[1] = io.Copy(fromProcess{ctx, journal, sdk.Stderr}, stderr) })

	err = cmd.Wait()
	grace := time.Now().Add(sdk.OutputGrace)
	_, _ = stdout.SetReadDeadline(grace), stderr.SetReadDeadline(grace)
	draining.Wait() // a full journal may hold it longer: the exit waits for that (rule 6)
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		journal.Abandon()
		return err
	}
	journal.Exit(sdk.Exit{
		Code: cmd.ProcessState.ExitCode(), Reason: sdk.ExitExited, // signals left out
		StartedAt: started, EndedAt: time.Now(), OutputCut: cut[0] != nil || cut[1] != nil,
	})
	feeding.Wait() // which the exit has ended
	return nil
}

// toProcess and fromProcess are the process's side of its journal.
type toProcess struct {
	ctx     context.Context
	journal *keeper.Journal
}

func (p toProcess) Read(b []byte) (int, error) { return p.journal.ReadStdin(p.ctx, b) }

type fromProcess struct {
	ctx     context.Context
	journal *keeper.Journal
	stream  sdk.Stream
}

func (p fromProcess) Write(b []byte) (int, error) { return p.journal.Write(p.ctx, p.stream, b) }
