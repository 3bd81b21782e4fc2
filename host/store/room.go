package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
)

// Room says whether the store can take new work, and what there is for that on its disk.
type Room struct {
	Free    int64 // bytes that this user may write on the disk of the state directory; negative: not known
	Reserve int64 // bytes that are kept for what destroys
	Full    error // ErrFull with what is known of it, while Update answers that; nil: new work is taken
}

// fullness is what the writer leaves for Room: why the last Update was refused for want of room. It stays until Room has found that there is some again.
type fullness struct{ last atomic.Pointer[error] }

func (f *fullness) begin(err error) { f.last.Store(&err) }

func (f *fullness) why() error {
	if err := f.last.Load(); err != nil {
		return *err
	}
	return nil
}

// Room looks at the disk. While it is full that tries, too, whether there is room again, so that the store is found well though nobody asks it for anything.
func (s *Store) Room(ctx context.Context) Room {
	dir := filepath.Dir(s.file)
	out := Room{Free: free(dir)}
	before := s.full.last.Load()
	if before != nil || out.Free >= 0 && out.Free < roomTried {
		err := s.tryRoom(ctx, dir)
		switch {
		case errors.Is(err, ErrFull):
			s.full.begin(err)
		case err == nil:
			s.full.last.CompareAndSwap(before, nil) // unless an Update was refused meanwhile
		}
		out.Free = free(dir)
	}
	out.Full = s.full.why()
	if info, err := os.Stat(filepath.Join(dir, reserveFile)); err == nil {
		out.Reserve = info.Size()
	}
	return out
}

// tryRoom tells whether an Update would find room: for the reserve if that has to be made again, and for itself.
func (s *Store) tryRoom(ctx context.Context, dir string) error {
	if err := s.Update(ctx, KillSafe, func(*Tx) error { return nil }); err != nil {
		return err
	}
	if err := tryWrite(dir); lacksRoom(err) {
		return fmt.Errorf("%s: %w: %w", s.file, ErrFull, err)
	}
	return nil
}

// tryWrite writes a little, and removes that again.
func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, "room")
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.Reader, roomTried)
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// lacksRoom tells whether a file could not be written for want of room.
func lacksRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// WithoutRoom makes ErrFull of the error of a file beside the database that could not be written for want of room; others are given as they are.
func WithoutRoom(err error) error {
	if lacksRoom(err) && !errors.Is(err, ErrFull) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
