package mutant

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// dialectMutants are broken in how they read what different programs write.
func dialectMutants() []Mutant {
	return []Mutant{
		{
			ID: "xattrs-lost", Doc: "extended attributes are lost", Rule: 9,
			Killers: []string{"F04-xattrs"}, breaks: unpacker(perEntry(func(h *tar.Header) bool {
				*h = tar.Header{Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Mode: h.Mode, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime}
				return true
			})),
		},
		{
			ID: "names-mended", Doc: "names that are no UTF-8 are mended", Rule: 9,
			Killers: []string{"F10-name-bytes"}, breaks: unpacker(perEntry(func(h *tar.Header) bool {
				h.Name = strings.ToValidUTF8(h.Name, "?")
				return true
			})),
		},
		{
			ID: "pipes-become-files", Doc: "a named pipe becomes an empty file", Rule: 9,
			Killers: []string{"F11-special"}, breaks: unpacker(perEntry(func(h *tar.Header) bool {
				if h.Typeflag == tar.TypeFifo {
					h.Typeflag = tar.TypeReg
				}
				return true
			})),
		},
		{
			ID: "gnu-skipped", Doc: "entries in GNU's format are skipped", Rule: 9,
			Killers: []string{"F12-dialects"}, breaks: unpacker(perEntry(func(h *tar.Header) bool { return h.Format&tar.FormatGNU == 0 || h.Format&tar.FormatUSTAR != 0 })),
		},
		{
			ID: "times-drift", Doc: "times lose a second on the way in", Rule: 9,
			Killers: []string{"F21-round"}, breaks: unpacker(perEntry(func(h *tar.Header) bool {
				h.ModTime = h.ModTime.Add(-time.Second)
				return true
			})),
		},
		{
			ID: "padding-unread", Doc: "a stream is read to the archive's end mark and no further", Rule: 9, Near: true,
			Killers: []string{"F25-padding"}, breaks: paddingUnread,
		},
		{
			ID: "rest-unpacked", Doc: "an archive that comes after another one's end mark is unpacked, too", Rule: 9,
			Killers: []string{"F50-after-the-end"}, breaks: afterTheEnd(func(archive, rest []byte) ([]byte, error) {
				if _, err := tar.NewReader(bytes.NewReader(rest)).Next(); err != nil {
					return archive, nil
				}
				const mark = 1024
				return append(archive[:len(archive)-mark:len(archive)-mark], rest...), nil
			}),
		},
		{
			ID: "rest-is-damage", Doc: "an archive after whose end mark something comes is damaged", Rule: 9,
			Killers: []string{"F50-after-the-end"}, breaks: afterTheEnd(func(archive, rest []byte) ([]byte, error) {
				if len(bytes.Trim(rest, "\x00")) > 0 {
					return nil, sdk.NewInvalid(sdk.ReasonArchive, "%d bytes come after the archive's end", len(rest))
				}
				return archive, nil
			}),
		},
		{
			ID: "nothing-is-empty", Doc: "no bytes at all count as an empty archive", Rule: 9,
			Killers: []string{"F26-nothing"}, breaks: nothingIsEmpty,
		},
		{
			ID: "first-entry-counts", Doc: "of two entries with one name the first one counts", Rule: 9,
			Killers: []string{"F28-twice"}, breaks: unpacker(func() entryFunc {
				seen := make(map[string]bool)
				return perEntryOf(func(h *tar.Header) bool {
					again := seen[h.Name]
					seen[h.Name] = true
					return !again
				})
			}),
		},
		{
			ID: "parents-wanted", Doc: "what lies in a directory that the archive does not name is skipped", Rule: 9,
			Killers: []string{"F29-parents"}, breaks: unpacker(func() entryFunc {
				named := map[string]bool{".": true}
				return perEntryOf(func(h *tar.Header) bool {
					named[path.Clean(h.Name)] = true
					return named[path.Dir(path.Clean(h.Name))]
				})
			}),
		},
		{
			ID: "dot-names-skipped", Doc: "names that begin with a dot and a slash are skipped", Rule: 9,
			Killers: []string{"F30-dot-names"}, breaks: unpacker(perEntry(func(h *tar.Header) bool { return !strings.HasPrefix(h.Name, "./") })),
		},
		{
			ID: "lost-link-is-file", Doc: "a hard link to what is not there becomes an empty file", Rule: 9,
			Killers: []string{"F32-link-missing"}, breaks: unpacker(func() entryFunc {
				seen := make(map[string]bool)
				return perEntryOf(func(h *tar.Header) bool {
					seen[h.Name] = true
					if h.Typeflag == tar.TypeLink && !seen[h.Linkname] {
						h.Typeflag, h.Linkname = tar.TypeReg, ""
					}
					return true
				})
			}),
		},
		{
			ID: "short-read-is-end", Doc: "a read that gives less than was asked for is taken for the last one", Rule: 9, Near: true,
			Killers: []string{"F34-long-stream"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
					return w.StreamIn(ctx, id, in, &impatient{r: r})
				}}
			},
		},
		{
			ID: "first-member-alone", Doc: "of several gzip members the first one is read", Rule: 9,
			Killers: []string{"F37-gzip-members"}, breaks: firstMemberAlone,
		},
		{
			ID: "checksum-skipped", Doc: "bytes that were changed in an encoded stream are let through", Rule: 9,
			Killers: []string{"F40-corrupt"}, breaks: archiveErrorsTaken(func(in sdk.StreamIn) bool { return in.Encoding == "gzip" }),
		},
		{
			ID: "one-reader", Doc: "a volume streams out to one reader at a time", Rule: 9,
			Killers: []string{"F46-many-readers"}, breaks: oneReader,
		},
		{
			ID: "directories-replaced", Doc: "an archive takes the place of what was there", Rule: 9,
			Killers: []string{"F48-trees-merge"}, breaks: directoriesReplaced,
		},
		{
			ID: "streams-mixed", Doc: "two streams into one worker at once share a buffer", Rule: 9,
			Killers: []string{"N09-streams-race"}, breaks: streamsMixed,
		},
		{
			ID: "lies-believed", Doc: "what contradicts itself in an archive counts as done", Rule: 9,
			Killers: []string{"Z12-header-lies"}, breaks: archiveErrorsTaken(func(in sdk.StreamIn) bool { return in.Encoding == "" }),
		},
	}
}

// perEntry changes each header by itself.
func perEntry(change func(*tar.Header) bool) func() entryFunc {
	return func() entryFunc { return perEntryOf(change) }
}

func perEntryOf(change func(*tar.Header) bool) entryFunc {
	return func(h *tar.Header, data []byte) ([]byte, bool) {
		keep := change(h)
		if h.Typeflag != tar.TypeReg {
			data = nil
		}
		return data, keep
	}
}

func paddingUnread(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
		if in.Encoding != "" && in.Encoding != sdk.EncodingRaw {
			return w.StreamIn(ctx, id, in, r)
		}
		var archive bytes.Buffer
		tr := tar.NewReader(io.TeeReader(r, &archive))
		for {
			_, err := tr.Next()
			if errors.Is(err, io.EOF) {
				return w.StreamIn(ctx, id, in, &archive)
			}
			if err != nil {
				return sdk.NewInvalid(sdk.ReasonArchive, "volume %q: %v", id, err)
			}
		}
	}}
}

// afterTheEnd makes something of an archive and of what comes after its end mark. What is no archive stays as it is.
func afterTheEnd(join func(archive, rest []byte) ([]byte, error)) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
			if in.Encoding != "" && in.Encoding != sdk.EncodingRaw {
				return w.StreamIn(ctx, id, in, r)
			}
			whole, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			left := bytes.NewReader(whole)
			for tr := tar.NewReader(left); err == nil; {
				_, err = tr.Next()
			}
			if errors.Is(err, io.EOF) {
				end := len(whole) - left.Len()
				if whole, err = join(whole[:end:end], whole[end:]); err != nil {
					return err
				}
			}
			return w.StreamIn(ctx, id, in, bytes.NewReader(whole))
		}}
	}
}

func nothingIsEmpty(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
		first := make([]byte, 1)
		if _, err := io.ReadFull(r, first); errors.Is(err, io.EOF) {
			return nil
		}
		return w.StreamIn(ctx, id, in, io.MultiReader(bytes.NewReader(first), r))
	}}
}

// impatient ends after the first read that did not fill what it was given.
type impatient struct {
	r     io.Reader
	ended bool
}

func (i *impatient) Read(p []byte) (int, error) {
	if i.ended {
		return 0, io.EOF
	}
	n, err := i.r.Read(p)
	i.ended = n < len(p)
	return n, err
}

func firstMemberAlone(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
		if in.Encoding != "gzip" {
			return w.StreamIn(ctx, id, in, r)
		}
		z, err := gzip.NewReader(r)
		if err != nil {
			return sdk.NewInvalid(sdk.ReasonArchive, "volume %q: %v", id, err)
		}
		z.Multistream(false)
		archive, err := io.ReadAll(z)
		if err != nil {
			return sdk.NewInvalid(sdk.ReasonArchive, "volume %q: %v", id, err)
		}
		in.Encoding = ""
		return w.StreamIn(ctx, id, in, bytes.NewReader(archive))
	}}
}

func oneReader(w sdk.Worker) sdk.Worker {
	readers := newCrowd()
	return &broken{Worker: w, streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
		if !readers.enter(string(id)) {
			return sdk.NewUnavailable(nil, "volume %q is being read", id)
		}
		defer readers.leave(ctx, string(id))
		return w.StreamOut(ctx, id, out, dst)
	}}
}

func directoriesReplaced(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	latest := make(map[sdk.VolumeID]map[string]bool)
	return &broken{Worker: w,
		streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
			archive, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			names := make(map[string]bool)
			err = rewrite(io.Discard, bytes.NewReader(archive), func(h *tar.Header, data []byte) ([]byte, bool) {
				names[path.Join("/", in.Path, h.Name)] = true
				return data, false
			})
			if err == nil {
				mu.Lock()
				latest[id] = names
				mu.Unlock()
			} // else the good worker refuses it
			return w.StreamIn(ctx, id, in, bytes.NewReader(archive))
		},
		streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
			mu.Lock()
			names := latest[id]
			mu.Unlock()
			var b bytes.Buffer
			if err := w.StreamOut(ctx, id, out, &b); err != nil {
				return err
			}
			return rewrite(dst, &b, func(h *tar.Header, data []byte) ([]byte, bool) {
				return data, names == nil || names[path.Join("/", out.Path, h.Name)]
			})
		},
	}
}

func streamsMixed(w sdk.Worker) sdk.Worker {
	type swap struct{ first, second chan []byte }
	waiting := make(chan swap)
	var streams atomic.Int64
	return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
		archive, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if streams.Add(1) == 1 { // nobody is beside it: of those that follow there are two at once
			return w.StreamIn(ctx, id, in, bytes.NewReader(archive))
		}
		mine := swap{make(chan []byte, 1), make(chan []byte, 1)}
		alone := time.NewTimer(patience)
		defer alone.Stop()
		select { // two that meet take each other's
		case waiting <- mine:
			mine.second <- archive
			archive = <-mine.first
		case theirs := <-waiting:
			theirs.first <- archive
			archive = <-theirs.second
		case <-alone.C:
		case <-ctx.Done():
		}
		return w.StreamIn(ctx, id, in, bytes.NewReader(archive))
	}}
}
