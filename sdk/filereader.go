package sdk

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"
)

// FileReader is a worker that can look into a volume, open or sealed, without streaming all of it. Named by [FeatureFileRead].
//
// Paths are relative to the volume's root, which is "" or "."; one that leaves the volume is Invalid with [ReasonPath]. A
// missing volume is NotFound of a volume, a missing path NotFound of a file.
type FileReader interface {
	// StatFile describes what is at a path, not following a symbolic link at its end.
	StatFile(ctx context.Context, id VolumeID, path string) (FileInfo, error)
	// ListFiles emits what is in a directory, not what is below that, in the byte order of names. What is no directory is
	// NotFound of a file.
	ListFiles(ctx context.Context, id VolumeID, dir string, emit func(FileInfo) error) error
	// ReadFile writes the bytes of a regular file from offset on, length of them or all for a negative length, fewer at the
	// file's end, none beyond it. What is no regular file is Invalid with [ReasonPath], a negative offset Invalid with [ReasonSpec].
	// After an error w may have got a part.
	ReadFile(ctx context.Context, id VolumeID, path string, offset, length int64, w io.Writer) error
}

// FileInfo describes a file in a volume.
type FileInfo struct {
	Name       string // the last part of its path
	Mode       fs.FileMode
	Size       int64 // in bytes; only means something for a regular file
	ModTime    time.Time
	LinkTarget string // of a symbolic link, as it was written; else empty
	UID, GID   int64  // as numbers inside the container
}

// ReadFile writes one regular file of a volume to dst: by FileReader where the worker's status s names it, else out of a tar stream
// of that one path. The bytes are the same either way.
//
// What is missing is NotFound of a file; what is there but is no regular file is Invalid with [ReasonPath]. A symbolic link at the
// end of the path is a regular file to no tar stream, but may be followed by a FileReader: do not ask for one. An error of dst comes
// back unchanged. After any error dst may have got a part of the file.
func ReadFile(ctx context.Context, w Worker, s Status, id VolumeID, name string, dst io.Writer) error {
	if r, ok := w.(FileReader); ok && s.Has(FeatureFileRead) {
		return r.ReadFile(ctx, id, name, 0, -1, dst)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := w.StreamOut(ctx, id, StreamOut{Path: name}, pw)
		pw.CloseWithError(err)
		done <- err
	}()
	src, sink := &endedReader{r: pr}, KeepWriter(dst)
	err := onlyFile(sink, src, id, name)
	cancel() // where all went well, the stream has ended already
	pr.CloseWithError(errReadEnough)
	streamErr := <-done
	if own := sink.Err(); own != nil {
		return own
	}
	if src.ended && streamErr != nil {
		return streamErr // the reason for whatever was wrong with the bytes
	}
	return err
}

var errReadEnough = errors.New("reader has what it wanted")

// onlyFile copies the one file that an archive holds, and returns nil only once src has ended well: a worker may find out
// about damage as late as that.
func onlyFile(dst io.Writer, src io.Reader, id VolumeID, name string) error {
	notRegular := &Error{Class: Invalid, Reason: ReasonPath, Kind: KindFile, ID: name,
		Message: fmt.Sprintf("volume %q: %q is not a regular file", id, name)}
	damaged := func(err error) error {
		return NewInternal(err, "volume %q: the worker's archive of %q is damaged: %v", id, name, err)
	}
	tr := tar.NewReader(src)
	h, err := tr.Next()
	if err == io.EOF {
		return notRegular // an empty directory
	}
	if err != nil {
		return damaged(err)
	}
	regular := h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse
	if !regular || path.Clean(h.Name) != path.Base(path.Clean(name)) { // another name is that of something in a directory
		return notRegular
	}
	if _, err := io.Copy(dst, tr); err != nil {
		return damaged(err)
	}
	if _, err := tr.Next(); err != io.EOF {
		if err == nil {
			return notRegular // but a directory with more in it
		}
		return damaged(err)
	}
	if _, err := io.Copy(io.Discard, src); err != nil {
		return damaged(err)
	}
	return nil
}

// endedReader knows whether its source has come to an end, good or bad.
type endedReader struct {
	r     io.Reader
	ended bool
}

func (r *endedReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.ended = r.ended || err != nil
	return n, err
}
