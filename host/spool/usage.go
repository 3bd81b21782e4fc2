package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Usage is what a spool holds.
type Usage struct {
	Files    int
	Finished int   // of the files
	Bytes    int64 // of all files
}

type file struct {
	id       string
	bytes    int64
	finished bool
	at       time.Time // of the last write
}

// files lists the spool; what goes meanwhile is left out.
func (s *Spool) files() ([]file, error) {
	shards, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var all []file
	for _, shard := range shards {
		if !shard.IsDir() {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(s.dir, shard.Name()))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if !info.Mode().IsRegular() || validID(e.Name()) != nil {
				continue
			}
			all = append(all, file{id: e.Name(), bytes: info.Size(), finished: finished(info), at: info.ModTime()})
		}
	}
	return all, nil
}

// IDs lists the processes that the spool has output of, sorted.
func (s *Spool) IDs() ([]string, error) {
	all, err := s.files()
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(all))
	for _, f := range all {
		ids = append(ids, f.id)
	}
	slices.Sort(ids)
	return ids, nil
}

// Usage looks at every file.
func (s *Spool) Usage() (Usage, error) {
	all, err := s.files()
	if err != nil {
		return Usage{}, err
	}
	var u Usage
	for _, f := range all {
		u.Files++
		u.Bytes += f.bytes
		if f.finished {
			u.Finished++
		}
	}
	return u, nil
}
