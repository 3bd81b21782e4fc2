package sdk

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"time"
)

// FileReader is a worker that can look into a volume without streaming all of it. Named by [FeatureFileRead].
type FileReader interface {
	// StatFile describes what is at a path, not following a symbolic link at its end. What is missing is NotFound of a file.
	StatFile(ctx context.Context, id VolumeID, path string) (FileInfo, error)
	// ListFiles emits what is in a directory, not what is below that, in the order of names.
	ListFiles(ctx context.Context, id VolumeID, dir string, emit func(FileInfo) error) error
	// ReadFile writes the bytes from offset on, length of them or all for a negative length, fewer at the file's end.
	ReadFile(ctx context.Context, id VolumeID, path string, offset, length int64, w io.Writer) error
}

// FileInfo describes a file in a volume.
type FileInfo struct {
	Name       string // the last part of its path
	Mode       fs.FileMode
	Size       int64
	ModTime    time.Time
	LinkTarget string // of a symbolic link
	UID, GID   int64
}

// ReadFile reads one regular file of a volume: by FileReader where the worker's status names it, else out of a tar stream of that
// one path. The bytes are the same either way.
func ReadFile(ctx context.Context, w Worker, s Status, id VolumeID, name string, dst io.Writer) error {
	if r, ok := w.(FileReader); ok && s.Has(FeatureFileRead) {
		return r.ReadFile(ctx, id, name, 0, -1, dst)
	}
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := w.StreamOut(ctx, id, StreamOut{Path: name}, pw)
		pw.CloseWithError(err)
		done <- err
	}()
	err := copyOnly(dst, pr, name)
	pr.CloseWithError(errReadEnough)
	if streamErr := <-done; streamErr != nil && !errors.Is(streamErr, errReadEnough) {
		return streamErr
	}
	return err
}

var errReadEnough = errors.New("reader has what it wanted")

func copyOnly(dst io.Writer, src io.Reader, name string) error {
	tr := tar.NewReader(src)
	h, err := tr.Next()
	if err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return NewInvalid(ReasonPath, "%q is not a regular file", path.Clean(name))
	}
	_, err = io.Copy(dst, tr)
	return err
}
