//go:build linux

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Status is where a container stands, in runc's words.
type Status string

// The statuses. Half-made containers have none.
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

// known tells whether the engine has a bundle of that id, whole or not.
func (e *Engine) known(id string) (bool, error) {
	_, err := os.Stat(e.bundle(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
