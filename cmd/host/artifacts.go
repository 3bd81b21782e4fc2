package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// artifacts are what the commands about artifacts work on.
type artifacts interface {
	upload(ctx context.Context, u host.Upload, src func(context.Context, io.Writer) error) error
	download(ctx context.Context, name string, w io.Writer) error
	downloadDir(ctx context.Context, name, target string, force bool) error
	readFile(ctx context.Context, name, file string, w io.Writer) error
	listFiles(ctx context.Context, name, path string) ([]sdk.FileInfo, error)
	listArtifacts(ctx context.Context, prefix string) ([]host.ArtifactReport, error)
	removeArtifact(ctx context.Context, name string) error
	invalidateCache(ctx context.Context, team, key string) error
}

func (a *app) artifactsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "artifacts",
		Short: "Keep trees of files under names, and look into them",
		Long: `Keep trees of files under names, and look into them.

They are kept in the state directory, or on the workers that have needed them, until they are removed or their time has
passed: 12 hours, unless "put" is told otherwise or they belong to somebody, as a run's outputs do.`,
		Args: knownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.artifactsLs(), a.artifactsPut(), a.artifactsGet(), a.artifactsFiles(), a.artifactsCat(), a.artifactsCaches(), a.artifactsInvalidate(), a.artifactsRm())
	return c
}

// withArtifacts runs f on the artifacts of the state directory.
func (a *app) withArtifacts(ctx context.Context, f func(artifacts) error) error {
	if err := a.needsState("artifacts need"); err != nil {
		return err
	}
	return a.withBackend(ctx, readyTime, func(b backend) error { return f(b) })
}

func (a *app) artifactsLs() *cobra.Command {
	c := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List artifacts and caches, those whose names begin so",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withArtifacts(c.Context(), func(as artifacts) error {
				list, err := as.listArtifacts(c.Context(), strings.Join(args, ""))
				if err != nil {
					return err
				}
				if a.format == formatJSON {
					return writeArtifactsJSON(a.out, list)
				}
				return writeArtifacts(a.out, list)
			})
		},
	}
	a.formatFlag(c)
	return c
}

func (a *app) artifactsPut() *cobra.Command {
	var u host.Upload
	c := &cobra.Command{
		Use:   "put NAME PATH",
		Short: "Make an artifact of a directory, a file, or - for a tar archive on stdin",
		Long: `Make an artifact of a directory, a file, or - for a tar archive on stdin.

A daemon gives up an upload of which nothing comes for as long as it waits for a worker (worker_gone, 5 minutes), so that others have its room:
write an archive whose making pauses for longer to a file first. Without a daemon it is waited for.`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			path := args[1]
			if u.Name = args[0]; u.TTL < 0 {
				return usageError{fmt.Errorf("--ttl %s is negative", u.TTL)}
			}
			src := func(ctx context.Context, w io.Writer) error { return stream.PackDir(ctx, path, w) }
			if path == "-" {
				src = func(ctx context.Context, w io.Writer) error {
					_, err := io.Copy(w, &interruptible{ctx: ctx, r: a.in})
					return err
				}
			} else if u.Encoding != "" {
				return usageError{errors.New("--encoding is that of an archive on stdin: put NAME -")}
			}
			return a.withArtifacts(c.Context(), func(as artifacts) error { return as.upload(c.Context(), u, src) })
		},
	}
	c.Flags().DurationVar(&u.TTL, "ttl", 0, "keep it for so long; default 12h")
	c.Flags().StringVar(&u.Encoding, "encoding", "", "of the archive on stdin: raw, gzip or zstd; default raw")
	return c
}

func (a *app) artifactsGet() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "get NAME DIR",
		Short: "Write an artifact to a directory, or with - as a tar archive to stdout",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withArtifacts(c.Context(), func(as artifacts) error {
				if args[1] == "-" {
					return as.download(c.Context(), args[0], a.out)
				}
				return as.downloadDir(c.Context(), args[0], args[1], force)
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace a directory that is not empty")
	return c
}

func (a *app) artifactsFiles() *cobra.Command {
	c := &cobra.Command{
		Use:   "files NAME [PATH]",
		Short: "List what is in an artifact, or in a directory of it",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withArtifacts(c.Context(), func(as artifacts) error {
				files, err := as.listFiles(c.Context(), args[0], strings.Join(args[1:], ""))
				if err != nil {
					return err
				}
				if a.format == formatJSON {
					return writeFilesJSON(a.out, files)
				}
				return writeFiles(a.out, files)
			})
		},
	}
	a.formatFlag(c)
	return c
}

func (a *app) artifactsCat() *cobra.Command {
	return &cobra.Command{
		Use:   "cat NAME FILE",
		Short: "Print one file of an artifact",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withArtifacts(c.Context(), func(as artifacts) error { return as.readFile(c.Context(), args[0], args[1], a.out) })
		},
	}
}

func (a *app) artifactsRm() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove artifacts, or caches",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withArtifacts(c.Context(), func(as artifacts) error {
				var errs []error
				for _, name := range args {
					errs = append(errs, as.removeArtifact(c.Context(), name))
				}
				return errors.Join(errs...)
			})
		},
	}
}

// interruptible is a reader of which nobody waits for a read once ctx has ended: of a terminal or a pipe that may stay silent for ever. The read
// itself then ends with the program.
type interruptible struct {
	ctx  context.Context
	r    io.Reader
	buf  []byte
	left []byte
}

func (i *interruptible) Read(p []byte) (int, error) {
	if len(i.left) > 0 {
		n := copy(p, i.left)
		i.left = i.left[n:]
		return n, nil
	}
	type result struct {
		n   int
		err error
	}
	if i.buf == nil {
		i.buf = make([]byte, 64<<10)
	}
	done := make(chan result, 1)
	go func() {
		n, err := i.r.Read(i.buf)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		n := copy(p, i.buf[:r.n])
		i.left = i.buf[n:r.n]
		if len(i.left) > 0 && r.err == io.EOF {
			r.err = nil // it comes again
		}
		return n, r.err
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	}
}

func writeArtifacts(to *outlet, list []host.ArtifactReport) error {
	t := newTable(to, "NAME", "SIZE", "MADE", "EXPIRES", "OWNER", "WHERE", "CACHE")
	for _, r := range list {
		size := "-"
		if r.Bytes > 0 {
			size = byteSize(r.Bytes)
		}
		expires := "-"
		if !r.Expires.IsZero() {
			expires = r.Expires.Local().Format(time.DateTime)
		}
		t.row(r.Name, size, r.Made.Local().Format(time.DateTime), expires, dash(r.Owner),
			dash(strings.Join(r.Places, ",")), dash(r.Key))
	}
	return t.end()
}

type artifactJSON struct {
	Name    string     `json:"name"`
	ID      string     `json:"id"`
	Bytes   int64      `json:"bytes,omitempty"` // of its content; left out: unknown
	Made    time.Time  `json:"made"`
	Used    *time.Time `json:"used,omitempty"`
	Expires *time.Time `json:"expires,omitempty"` // left out: its owner decides
	Owner   string     `json:"owner,omitempty"`
	Team    string     `json:"team,omitempty"`
	Places  []string   `json:"places"` // workers, or "host"
	Key     string     `json:"key,omitempty"`
	Source  string     `json:"source,omitempty"`
}

func writeArtifactsJSON(to *outlet, list []host.ArtifactReport) error {
	out := make([]artifactJSON, 0, len(list))
	for _, r := range list {
		out = append(out, artifactJSON{Name: r.Name, ID: r.ID, Bytes: r.Bytes, Made: r.Made, Used: known(r.Used), Expires: known(r.Expires), Owner: r.Owner,
			Team: r.Team, Places: append([]string{}, r.Places...), Key: r.Key, Source: r.Source})
	}
	return to.writeJSON(out)
}

// upload waits for a slow stdin for ever: the host is this command's own, and nobody else wants the room.
func (e *embedded) upload(ctx context.Context, u host.Upload, src func(context.Context, io.Writer) error) error {
	u.Idle = -1
	_, err := e.h.UploadFrom(ctx, u, src)
	return err
}

// found calls f with the artifact of a name.
func (e *embedded) found(ctx context.Context, name string, f func(*host.Artifact) error) error {
	a, err := e.h.Artifact(ctx, name)
	if err != nil {
		return err
	}
	return f(a)
}

func (e *embedded) download(ctx context.Context, name string, w io.Writer) error {
	return e.found(ctx, name, func(a *host.Artifact) error { return e.h.Download(ctx, a, w) })
}

func (e *embedded) downloadDir(ctx context.Context, name, target string, force bool) error {
	return e.found(ctx, name, func(a *host.Artifact) error { return e.h.DownloadDir(ctx, a, target, force) })
}

func (e *embedded) readFile(ctx context.Context, name, file string, w io.Writer) error {
	return e.found(ctx, name, func(a *host.Artifact) error { return e.h.ReadFile(ctx, a, file, w) })
}

func (e *embedded) listFiles(ctx context.Context, name, path string) (files []sdk.FileInfo, err error) {
	err = e.found(ctx, name, func(a *host.Artifact) error {
		files, err = e.h.ListFiles(ctx, a, path)
		return err
	})
	return files, err
}

func (e *embedded) listArtifacts(ctx context.Context, prefix string) ([]host.ArtifactReport, error) {
	return e.h.Artifacts(ctx, host.ArtifactFilter{Prefix: prefix})
}

func (e *embedded) removeArtifact(ctx context.Context, name string) error {
	return e.found(ctx, name, func(a *host.Artifact) error { return e.h.RemoveArtifact(ctx, a) })
}

func (d *daemon) upload(ctx context.Context, u host.Upload, src func(context.Context, io.Writer) error) error {
	return d.c.Upload(ctx, u, src)
}

func (d *daemon) download(ctx context.Context, name string, w io.Writer) error {
	return d.c.Download(ctx, name, w)
}

func (d *daemon) downloadDir(ctx context.Context, name, target string, force bool) error {
	return d.c.DownloadDir(ctx, name, target, force)
}

func (d *daemon) readFile(ctx context.Context, name, file string, w io.Writer) error {
	return d.c.ReadFile(ctx, name, file, w)
}

func (d *daemon) listFiles(ctx context.Context, name, path string) ([]sdk.FileInfo, error) {
	return d.c.ListFiles(ctx, name, path)
}

func (d *daemon) listArtifacts(ctx context.Context, prefix string) ([]host.ArtifactReport, error) {
	return d.c.Artifacts(ctx, prefix)
}

func (d *daemon) removeArtifact(ctx context.Context, name string) error {
	return d.c.RemoveArtifact(ctx, name)
}
