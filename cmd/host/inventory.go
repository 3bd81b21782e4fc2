package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/slipway-run/slipway/host"
)

// inventory is what a state directory remembers: of a daemon's an api.Client, else host.Records.
type inventory interface {
	Runs(ctx context.Context) ([]host.RunInfo, error)
	Containers(ctx context.Context, ownerPrefix string) ([]host.ContainerInfo, []*host.Explanation, error) // and who waits
	Volumes(ctx context.Context, worker string) ([]host.VolumeInfo, error)
}

// withInventory runs f on what the state directory remembers. With a daemon, live is set and it knows what is under way; else the records are
// read as they are, and no plugin is started.
func (a *app) withInventory(ctx context.Context, command string, f func(i inventory, live bool) error) (err error) {
	if err := a.needsState(command + " needs"); err != nil {
		return err
	}
	d, err := a.dial(ctx, answerTime)
	if err != nil {
		return err
	}
	if d != nil {
		defer d.Close()
		return f(d, true)
	}
	r, err := a.openRecords(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return f(r, false)
}

// needsState refuses what says of itself that it "needs" a state directory where the line names none.
func (a *app) needsState(whatNeeds string) error {
	if a.stateDir == "" {
		return usageError{fmt.Errorf("%s --state DIR: without one nothing is kept", whatNeeds)}
	}
	return nil
}

// openRecords opens the state directory for reading, whoever has it open.
func (a *app) openRecords(ctx context.Context) (*host.Records, error) {
	r, err := host.OpenRecords(ctx, a.stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usageError{fmt.Errorf("%s is no state directory: %w", a.stateDir, err)}
	}
	return r, err
}
