package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// IDs lists the processes that the spool has output of, sorted. What goes meanwhile is left out.
func (s *Spool) IDs() ([]string, error) {
	shards, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, shard := range shards {
		if !shard.IsDir() {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(s.dir, shard.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && validID(e.Name()) == nil {
				ids = append(ids, e.Name())
			}
		}
	}
	slices.Sort(ids)
	return ids, nil
}
