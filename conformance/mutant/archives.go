package mutant

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// archiveMutants lose something of the trees that go in.
func archiveMutants() []Mutant {
	return []Mutant{
		{
			ID: "setuid-lost", Doc: "archives lose setuid, setgid and sticky bits", Rule: 9,
			Killers: []string{"F01-modes", "V06-clone-equal", "F33-seen-inside"},
			breaks: unpacker(func() entryFunc {
				return func(h *tar.Header, data []byte) ([]byte, bool) { h.Mode &= 0o777; return data, true }
			}),
		},
		{
			ID: "links-made-safe", Doc: "symbolic links that point outside are made to point to their neighbours", Rule: 9,
			Killers: []string{"F02-symlinks"},
			breaks: unpacker(func() entryFunc {
				return func(h *tar.Header, data []byte) ([]byte, bool) {
					if strings.HasPrefix(h.Linkname, "/") || strings.Contains(h.Linkname, "..") {
						h.Linkname = h.Linkname[strings.LastIndex(h.Linkname, "/")+1:]
					}
					return data, true
				}
			}),
		},
		{
			ID: "hard-links-copied", Doc: "hard links become copies", Rule: 9,
			Killers: []string{"F03-hard-links"}, breaks: unpacker(hardLinksCopied),
		},
		{
			ID: "big-file-cut", Doc: "files end at 4 MiB", Rule: 9,
			Killers: []string{"F05-size"},
			breaks: unpacker(func() entryFunc {
				return func(h *tar.Header, data []byte) ([]byte, bool) { return data[:min(len(data), 4<<20)], true }
			}),
		},
		{
			ID: "empty-directories-lost", Doc: "directories are only made for the files in them", Rule: 9,
			Killers: []string{"F06-empty"},
			breaks: unpacker(func() entryFunc {
				return func(h *tar.Header, data []byte) ([]byte, bool) { return data, h.Typeflag != tar.TypeDir }
			}),
		},
		{
			ID: "early-times-lost", Doc: "times before 1970 become 1970", Rule: 9,
			Killers: []string{"F07-times"},
			breaks: unpacker(func() entryFunc {
				return func(h *tar.Header, data []byte) ([]byte, bool) {
					if h.ModTime.Unix() < 0 {
						h.ModTime = time.Unix(0, 0)
					}
					return data, true
				}
			}),
		},
		{
			ID: "large-owners-lost", Doc: "owners beyond 65534 become nobody", Rule: 9,
			Killers: []string{"F08-owners"},
			breaks: unpacker(func() entryFunc {
				return func(h *tar.Header, data []byte) ([]byte, bool) {
					h.Uid, h.Gid = min(h.Uid, 65534), min(h.Gid, 65534)
					return data, true
				}
			}),
		},
		{
			ID: "long-names-cut", Doc: "names end at a hundred bytes", Rule: 9,
			Killers: []string{"F09-names"},
			breaks: unpacker(func() entryFunc {
				return func(h *tar.Header, data []byte) ([]byte, bool) {
					if h.Typeflag == tar.TypeReg && len(h.Name) > 100 {
						h.Name = h.Name[:100]
					}
					return data, true
				}
			}),
		},
		{
			ID: "file-skipped", Doc: "of each archive the three-hundredth entry is left out", Rule: 9,
			Killers: []string{"F13-many"},
			breaks: unpacker(func() entryFunc {
				n := 0
				return func(h *tar.Header, data []byte) ([]byte, bool) { n++; return data, n != 300 }
			}),
		},
	}
}

// entryFunc changes an entry of an archive on its way in, or says that it is left out.
type entryFunc func(h *tar.Header, data []byte) (changed []byte, keep bool)

// unpacker breaks StreamIn for raw archives: each passes through a function of its own.
func unpacker(begin func() entryFunc) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
			if in.Encoding != "" && in.Encoding != sdk.EncodingRaw {
				return w.StreamIn(ctx, id, in, r)
			}
			var changed bytes.Buffer
			if err := rewrite(&changed, r, begin()); err != nil {
				return sdk.NewInvalid(sdk.ReasonArchive, "volume %q: %v", id, err)
			}
			return w.StreamIn(ctx, id, in, &changed)
		}}
	}
}

// rewrite copies an archive entry by entry.
func rewrite(w io.Writer, r io.Reader, change entryFunc) error {
	tr, tw := tar.NewReader(r), tar.NewWriter(w)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, r)
			return errors.Join(err, tw.Close())
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			return err
		}
		data, keep := change(h, data)
		if !keep {
			continue
		}
		h.Size = int64(len(data))
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(data); err != nil {
			return err
		}
	}
}

func hardLinksCopied() entryFunc {
	files := make(map[string][]byte)
	return func(h *tar.Header, data []byte) ([]byte, bool) {
		switch h.Typeflag {
		case tar.TypeReg:
			files[h.Name] = data
		case tar.TypeLink:
			if data, ok := files[h.Linkname]; ok {
				h.Typeflag, h.Linkname = tar.TypeReg, ""
				return data, true
			}
		}
		return data, true
	}
}
