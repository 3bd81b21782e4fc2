package keeper

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// The environment that makes the test program a keeper.
const childDir = "SLIPWAY_KEEPER_TEST_DIR"

// child writes until it is killed, with a follower at its heels who acknowledges up to a mebibyte late, and prints the end after each
// Write and what is acknowledged.
func child(dir string) int {
	ctx := context.Background()
	spec := sdk.ProcessSpec{Spill: 2 << 20}
	j := New(spec, NewSegments(dir, spec))
	go func() {
		acks := make(chan sdk.Position)
		last := sdk.Position(0)
		err := j.Follow(ctx, 0, sdk.Follow{Acks: acks, Output: func(records []sdk.Record) error {
			if p := records[len(records)-1].End() - rand.N(sdk.Position(1<<20)); p > last {
				last = p
				fmt.Println("acked", p) // said before, so that no more is dropped than was said
				acks <- p
			}
			return nil
		}})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}()
	most := []int{10, 1000, 200_000}[rand.IntN(3)]
	for end := sdk.Position(0); ; {
		n, err := j.Write(ctx, sdk.Stdout+sdk.Stream(rand.IntN(2)), pattern(end, end+1+rand.N(sdk.Position(most))))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
		end += sdk.Position(n)
		fmt.Println("wrote", end)
	}
}

func TestKillLosesNothingThatWasWritten(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	torn := 0
	for round := range 50 {
		dir := filepath.Join(t.TempDir(), "journal")
		wrote, acked := killed(t, exe, dir)
		store, err := OpenSegments(os.DirFS(dir), 0)
		if err != nil {
			t.Fatal(err)
		}
		oldest, end := store.Bounds()
		if end < wrote || oldest > acked {
			t.Fatalf("round %d: from %d to %d is left; acknowledged %d, written %d", round, oldest, end, acked, wrote)
		}
		if end > wrote {
			torn++
		}
		at := acked
		err = Ended("p", store, nil).Follow(t.Context(), acked, sdk.Follow{Output: func(records []sdk.Record) error {
			for _, r := range records {
				if r.Position != at || r.IsGap() || !bytes.Equal(r.Data, pattern(at, r.End())) {
					t.Fatalf("round %d: wrong record of %d bytes at %d, want %d", round, len(r.Data), r.Position, at)
				}
				at = r.End()
			}
			return nil
		}})
		if !errors.Is(err, sdk.ReasonAbandoned) || at != end {
			t.Fatalf("round %d: ended at %d of %d: %v", round, at, end, err)
		}
	}
	t.Logf("%d of 50 kills left more than was answered", torn)
}

// killed runs a child for a moment, and gives what it has said about its journal.
func killed(t *testing.T, exe, dir string) (wrote, acked sdk.Position) {
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	var kill *time.Timer
	for lines.Scan() {
		if kill == nil {
			kill = time.AfterFunc(rand.N(40*time.Millisecond), func() { _ = cmd.Process.Kill() })
			defer kill.Stop()
		}
		what, number, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		p, err := strconv.ParseInt(string(number), 10, 64)
		switch {
		case err != nil: // the last line may be torn
		case string(what) == "wrote":
			wrote = max(wrote, sdk.Position(p))
		default:
			acked = max(acked, sdk.Position(p))
		}
	}
	_ = cmd.Wait()
	if kill == nil {
		t.Fatal("the child ended by itself")
	}
	return wrote, acked
}
