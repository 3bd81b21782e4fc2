//go:build linux

package runc

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/machine"
	"github.com/slipway-run/slipway/sdk/shim"
)

// The cases of the gate: each kind of thing once, and once more where the keeper is another.
var (
	smoke = []string{"P0*", "X01-*", "I0*", "S11-*", "A0*", "V0*", "C0*", "Y0*", "T01-*", "L*", "K*"}
	again = []string{"P01-*", "P02-*", "X01-*", "I01-*", "T01-*", "S11-*", "A01-*", "K*"}
)

// TestConformance holds the plugin to the contract, with both ways to start a keeper, and with what busybox has as well as with the
// suite's own program.
func TestConformance(t *testing.T) {
	needs(t)
	program, probe := buildShim(t), conformance.LinuxProbe(t)
	for _, way := range []struct {
		name     string
		change   func(*machine.Functions)
		commands conformance.Commands
		gate     []string
		all      []string // nil: every case
	}{
		{"process 1", func(*machine.Functions) {}, probe, smoke, nil},
		// It differs in the keeper and in what runs, not in what volumes are.
		{"first exec", byFirstExec, conformance.Shell{}, again, []string{"P*", "X*", "I*", "T*", "S*", "A*", "K*", "L*"}},
	} {
		t.Run(way.name, func(t *testing.T) {
			rt, _, _ := changedRuntime(t, Config{Shim: program}, way.change)
			target := conformance.InProcess(rt, "here")
			target.Commands, target.Probe = way.commands, probe
			options := conformance.Options{
				Short: true, TimeScale: 10 * testkit.TimeScale(), Only: way.all,
				Without: []conformance.Requirement{conformance.EnvCrash, conformance.EnvProgram}, // which TestProgram has
			}
			if testing.Short() {
				options.Only = way.gate
			}
			conformance.Run(t, target, options)
		})
	}
}

// byFirstExec has the keeper of each container come of the first command there, beside a process 1 that does nothing. The plugin has no
// use for that, but plugins have whose runtime's containers begin with a command of its own.
func byFirstExec(f *machine.Functions) {
	create, exec := f.Create, f.Exec
	f.Create = func(ctx context.Context, c machine.Container) error {
		program, scratch := c.Own[0].Path, c.Own[1].Path
		c.Command = []string{program, "pause"}
		if err := create(ctx, c); err != nil {
			return err
		}
		first := shim.New(func(ctx context.Context, _ sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
			return exec(ctx, c, argv, stdin, stdout, stderr)
		}, shim.Options{Program: program, Scratch: scratch})
		_, err := first.Start(ctx, c.ID)
		return errors.Join(err, first.Close())
	}
}
