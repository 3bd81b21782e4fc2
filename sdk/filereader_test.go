package sdk_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// streamer is a worker that can only stream out.
type streamer struct {
	sdk.Worker
	out func(ctx context.Context, w io.Writer) error
}

func (s streamer) StreamOut(ctx context.Context, _ sdk.VolumeID, _ sdk.StreamOut, w io.Writer) error {
	return s.out(ctx, w)
}

// readable has files.read, too.
type readable struct{ streamer }

func (readable) StatFile(context.Context, sdk.VolumeID, string) (sdk.FileInfo, error) {
	return sdk.FileInfo{}, errors.ErrUnsupported
}

func (readable) ListFiles(context.Context, sdk.VolumeID, string, func(sdk.FileInfo) error) error {
	return errors.ErrUnsupported
}

func (readable) ReadFile(_ context.Context, id sdk.VolumeID, path string, offset, length int64, w io.Writer) error {
	if id != "v" || path != "d/f" || offset != 0 || length >= 0 {
		return errors.ErrUnsupported
	}
	_, err := io.WriteString(w, "by files.read")
	return err
}

type entry struct {
	name, data string
	typ        byte
}

func pack(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.typ, Size: int64(len(e.data)), Mode: 0o644}
		if e.typ == tar.TypeSymlink {
			h.Linkname = "elsewhere"
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tw, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// gives streams bytes out and then ends with err.
func gives(archive []byte, err error) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error {
		if _, err := io.Copy(w, inPieces(archive)); err != nil {
			return err
		}
		return err
	}
}

// inPieces gives odd pieces, as a network does.
func inPieces(b []byte) io.Reader {
	var rs []io.Reader
	for len(b) > 0 {
		n := min(len(b), 700)
		rs = append(rs, bytes.NewReader(b[:n]))
		b = b[n:]
	}
	return io.MultiReader(rs...)
}

func TestReadFile(t *testing.T) {
	data := strings.Repeat("0123456789abcdef", 1000)
	file := pack(t, entry{"f", data, tar.TypeReg})
	lost := sdk.NewUnavailable(nil, "server is away")
	notThere := sdk.NewNotFound(sdk.KindFile, "d/f")
	for name, c := range map[string]struct {
		out  func(context.Context, io.Writer) error
		want string
		err  error   // exactly this one
		is   []error // or one that is these
	}{
		"whole":                     {out: gives(file, nil), want: data},
		"empty file":                {out: gives(pack(t, entry{"f", "", tar.TypeReg}), nil)},
		"named with a dot":          {out: gives(pack(t, entry{"./f", "x", tar.TypeReg}), nil), want: "x"},
		"padded as by tar's blocks": {out: gives(append(bytes.Clone(file), make([]byte, 10<<10)...), nil), want: data},
		"missing":                   {out: gives(nil, notThere), err: notThere},

		"directory":                  {out: gives(pack(t, entry{"./", "", tar.TypeDir}, entry{"./f", "x", tar.TypeReg}), nil), is: []error{sdk.Invalid, sdk.ReasonPath}},
		"directory without an entry": {out: gives(pack(t, entry{"a", "x", tar.TypeReg}), nil), is: []error{sdk.Invalid, sdk.ReasonPath}},
		"directory of two":           {out: gives(pack(t, entry{"f", "x", tar.TypeReg}, entry{"g", "x", tar.TypeReg}), nil), is: []error{sdk.Invalid, sdk.ReasonPath}},
		"empty directory":            {out: gives(pack(t), nil), is: []error{sdk.Invalid, sdk.ReasonPath}},
		"symbolic link":              {out: gives(pack(t, entry{"f", "", tar.TypeSymlink}), nil), is: []error{sdk.Invalid, sdk.ReasonPath}},
		"named pipe":                 {out: gives(pack(t, entry{"f", "", tar.TypeFifo}), nil), is: []error{sdk.Invalid, sdk.ReasonPath}},

		"fails at once":               {out: gives(nil, lost), err: lost},
		"fails in the header":         {out: gives(file[:100], lost), err: lost},
		"fails in the data":           {out: gives(file[:512+777], lost), err: lost},
		"fails after the data":        {out: gives(file[:512+len(data)], lost), err: lost},
		"fails after all":             {out: gives(file, lost), err: lost},
		"fails with an EOF":           {out: gives(file[:512+777], io.EOF), err: io.EOF},
		"cut in the data, says nil":   {out: gives(file[:512+777], nil), is: []error{sdk.Internal, io.ErrUnexpectedEOF}},
		"cut in a header, says nil":   {out: gives(file[:100], nil), is: []error{sdk.Internal, io.ErrUnexpectedEOF}},
		"no archive":                  {out: gives([]byte(strings.Repeat("no archive ", 100)), nil), is: []error{sdk.Internal, tar.ErrHeader}},
		"no archive and never ends":   {out: endless([]byte(strings.Repeat("no archive ", 100))), is: []error{sdk.Internal, tar.ErrHeader}},
		"a directory that never ends": {out: endless(pack(t, entry{"./", "", tar.TypeDir})), is: []error{sdk.Invalid, sdk.ReasonPath}},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			err := sdk.ReadFile(t.Context(), streamer{out: c.out}, sdk.Status{}, "v", "d/f", &got)
			if c.err != nil && err != c.err {
				t.Errorf("got %v, want %v unchanged", err, c.err)
			}
			for _, target := range c.is {
				if !errors.Is(err, target) {
					t.Errorf("got %v, want one that is %q", err, target)
				}
			}
			if c.err == nil && c.is == nil && (err != nil || got.String() != c.want) {
				t.Errorf("%d bytes and %v, want %d and none", got.Len(), err, len(c.want))
			}
		})
	}
}

// endless writes bytes again and again until it is stopped, and hides from its caller what stopped it.
func endless(b []byte) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error {
		for {
			if _, err := w.Write(b); err != nil {
				return errors.New("my own words for a broken pipe")
			}
		}
	}
}

// brokenWriter takes so many bytes and no more.
type brokenWriter struct {
	room int
	err  error
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		n := w.room
		w.room = 0
		return n, w.err
	}
	w.room -= len(p)
	return len(p), nil
}

func TestReadFileGivesBackTheErrorOfItsWriter(t *testing.T) {
	full := errors.New("disk is full")
	data := strings.Repeat("x", 1<<20)
	for name, out := range map[string]func(context.Context, io.Writer) error{
		"a worker that gives it back": gives(pack(t, entry{"f", data, tar.TypeReg}), nil),
		"a worker with its own words": endless(pack(t, entry{"f", data, tar.TypeReg})),
		"a worker that waits for its context": func(ctx context.Context, w io.Writer) error {
			if _, err := w.Write(pack(t, entry{"f", data, tar.TypeReg})[:4096]); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := sdk.ReadFile(t.Context(), streamer{out: out}, sdk.Status{}, "v", "f", &brokenWriter{1000, full}); err != full {
				t.Errorf("got %v, want the writer's own", err)
			}
			if err := sdk.ReadFile(t.Context(), streamer{out: out}, sdk.Status{}, "v", "f", &brokenWriter{1000, nil}); err != io.ErrShortWrite {
				t.Errorf("a writer that takes less and says nothing: %v", err)
			}
		})
	}
}

func TestReadFileEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := streamer{out: func(ctx context.Context, _ io.Writer) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}
	if err := sdk.ReadFile(ctx, w, sdk.Status{}, "v", "f", io.Discard); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

func TestReadFileAsksTheStatusNotTheType(t *testing.T) {
	w := readable{streamer{out: gives(pack(t, entry{"f", "by tar", tar.TypeReg}), nil)}}
	for want, s := range map[string]sdk.Status{"by tar": {}, "by files.read": {Features: []sdk.Feature{sdk.FeatureFileRead}}} {
		var got bytes.Buffer
		if err := sdk.ReadFile(t.Context(), w, s, "v", "d/f", &got); err != nil || got.String() != want {
			t.Errorf("%q and %v, want it read %s", &got, err, want)
		}
	}
	// A name without the methods behind it is no reason to fail.
	var got bytes.Buffer
	s := sdk.Status{Features: []sdk.Feature{sdk.FeatureFileRead}}
	if err := sdk.ReadFile(t.Context(), w.streamer, s, "v", "d/f", &got); err != nil || got.String() != "by tar" {
		t.Errorf("%q and %v", &got, err)
	}
}
