//go:build linux

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// cleanup bounds what is done after a failure, or after a context ended.
const cleanup = 30 * time.Second

// Create makes a container and starts its process 1. It is there whole when Create returns nil; after an error nothing of it is, unless
// the error says so, and Delete then takes away the rest. An id that is there already is ErrExists.
func (e *Engine) Create(ctx context.Context, spec Spec) (err error) {
	if err := spec.check(); err != nil {
		return err
	}
	if err := e.checkLimits(spec); err != nil {
		return err
	}
	bundle := e.bundle(spec.ID)
	if err := os.Mkdir(bundle, 0o711); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("container %q: %w", spec.ID, ErrExists)
		}
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
		defer cancel()
		if undo := e.Delete(ctx, spec.ID); undo != nil {
			err = errors.Join(err, fmt.Errorf("container %q is left half made: %w", spec.ID, undo))
		}
	}()
	if spec.DiskBytes > 0 {
		if spec.Rootfs, err = e.limitDisk(spec); err != nil {
			return err
		}
	}
	config, err := e.oci(spec)
	if err != nil {
		return err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600); err != nil {
		return err
	}
	return e.run(ctx, spec.ID, bundle)
}

// run starts process 1. Its output goes to a file, for a pipe would have to be read as long as it lives.
func (e *Engine) run(ctx context.Context, id, bundle string) error {
	output, err := os.OpenFile(e.outputFile(id), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	log := filepath.Join(bundle, "create.log")
	cmd := exec.CommandContext(ctx, e.runc, "--root", e.runcRoot(), "--log", log, "--log-format", "json", "run", "--detach", "--pid-file", e.pidFile(id), "--bundle", bundle, id)
	cmd.Stdout, cmd.Stderr = output, output
	err = runBound(cmd)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return &RuncError{Op: "run", Container: id, Message: messageIn(log), Err: err}
	}
	return nil
}

func messageIn(log string) string {
	f, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer f.Close()
	return lastMessage(f)
}

func (e *Engine) pidFile(id string) string { return filepath.Join(e.bundle(id), "pid") }

// PID is the number that process 1 of a container that Create has made had then on this machine, whether or not it has ended since.
func (e *Engine) PID(id string) (int, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(e.pidFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("container %q: %w", id, ErrNotFound)
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

func (e *Engine) outputFile(id string) string { return filepath.Join(e.bundle(id), "output") }

// Output gives the end of what process 1 has written to stdout and stderr, at most limit bytes.
func (e *Engine) Output(id string, limit int64) ([]byte, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	f, err := os.Open(e.outputFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("container %q: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text := make([]byte, min(limit, info.Size()))
	n, err := f.ReadAt(text, info.Size()-int64(len(text)))
	return text[:n], err
}
