//go:build linux

package onrunc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// many is how often each case of this file runs; a fifth of it under the race detector, which slows this side down only.
const many = 1000

// direct is a program without a shell around it.
func direct(id sdk.ProcessID, path string, args ...string) sdk.ProcessSpec {
	return sdk.ProcessSpec{ID: id, Token: sdk.NewToken(), Path: "/bin/" + path, Args: args}
}

func TestRaceInstantExit(t *testing.T) {
	b := newBox(t, setting{})
	each(t, repeats(many), 3, func(i int) error {
		id := newID("true", i)
		if err := b.StartProcess(t.Context(), b.id, direct(id, "true")); err != nil {
			return err
		}
		return b.ends(t.Context(), id, "", "", 0)
	})
}

func TestRaceQuickOutput(t *testing.T) {
	b := newBox(t, setting{})
	each(t, repeats(many), 3, func(i int) error {
		id := newID("echo", i)
		if err := b.StartProcess(t.Context(), b.id, direct(id, "echo", "hi", string(id))); err != nil {
			return err
		}
		return b.ends(t.Context(), id, "hi "+string(id)+"\n", "", 0)
	})
}

func TestRaceKillAfterStart(t *testing.T) {
	b := newBox(t, setting{})
	each(t, repeats(many), 3, func(i int) error {
		id := newID("sleep", i)
		if err := b.StartProcess(t.Context(), b.id, direct(id, "sleep", "1000")); err != nil {
			return err
		}
		signal := sdk.KILL
		if i%2 == 0 {
			signal = sdk.TERM
		}
		if err := b.SignalProcess(t.Context(), b.id, id, signal); err != nil {
			return fmt.Errorf("signal: %w", err)
		}
		s := newStory(0)
		if err := b.FollowProcess(t.Context(), b.id, id, 0, s.follow()); err != nil {
			return err
		}
		if s.exit.Signal != signal || s.exit.Reason != sdk.ExitSignalled || s.exit.Code != 128+signal.Number() {
			return fmt.Errorf("after %s the exit is %+v", signal, *s.exit)
		}
		return nil
	})
	testkit.Until(t, "no command is left", func() bool { return len(b.commands()) == 0 }) // a monitor that just begins looks like one
}

func TestRaceStartOfOneID(t *testing.T) {
	b := newBox(t, setting{})
	n := repeats(many)
	each(t, n, 2, func(i int) error {
		id := newID("one", i)
		specs := [2]sdk.ProcessSpec{counted(id, "exit 7"), counted(id, "exit 8")}
		var errs [8]error
		var wg sync.WaitGroup
		for k := range errs {
			wg.Go(func() { errs[k] = b.StartProcess(t.Context(), b.id, specs[k%2]) })
		}
		wg.Wait()
		won := 0
		if errs[0] != nil {
			won = 1
		}
		for k, err := range errs {
			if k%2 == won && err != nil {
				return fmt.Errorf("the token that won: %w", err)
			}
			if k%2 != won && !errors.Is(err, sdk.AlreadyExists) {
				return fmt.Errorf("the other token: %v", err)
			}
		}
		if p, err := b.listed(t.Context(), id); i%50 == 0 && (err != nil || p.Token != specs[won].Token) {
			return fmt.Errorf("the list tells of %+v, %v", p, err)
		}
		return b.ends(t.Context(), id, "", "", 7+won)
	})
	b.ranOnce(n)
}

func TestRaceFollowAtExit(t *testing.T) {
	b := newBox(t, setting{})
	d := newDice(t)
	each(t, repeats(many), 3, func(i int) error {
		id := newID("end", i)
		spec := sdk.ProcessSpec{ID: id, Token: sdk.NewToken(), Path: "sh", Args: []string{"-c", "echo a; echo b >&2; echo c; exit 3"}}
		if err := b.StartProcess(t.Context(), b.id, spec); err != nil {
			return err
		}
		d.pass(3 * time.Millisecond)
		return b.ends(t.Context(), id, "a\nc\n", "b\n", 3)
	})
}

func TestRaceSignalAtExit(t *testing.T) {
	b := newBox(t, setting{})
	d := newDice(t)
	signals := []sdk.Signal{sdk.TERM, sdk.KILL, sdk.Signal("USR1"), sdk.INT}
	each(t, repeats(many), 3, func(i int) error {
		id := newID("sig", i)
		spec := sdk.ProcessSpec{ID: id, Token: sdk.NewToken(), Path: "sh", Args: []string{"-c", "echo a; exit 5"}}
		if err := b.StartProcess(t.Context(), b.id, spec); err != nil {
			return err
		}
		signal := signals[i%len(signals)]
		d.pass(4 * time.Millisecond)
		var wg sync.WaitGroup
		var errs [3]error
		for k := range errs {
			wg.Go(func() { errs[k] = b.SignalProcess(t.Context(), b.id, id, signal) })
		}
		s := newStory(0)
		err := b.FollowProcess(t.Context(), b.id, id, 0, s.follow())
		wg.Wait()
		if err = errors.Join(err, errors.Join(errs[:]...), s.wrong); err != nil {
			return err
		}
		ended := s.exit.Reason == sdk.ExitExited && s.exit.Code == 5 && s.stdout() == "a\n"
		killed := s.exit.Reason == sdk.ExitSignalled && s.exit.Signal == signal && (s.stdout() == "" || s.stdout() == "a\n")
		if !ended && !killed {
			return fmt.Errorf("%q and exit %+v", s.stdout(), *s.exit)
		}
		return nil
	})
}

func TestRaceStdinOfInstantExit(t *testing.T) {
	b := newBox(t, setting{})
	each(t, repeats(many), 3, func(i int) error {
		id := newID("in", i)
		spec := direct(id, "true")
		spec.Stdin = true
		if err := b.StartProcess(t.Context(), b.id, spec); err != nil {
			return err
		}
		s := newStory(0)
		s.hooks.Stdin = bytes.NewReader(make([]byte, (i%5)*100_000))
		if err := b.FollowProcess(t.Context(), b.id, id, 0, s.follow()); err != nil {
			return err
		}
		return s.is("", "", 0)
	})
}

// TestRaceSupersedeAtExit has a newer follower come while the process ends. The older one acknowledges nothing, so the newer one gets all.
func TestRaceSupersedeAtExit(t *testing.T) {
	b := newBox(t, setting{})
	d := newDice(t)
	each(t, repeats(many), 3, func(i int) error {
		id := newID("sup", i)
		spec := sdk.ProcessSpec{ID: id, Token: sdk.NewToken(), Path: "sh", Args: []string{"-c", "echo out; exit 4"}}
		if err := b.StartProcess(t.Context(), b.id, spec); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		older, newer := newStory(0), newStory(0)
		older.hooks.Acks = make(chan sdk.Position)
		olderErr := make(chan error, 1)
		go func() { olderErr <- b.FollowProcess(ctx, b.id, id, 0, older.follow()) }()
		select {
		case <-older.opened:
		case err := <-olderErr:
			return fmt.Errorf("the older one: %w", err)
		}
		d.pass(3 * time.Millisecond)
		err := b.FollowProcess(t.Context(), b.id, id, 0, newer.follow())
		if err == nil {
			err = newer.is("out\n", "", 4)
		}
		if err != nil {
			return fmt.Errorf("the newer one: %w", err)
		}
		if err := <-olderErr; !errors.Is(err, sdk.ReasonSuperseded) {
			return fmt.Errorf("the older one: %v", err)
		}
		if older.wrong != nil || !strings.HasPrefix("out\n", older.stdout()) || older.exit != nil && older.exit.Code != 4 {
			return fmt.Errorf("the older one: %v, %q, %+v", older.wrong, older.stdout(), older.exit)
		}
		return nil
	})
}
