package stream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// TargetError says why a directory cannot be put in a place.
type TargetError struct {
	Target string
	Err    error
}

func (e *TargetError) Error() string { return fmt.Sprintf("%q: %v", e.Target, e.Err) }

// Unwrap gives Err.
func (e *TargetError) Unwrap() error { return e.Err }

// The reasons of a TargetError that a program may want to tell apart.
var (
	ErrNotEmpty = errors.New("is not empty")
	ErrNotDir   = errors.New("is not a directory")
	ErrInUse    = errors.New("cannot be replaced, for the working directory is in it; name another one, or one below it")
	ErrMounted  = errors.New("cannot be replaced, for it is a mount point; name a directory below it")
)

// CheckTarget tells whether [ReplaceDir] could begin, by a *TargetError, so that nobody computes for an hour what cannot be
// put down. It leaves nothing behind.
func CheckTarget(target string, force bool) error {
	place, err := locate(target, force)
	if err != nil {
		return &TargetError{Target: target, Err: err}
	}
	temp, err := place.makeTemp()
	if err != nil {
		return &TargetError{Target: target, Err: err}
	}
	defer temp.release()
	return os.Remove(temp.path)
}

// ReplaceDir lets fill write into a fresh empty directory beside target, of the same file system and closed to other users,
// and then puts it in target's place. A target that has something in it needs force. Errors about target itself come as *TargetError
// before fill is called; fill's come back unchanged.
//
// After an error target is as it was and nothing else is left, unless the error says so. Where the system can exchange two
// directories at once (Linux), target is at every moment the old one or the new one, whole, even if the
// program is killed; elsewhere the old one is for an instant as old inside the directory .slipway-<name of target>-* beside. A killed program leaves
// that directory behind; the next ReplaceDir of the same target removes it, unless that old is in it, where the system can tell that nobody
// fills it any more (by flock). Changes that others make to target meanwhile are lost if force is set.
func ReplaceDir(ctx context.Context, target string, force bool, fill func(ctx context.Context, dir string) error) (err error) {
	place, err := locate(target, force)
	if err != nil {
		return &TargetError{Target: target, Err: err}
	}
	place.sweep()
	temp, err := place.makeTemp()
	if err != nil {
		return &TargetError{Target: target, Err: err}
	}
	defer temp.release()
	defer func() {
		if rerr := removeTree(temp.path); rerr != nil {
			err = errors.Join(err, &TargetError{Target: target, Err: fmt.Errorf("what is left in %q could not be removed: %w", temp.path, rerr)})
		}
	}()
	fresh := filepath.Join(temp.path, "new")
	if err := os.Mkdir(fresh, 0o777); err != nil { // the usual mode, less the umask, for later; temp guards it now
		return &TargetError{Target: target, Err: err}
	}
	if err := fill(ctx, fresh); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if place, err = locate(target, force); err != nil {
		return &TargetError{Target: target, Err: err}
	}
	if err := place.take(fresh, filepath.Join(temp.path, keptOld), force); err != nil {
		return &TargetError{Target: target, Err: err}
	}
	return nil
}

// place is where a target is or will be.
type place struct {
	path  string // absolute; of the directory itself, not of a link to it
	there bool   // already; and empty, unless force was asked for
}

func locate(target string, force bool) (place, error) {
	if target == "" {
		return place{}, errors.New("is no name of a directory")
	}
	path, err := filepath.Abs(target)
	if err != nil {
		return place{}, err
	}
	info, err := os.Lstat(path)
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return place{}, fmt.Errorf("is a symbolic link to nothing: %w", err)
		}
		info, err = os.Lstat(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return place{}, bare(err)
	}
	parent, perr := os.Stat(filepath.Dir(path))
	if errors.Is(perr, fs.ErrNotExist) {
		return place{}, fmt.Errorf("cannot be made, for %q does not exist; make that first", filepath.Dir(path))
	}
	if perr != nil {
		return place{}, perr
	}
	if !parent.IsDir() {
		return place{}, fmt.Errorf("cannot be made, for %q is not a directory", filepath.Dir(path))
	}
	if err != nil {
		return place{path: path}, nil
	}
	if !info.IsDir() {
		return place{}, ErrNotDir
	}
	if !sameDevice(info, parent) {
		return place{}, ErrMounted
	}
	if holdsWorkingDir(info) {
		return place{}, ErrInUse
	}
	if !force {
		err = checkEmpty(path)
	}
	return place{path: path, there: true}, err
}

// holdsWorkingDir tells whether the working directory is dir or below it.
func holdsWorkingDir(dir fs.FileInfo) bool {
	wd, err := os.Getwd()
	if err != nil {
		return false // it is gone already
	}
	for {
		if info, err := os.Stat(wd); err == nil && os.SameFile(info, dir) {
			return true
		}
		up := filepath.Dir(wd)
		if up == wd {
			return false
		}
		wd = up
	}
}

func checkEmpty(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return bare(err)
	}
	defer root.Close()
	return mustBeEmpty(root)
}

// take puts fresh into the place. With force, what was there goes to old, which does not exist yet, or to where fresh was; without, it
// must still be empty. After an error all is as it was.
func (p place) take(fresh, old string, force bool) error {
	restore, err := movable(fresh)
	if err != nil {
		return err
	}
	if !p.there || !force {
		return p.takeEmpty(fresh, restore)
	}
	keep, err := movable(p.path)
	if err != nil {
		return err
	}
	if err := exchange(fresh, p.path, old); err != nil {
		return errors.Join(err, keep(p.path))
	}
	return restore(p.path)
}

func (p place) takeEmpty(fresh string, restore func(string) error) error {
	if p.there {
		if err := os.Remove(p.path); err != nil { // which no directory allows that has something in it
			return err
		}
	}
	if err := os.Rename(fresh, p.path); err != nil {
		if p.there {
			err = errors.Join(err, os.Mkdir(p.path, 0o777))
		}
		return err
	}
	return restore(p.path)
}

// exchangeByTwo does what exchange does in steps, between which the old directory is at old.
func exchangeByTwo(fresh, path, old string) error {
	if err := os.Rename(path, old); err != nil {
		return err
	}
	err := os.Rename(fresh, path)
	if err == nil {
		return os.Rename(old, fresh) // where it is no longer the only content that there is
	}
	if berr := os.Rename(old, path); berr != nil {
		return errors.Join(err, fmt.Errorf("and the old content could not be put back: %w", berr))
	}
	return err
}

// movable lets its owner rename a directory into another one, which needs its write bit. The function returned takes the bit away again, from where it
// is then.
func movable(dir string) (restore func(now string) error, err error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	mode := info.Mode() &^ fs.ModeDir
	if mode&0o200 != 0 {
		return func(string) error { return nil }, nil
	}
	if err := os.Chmod(dir, mode|0o200); err != nil {
		return nil, err
	}
	return func(now string) error { return os.Chmod(now, mode) }, nil
}

// removeTree removes also directories that do not let their owner write.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700)
	})
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
