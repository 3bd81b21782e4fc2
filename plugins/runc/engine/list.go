//go:build linux

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Status is where a container stands, in runc's words.
type Status string

// The statuses. Half-made containers have none and are in no list.
const (
	Created Status = "created" // process 1 waits for its start; only seen while Create runs, or after it was killed
	Running Status = "running"
	Stopped Status = "stopped"
	Paused  Status = "paused"
)

// Info is what is known of a container.
type Info struct {
	ID          string            `json:"id"`
	Status      Status            `json:"status"`
	PID         int               `json:"pid"` // of process 1, as this machine counts; zero: it has ended
	Annotations map[string]string `json:"annotations"`
}

// State tells of one container, and is ErrNotFound where there is none.
func (e *Engine) State(ctx context.Context, id string) (Info, error) {
	if err := checkID(id); err != nil {
		return Info{}, err
	}
	out, err := e.call(ctx, id, "state", id)
	if err != nil {
		if there, statErr := e.known(id); statErr == nil && !there {
			return Info{}, fmt.Errorf("container %q: %w", id, ErrNotFound)
		}
		return Info{}, err
	}
	var info Info
	if err := json.Unmarshal(out, &info); err != nil {
		return Info{}, fmt.Errorf("runc state of container %q: %w", id, err)
	}
	return info, nil
}

// List tells of all containers. Those that come or go meanwhile may be in it.
func (e *Engine) List(ctx context.Context) ([]Info, error) {
	for {
		before, err := e.ids()
		if err != nil {
			return nil, err
		}
		infos, err := e.list(ctx)
		if err == nil {
			return infos, nil
		}
		// runc fails if one goes while it looks. With the same ones before and after it was something else.
		after, idsErr := e.ids()
		if idsErr != nil || slices.Equal(before, after) {
			return nil, err
		}
	}
}

func (e *Engine) list(ctx context.Context) ([]Info, error) {
	out, err := e.call(ctx, "", "list", "--format", "json")
	if err != nil {
		return nil, err
	}
	var infos []Info
	if err := json.Unmarshal(out, &infos); err != nil {
		return nil, fmt.Errorf("runc list: %w", err)
	}
	return infos, nil
}

// ids are those whose state runc keeps: the file goes before its directory.
func (e *Engine) ids() ([]string, error) {
	return filepath.Glob(filepath.Join(e.runcRoot(), "*", "state.json"))
}

// known tells whether the engine has a bundle of that id, whole or not.
func (e *Engine) known(id string) (bool, error) {
	_, err := os.Stat(e.bundle(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
