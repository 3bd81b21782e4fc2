package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// ReadFile writes one regular file of an artifact to w, without the rest of it. What is not there is NotFound of a file; what is no regular
// file, or no path within the artifact, is Invalid with sdk.ReasonPath. While no byte was written, another source of the content
// is asked where one is away, has lost it or is damaged. After any error w may have got a part.
func (h *Host) ReadFile(ctx context.Context, a *Artifact, name string, w io.Writer) error {
	at, err := resolvePath("/", name)
	if err != nil {
		return fmt.Errorf("file of artifact %s: %w", a.Name, err)
	}
	err = h.readAnywhere(ctx, a, w, func(ctx context.Context, src source, w io.Writer) error { return src.readFile(ctx, at[1:], w) })
	if err != nil {
		return fmt.Errorf("file %s of artifact %s: %w", name, a.Name, err)
	}
	return nil
}

// ListFiles lists what is in a directory of an artifact, not what is below that, in the byte order of names; of anything else than a directory, that itself. The
// artifact's root is "" or ".". A worker that can look into its volumes is asked for no more than that; else all of the content is read. A symbolic link is
// told and not followed. What is not there is NotFound of a file, a path that leaves the artifact Invalid with sdk.ReasonPath.
func (h *Host) ListFiles(ctx context.Context, a *Artifact, name string) ([]sdk.FileInfo, error) {
	at, err := resolvePath("/", cmp.Or(name, "."))
	if err != nil {
		return nil, fmt.Errorf("files of artifact %s: %w", a.Name, err)
	}
	var files []sdk.FileInfo
	err = h.fromNearest(ctx, a, func(src source) (ofSource bool, err error) {
		out := &counter{w: io.Discard, idle: h.cfg().Timing.WorkerGone}
		err = readFrom(ctx, a, src, out, func(ctx context.Context, src source, w io.Writer) (err error) {
			files, err = src.listFiles(ctx, at[1:], w)
			return err
		})
		if err != nil {
			return true, fmt.Errorf("from %s: %w", src.name, err)
		}
		return false, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s in artifact %s: %w", cmp.Or(at[1:], "."), a.Name, err)
	}
	return files, nil
}

// readAnywhere reads an artifact from one source after another until one has worked, or has written something.
func (h *Host) readAnywhere(ctx context.Context, a *Artifact, w io.Writer, read func(context.Context, source, io.Writer) error) error {
	out := &counter{w: w, idle: h.cfg().Timing.WorkerGone}
	return h.fromNearest(ctx, a, func(src source) (ofSource bool, err error) {
		if err := readFrom(ctx, a, src, out, read); err != nil {
			return out.n == 0 && out.err == nil, fmt.Errorf("from %s: %w", src.name, err)
		}
		return false, nil
	})
}

// fromNearest is fromAny on what an artifact can be had from, the nearest to this machine first. It is in use meanwhile.
func (h *Host) fromNearest(ctx context.Context, a *Artifact, try func(source) (ofSource bool, err error)) error {
	defer h.using(a.ID)()
	sources, err := h.sources(ctx, a)
	if err != nil {
		return err
	}
	nearest(sources, WorkerReport{})
	return h.fromAny(ctx, sources, try)
}

// readFrom reads an artifact from one source.
func readFrom(ctx context.Context, a *Artifact, src source, out *counter, read func(context.Context, source, io.Writer) error) error {
	out.heard = nil
	if src.worker != nil {
		out.heard = listen(ctx, src.worker, "read "+a.Name)
	}
	err := out.unlessIdle(ctx, func(ctx context.Context) error { return read(ctx, src, out) })
	out.heard.end(err == nil)
	return err
}

// counter passes on what a source writes, and ends a source that writes nothing for too long.
type counter struct {
	w    io.Writer
	n    int64
	err  error         // w's
	idle time.Duration // zero: for ever

	heard  *listener   // nil: nobody wants to know what is waited for
	silent *time.Timer // stopped while w has what was written last: that w is slow is not the source's fault
}

// unlessIdle has a source write. Where it writes nothing for too long its context ends, and that is the error, as Unavailable.
func (c *counter) unlessIdle(ctx context.Context, read func(context.Context) error) error {
	if c.idle <= 0 {
		return read(ctx)
	}
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := sdk.NewUnavailable(stream.ErrIdle, "%v (%v)", stream.ErrIdle, c.idle)
	c.silent = time.AfterFunc(c.idle, func() { cancel(silent) })
	err := read(reading)
	c.silent.Stop()
	if err != nil && ctx.Err() == nil && context.Cause(reading) == error(silent) {
		return silent
	}
	return err
}

func (c *counter) Write(p []byte) (int, error) {
	if c.silent != nil {
		c.silent.Stop()
		defer c.silent.Reset(c.idle)
	}
	c.heard.hold()
	defer c.heard.goOn()
	n, err := c.w.Write(p)
	c.n += int64(n)
	if err != nil {
		c.err = err
	}
	return n, err
}

// readFile writes one regular file of the content.
func (s source) readFile(ctx context.Context, name string, w io.Writer) error {
	switch {
	case s.blobs != nil:
		return stream.ReadFile(ctx, s.read, name, w)
	case s.worker == nil:
		return stream.ReadLocal(s.dir, name, w)
	}
	conn, err := s.worker.acquire(ctx)
	if err != nil {
		return err
	}
	return sdk.ReadFile(ctx, conn, s.worker.report().Status, sdk.VolumeID(s.volume.ID), name, w)
}

// listFiles lists a directory of the content, or a file of it. Whatever the source sends for that is told to w, too.
func (s source) listFiles(ctx context.Context, name string, w io.Writer) ([]sdk.FileInfo, error) {
	if s.worker != nil && s.worker.report().Status.Has(sdk.FeatureFileRead) {
		conn, err := s.worker.acquire(ctx)
		if err != nil {
			return nil, err
		}
		if r, ok := conn.(sdk.FileReader); ok {
			return listOn(ctx, r, sdk.VolumeID(s.volume.ID), name, w)
		}
	}
	return stream.ListFiles(ctx, func(ctx context.Context, to io.Writer) error { return s.read(ctx, io.MultiWriter(w, to)) }, name)
}

func listOn(ctx context.Context, r sdk.FileReader, id sdk.VolumeID, name string, w io.Writer) (out []sdk.FileInfo, err error) {
	at, err := r.StatFile(ctx, id, name)
	if err != nil {
		return nil, err
	}
	if !at.Mode.IsDir() {
		return []sdk.FileInfo{at}, nil
	}
	err = r.ListFiles(ctx, id, name, func(f sdk.FileInfo) error {
		out = append(out, f)
		_, err := io.WriteString(w, f.Name)
		return err
	})
	return out, err
}
