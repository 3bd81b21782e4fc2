package garden

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// What is read of the records of a container that is gone. Whoever was root in it may have put anything there.
const (
	maxRecords = 1 << 30   // bytes that are copied in all
	maxEntries = 1 << 20   // files and directories that are looked at
	smallFile  = 256 << 10 // larger ones are journals
)

// gone tells whether a container went behind our back, but for its volumes.
func (w *worker) gone(ctx context.Context, id sdk.ContainerID) (bool, error) {
	if sdk.CheckID(sdk.KindContainer, string(id)) != nil || w.marked(w.ending, id) {
		return false, nil
	}
	v, there, err := w.store.Lookup(ctx, slipwayVolume(id))
	return there && v.Properties[propMade] == yes, err
}

// ListProcesses asks the container or, where that went behind our back, reads what it has left.
func (w *worker) ListProcesses(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	all, err := w.Driver.ListProcesses(ctx, id)
	if !sdk.IsNotFound(err, sdk.KindContainer) {
		return all, err
	}
	err = w.remains(ctx, id, err, "", func(r shim.Records) (err error) {
		all, err = r.ListProcesses()
		return err
	})
	return all, err
}

// FollowProcess follows in the container and, where that went behind our back, goes on with what it has left.
func (w *worker) FollowProcess(ctx context.Context, id sdk.ContainerID, process sdk.ProcessID, from sdk.Position, follow sdk.Follow) error {
	var own error // of a callback: it is nobody else's answer
	opened, at, rest := false, from, follow
	rest.Opened = func(o sdk.Opened) error {
		opened = true
		if follow.Opened != nil {
			own = follow.Opened(o)
		}
		return own
	}
	rest.Output = func(records []sdk.Record) error {
		if follow.Output != nil {
			own = follow.Output(records)
		}
		if own == nil {
			at = records[len(records)-1].End()
		}
		return own
	}
	exited := false
	rest.Exit = func(e sdk.Exit) error {
		exited = true
		if follow.Exit != nil {
			own = follow.Exit(e)
		}
		return own
	}
	err := w.Driver.FollowProcess(ctx, id, process, from, rest)
	if own != nil || !sdk.IsNotFound(err, sdk.KindContainer) {
		return err
	}
	rest.Stdin = nil
	if opened {
		rest.Opened = nil
	}
	if exited {
		rest.Exit = nil
	}
	return w.remains(ctx, id, err, process, func(r shim.Records) error { return r.FollowProcess(ctx, process, at, rest) })
}

// started answers for a start in a container that is not there: one that went behind our back may have had the process.
func (w *worker) started(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
	all, err := w.ListProcesses(ctx, id)
	if err != nil && !errors.Is(err, sdk.ReasonRecordLost) {
		return err
	}
	i := slices.IndexFunc(all, func(p sdk.ProcessInfo) bool { return p.ID == spec.ID })
	switch {
	case i < 0:
		return dead(id)
	case all[i].Token != spec.Token:
		return sdk.NewAlreadyExists(sdk.KindProcess, string(spec.ID))
	}
	return nil
}

// remains reads the records of a container that is gone but for its volumes: of one process, or with none only what a list needs. Where the
// container is not gone in that way the answer is missing.
func (w *worker) remains(ctx context.Context, id sdk.ContainerID, missing error, process sdk.ProcessID, use func(shim.Records) error) error {
	if gone, err := w.gone(ctx, id); err != nil || !gone {
		if err == nil {
			err = missing
		}
		return err
	}
	scratch, err := os.MkdirTemp("", "slipway-garden-records-")
	if err != nil {
		return sdk.NewUnavailable(err, "container %q: no room for its records where the plugin runs: %v", id, err)
	}
	defer os.RemoveAll(scratch)
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return sdk.NewInternal(err, "container %q: its records: %v", id, err)
	}
	defer root.Close()
	pr, pw := io.Pipe()
	streamed := make(chan error, 1)
	go func() {
		err := w.store.Out(ctx, slipwayVolume(id), "scratch", pw)
		pw.CloseWithError(err)
		streamed <- err
	}()
	err = copyRecords(root, pr, process)
	pr.CloseWithError(io.ErrClosedPipe)
	if out := <-streamed; out != nil && !errors.Is(out, io.ErrClosedPipe) {
		switch {
		case sdk.IsNotFound(out, sdk.KindVolume):
			return missing // destroyed meanwhile
		case sdk.IsNotFound(out, sdk.KindFile):
			return w.recordLost(id, out)
		}
		return out
	}
	if slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE}, func(own error) bool { return errors.Is(err, own) }) {
		return sdk.NewUnavailable(err, "container %q: its records cannot be copied to where the plugin runs: %v", id, err)
	}
	if err != nil {
		return w.recordLost(id, err)
	}
	return use(shim.Remains(root.FS()))
}

func (w *worker) recordLost(id sdk.ContainerID, err error) error {
	return sdk.NewFailedPrecondition(sdk.ReasonRecordLost, sdk.KindContainer, string(id), "container %q is gone from %s, and what it left of its processes cannot be read: %v", id, w.garden, err)
}

// copyRecords unpacks directories and files. Large files are only taken if they are of the process.
func copyRecords(root *os.Root, archive io.Reader, process sdk.ProcessID) error {
	tr := tar.NewReader(archive)
	left := int64(maxRecords)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			_, err := io.Copy(io.Discard, archive)
			return err
		}
		if err != nil {
			return err
		}
		if n == maxEntries {
			return fmt.Errorf("there are more than %d files", maxEntries)
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		ours := process != "" && slices.Contains(strings.Split(name, "/"), string(process))
		switch {
		case name == "":
		case h.Typeflag == tar.TypeDir:
			err = root.MkdirAll(name, 0o700)
		case h.Typeflag == tar.TypeReg && (ours || h.Size <= smallFile):
			if left -= h.Size; left < 0 {
				return fmt.Errorf("they are larger than %d bytes", int64(maxRecords))
			}
			err = copyRecord(root, name, tr)
		}
		if err != nil {
			return err
		}
	}
}

func copyRecord(root *os.Root, name string, content io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
