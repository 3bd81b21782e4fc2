//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"code.cloudfoundry.org/garden"
)

// record is what is kept of a container beside what runc keeps.
type record struct {
	Handle     string            `json:"handle"`
	RootFS     string            `json:"rootfs"`
	Env        []string          `json:"env"`
	Limits     garden.Limits     `json:"limits"`
	Properties garden.Properties `json:"properties"`
}

// records keeps a file for each record. Writing and removing one and the same is for one goroutine at a time.
type records struct{ dir string }

const recordSuffix = ".json"

func (r records) path(handle string) string { return filepath.Join(r.dir, handle+recordSuffix) }

// put replaces a record whole, so that one who was killed leaves the old or the new one.
func (r records) put(rec record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	path := r.path(rec.Handle)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (r records) remove(handle string) error {
	if err := os.Remove(r.path(handle)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (r records) all() ([]record, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, err
	}
	var all []record
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), recordSuffix) {
			continue // one that was being written
		}
		text, err := os.ReadFile(filepath.Join(r.dir, e.Name()))
		if err != nil {
			return nil, err
		}
		var rec record
		if err := json.Unmarshal(text, &rec); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(r.dir, e.Name()), err)
		}
		all = append(all, rec)
	}
	return all, nil
}
