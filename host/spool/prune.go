package spool

import (
	"cmp"
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

// Prune removes finished outputs: those finished longer than maxAge before now
// (0: age is no reason), then the oldest until the whole spool has no more
// than maxBytes (0: size is no reason). It never removes an unfinished one, or
// one with a Writer, even if that leaves too much. It returns what it removed,
// also with an error.
func (s *Spool) Prune(now time.Time, maxAge time.Duration, maxBytes int64) (removed []string, err error) {
	if s.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	all, err := s.files()
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, f := range all {
		total += f.bytes
	}
	all = slices.DeleteFunc(all, func(f file) bool { return !f.finished })
	slices.SortFunc(all, func(a, b file) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	for _, f := range all {
		old := maxAge > 0 && now.Sub(f.at) > maxAge
		much := maxBytes > 0 && total > maxBytes
		if !old && !much {
			break // the rest is younger
		}
		e := s.Remove(f.id)
		if errors.Is(e, ErrBusy) {
			continue
		}
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		total -= f.bytes
		removed = append(removed, f.id)
	}
	return removed, err
}
