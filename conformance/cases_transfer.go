package conformance

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/slipway-run/slipway/sdk"
)

// transferCases check how archives go in and out, and what is refused.
func transferCases() []Case {
	return []Case{
		{
			ID: "F14-single-file", Title: "streaming out one file gives one entry named after it", Promises: []string{"9r"}, Level: Must, Profile: Streaming, Run: runSingleFile,
			Doc: "A host reads single files, such as a version or a log, out of volumes.",
		},
		{
			ID: "F15-subpath", Title: "an archive goes in below a path, which is made where missing, and a directory's content comes out without its name",
			Promises: []string{"9r"}, Level: Must, Profile: Streaming, Run: runSubpath,
			Doc: "Names in archives are relative to the path on both ways.",
		},
		{
			ID: "F18-absolute-path", Title: "a path of a volume that begins with a slash is Invalid", Promises: []string{"11b"}, Level: Must, Profile: Streaming, Run: runAbsolutePath,
			Doc: "Paths inside a volume are relative. Whoever gives an absolute one means another tree: that of the worker or of a container.",
		},
		{
			ID: "F49-path-passes", Title: "an archive does not go in at or through a file or a symbolic link: Invalid with the reason path", Promises: []string{"9y"}, Level: Must, Profile: Streaming, Run: runPathPasses,
			Doc: "A step may leave a link where the next one's input goes. Whoever follows it writes somewhere else than was asked.",
		},
		{
			ID: "F16-damaged", Title: "a damaged archive is Invalid with the reason archive", Promises: []string{"9o"}, Level: Must, Profile: Streaming, Run: runDamaged,
			Doc: "A truncated stream that counts as whole is an input with files missing.",
		},
		{
			ID: "F17-encoding-unknown", Title: "an encoding that the worker does not name is Invalid with the reason encoding", Promises: []string{"9u"}, Level: Must, Profile: Streaming, Run: runUnknownEncoding,
			Doc: "Bytes in an encoding that nobody decodes are no tree.",
		},
		{
			ID: "F19-missing", Title: "streaming out a path that is not there is NotFound of a file before anything is written", Promises: []string{"9r"}, Level: Must, Profile: Streaming, Run: runMissingPath,
			Doc: "An empty archive in place of a missing path is a result that is silently empty.",
		},
		{
			ID: "F22-encodings", Title: "each encoding that the worker names works both ways", Promises: []string{"9u"}, Level: Must, Profile: Streaming, Run: runEncodings,
			Doc: "Encoded bytes are passed between workers as they are.",
		},
		{
			ID: "F23-caller-errors", Title: "errors of the caller's reader and writer come back unchanged", Promises: []string{"14b"}, Level: Must, Profile: Streaming, Run: runCallerErrors,
			Doc: "A host that streams from one worker to another has to know which side failed.",
		},
		{
			ID: "K04-cancel-stream", Title: "cancelling a stream ends the call, also while the caller's reader is blocked, and the volume can be destroyed",
			Promises: []string{"2a", "14c"}, Level: Must, Profile: Streaming, Run: runCancelStream,
			Doc: "The source of a stream may be another worker that hangs.",
		},
		{
			ID: "F24-replace", Title: "an archive replaces files and links that are there, and writes through none of them", Promises: []string{"9q"}, Level: Must, Profile: Streaming, Run: runReplace,
			Doc: "Opening for writing in place of a new file writes through links, into files that have another name.",
		},
	}
}

func runSingleFile(ctx context.Context, c *C) {
	f := File("d/e/file", "one")
	f.Mode = 0o751
	id := c.Filled(ctx, Dir("d"), Dir("d/e"), f, File("d/e/other", "two"), Symlink("d/link", "e/file"))
	f.Path = "file"
	c.WantTree(c.Tree(ctx, id, "d/e/file"), []Entry{f}, 0, "streaming d/e/file out")
	c.WantTree(c.Tree(ctx, id, "d/link"), []Entry{Symlink("link", "e/file")}, 0, "streaming the link d/link out")
}

func runSubpath(ctx context.Context, c *C) {
	id := c.Filled(ctx, File("above", "above"))
	in := []Entry{Dir("x"), File("x/y", "below"), File("z", "below")}
	c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{Path: "new/path"}, bytes.NewReader(c.Pack(in))), "streaming below new/path")
	c.WantTree(c.Tree(ctx, id, "new/path"), in, c.treeTimes(), "what comes out of new/path")
	all := []Entry{File("above", "above"), Dir("new"), Dir("new/path"), Dir("new/path/x"), File("new/path/x/y", "below"), File("new/path/z", "below")}
	c.WantTree(c.Tree(ctx, id, ""), all, IgnoreMeta, "the whole volume")
	c.WantTree(c.Tree(ctx, id, "new/path/x"), []Entry{File("y", "below")}, 0, "what comes out of new/path/x")
	c.pathsRefused(ctx, id, "../x", "a/../../x", "..")
}

func runAbsolutePath(ctx context.Context, c *C) {
	c.pathsRefused(ctx, c.Filled(ctx, Dir("etc"), File("etc/x", "x")), "/", "/etc", "/no/such")
}

// pathsRefused checks that paths lead into no volume.
func (c *C) pathsRefused(ctx context.Context, id sdk.VolumeID, paths ...string) {
	in := []Entry{File("x", "x")}
	for _, p := range paths {
		err := c.W.StreamIn(ctx, id, sdk.StreamIn{Path: p}, bytes.NewReader(c.Pack(in)))
		c.WantClass(err, sdk.Invalid, "paths inside a volume are relative and never leave it", "streaming in below %q", p)
		var b bytes.Buffer
		err = c.W.StreamOut(ctx, id, sdk.StreamOut{Path: p}, &b)
		c.WantClass(err, sdk.Invalid, "paths inside a volume are relative and never leave it", "streaming %q out", p)
		if b.Len() > 0 {
			c.Errorf("paths inside a volume never leave it", "streaming %q out wrote %d bytes", p, b.Len())
		}
	}
}

func runPathPasses(ctx context.Context, c *C) {
	for _, p := range []string{"f", "f/below", "l", "l/below", "d/up/d"} {
		id := c.Filled(ctx, Dir("d"), File("f", "a file"), Symlink("l", "d"), Symlink("d/up", ".."))
		err := c.W.StreamIn(ctx, id, sdk.StreamIn{Path: p}, bytes.NewReader(c.Pack([]Entry{File("x", "x")})))
		c.WantReason(err, sdk.Invalid, sdk.ReasonPath, "an archive goes where it was sent, or nowhere", "streaming in below %q", p)
	}
}

func runDamaged(ctx context.Context, c *C) {
	whole := c.Pack([]Entry{File("first", pattern(3000)), File("second", pattern(3000))})
	flipped := slices.Clone(whole) // a header of 512 bytes, 3000 of data padded to 3072, and the same again
	flipped[3584] ^= 0x55          // the second name: its header's checksum is wrong now
	for what, archive := range map[string][]byte{
		"cut in a header":      whole[:3584+100],
		"cut in a file":        whole[:3584+512+1000],
		"cut in the padding":   whole[:512+3010],
		"cut between entries":  whole[:3584],
		"without its end":      whole[:2*3584],
		"with a broken header": flipped,
		"no archive at all":    []byte(strings.Repeat("this is no archive; ", 200)),
	} {
		id := c.Volume(ctx)
		err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(archive))
		c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "what is not whole must not count as done", "an archive %s", what)
	}
}

func runUnknownEncoding(ctx context.Context, c *C) {
	id := c.Filled(ctx, File("a", "a"))
	const why = "an encoding is one that the status names"
	err := c.W.StreamIn(ctx, id, sdk.StreamIn{Encoding: "rot13"}, bytes.NewReader(c.Pack([]Entry{File("b", "b")})))
	c.WantReason(err, sdk.Invalid, sdk.ReasonEncoding, why, "streaming in with the encoding rot13")
	var b bytes.Buffer
	err = c.W.StreamOut(ctx, id, sdk.StreamOut{Encoding: "rot13"}, &b)
	c.WantReason(err, sdk.Invalid, sdk.ReasonEncoding, why, "streaming out with the encoding rot13")
	if b.Len() > 0 {
		c.Errorf(why, "a refused stream wrote %d bytes", b.Len())
	}
}

func runMissingPath(ctx context.Context, c *C) {
	id := c.Filled(ctx, Dir("d"), File("d/f", "f"))
	for _, p := range []string{"x", "d/x", "d/f/x"} {
		var b bytes.Buffer
		err := c.W.StreamOut(ctx, id, sdk.StreamOut{Path: p}, &b)
		c.WantNotFound(err, sdk.KindFile, "a host tells a missing result from an empty one", "streaming %q out", p)
		if b.Len() > 0 {
			c.Errorf("NotFound comes before anything is written", "streaming %q out wrote %d bytes", p, b.Len())
		}
	}
}

func runEncodings(ctx context.Context, c *C) {
	tree := []Entry{Dir("d"), File("d/f", pattern(200_000)), Symlink("l", "d/f")}
	for _, encoding := range c.Status.Encodings {
		codec, ok := codecs()[encoding]
		if !ok {
			c.Logf("the suite has no codec for %q", encoding)
			continue
		}
		var encoded bytes.Buffer
		if err := codec.encode(&encoded, c.Pack(tree)); err != nil {
			c.Broken(err)
		}
		id := c.Volume(ctx)
		c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{Encoding: encoding}, &encoded), "streaming in as %q", encoding)
		var out bytes.Buffer
		c.OK(c.W.StreamOut(ctx, id, sdk.StreamOut{Encoding: encoding}, &out), "streaming out as %q", encoding)
		decoded, err := codec.decode(&out)
		if err != nil {
			c.Errorf("an encoding is what its name says", "decoding what came out as %q: %v", encoding, err)
			continue
		}
		entries, err := Unpack(bytes.NewReader(decoded))
		if err != nil {
			c.Errorf("an encoding is what its name says", "what came out as %q: %v", encoding, err)
			continue
		}
		c.WantTree(entries, tree, c.treeTimes(), "in and out as %q", encoding)

		if encoding == sdk.EncodingRaw {
			continue
		}
		var cut bytes.Buffer
		if err := codec.encode(&cut, c.Pack(tree)); err != nil {
			c.Broken(err)
		}
		cut.Truncate(cut.Len() / 2)
		err = c.W.StreamIn(ctx, c.Volume(ctx), sdk.StreamIn{Encoding: encoding}, &cut)
		c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "what is not whole must not count as done", "half of an archive as %q", encoding)
	}
}

type codec struct {
	encode func(w io.Writer, data []byte) error
	decode func(r io.Reader) ([]byte, error)
}

func codecs() map[string]codec {
	return map[string]codec{
		sdk.EncodingRaw: {
			func(w io.Writer, data []byte) error { _, err := w.Write(data); return err },
			io.ReadAll,
		},
		"gzip": {
			func(w io.Writer, data []byte) error {
				z := gzip.NewWriter(w)
				_, err := z.Write(data)
				return errors.Join(err, z.Close())
			},
			func(r io.Reader) ([]byte, error) {
				z, err := gzip.NewReader(r)
				if err != nil {
					return nil, err
				}
				return io.ReadAll(z)
			},
		},
		"zstd": {
			func(w io.Writer, data []byte) error {
				z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
				if err != nil {
					return err
				}
				_, err = z.Write(data)
				return errors.Join(err, z.Close())
			},
			func(r io.Reader) ([]byte, error) {
				z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
				if err != nil {
					return nil, err
				}
				defer z.Close()
				return io.ReadAll(z)
			},
		},
	}
}

// failingWriter takes some bytes and then refuses.
type failingWriter struct{ left int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return w.left, callerError{}
	}
	w.left -= len(p)
	return len(p), nil
}

func runCallerErrors(ctx context.Context, c *C) {
	archive := c.Pack([]Entry{File("a", pattern(300_000))})
	const why = "errors of the caller's own reader and writer come back unchanged"
	for _, n := range []int{0, 100, 100_000} {
		id := c.Volume(ctx)
		r := io.MultiReader(bytes.NewReader(archive[:n]), iotest.ErrReader(callerError{}))
		if err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, r); err != (callerError{}) {
			c.Errorf(why, "StreamIn with a reader that fails after %d bytes: got %s", n, describe(err))
		}
	}
	id := c.Filled(ctx, File("a", pattern(300_000)))
	for _, n := range []int{0, 100, 100_000} {
		if err := c.W.StreamOut(ctx, id, sdk.StreamOut{}, &failingWriter{n}); err != (callerError{}) {
			c.Errorf(why, "StreamOut with a writer that fails after %d bytes: got %s", n, describe(err))
		}
	}
	c.WantTree(c.Tree(ctx, id, ""), []Entry{File("a", pattern(300_000))}, 0, "the volume after its streams were cut")
	half := iotest.OneByteReader(bytes.NewReader(c.Pack([]Entry{File("slow", "one byte at a time")})))
	slow := c.Volume(ctx)
	c.OK(c.W.StreamIn(ctx, slow, sdk.StreamIn{}, half), "streaming in from a reader that gives one byte at a time")
	c.WantTree(c.Tree(ctx, slow, ""), []Entry{File("slow", "one byte at a time")}, 0, "in by single bytes")
}

func runReplace(ctx context.Context, c *C) {
	id := c.Filled(ctx, File("file", "old"), File("kept", "kept"), Symlink("link", "kept"), File("first", "shared"), Hardlink("second", "first"))
	c.Put(ctx, id, File("file", "new"), File("link", "no link now"), File("second", "on its own"))
	c.WantTree(c.Tree(ctx, id, ""), []Entry{
		File("file", "new"), File("kept", "kept"), File("link", "no link now"), File("first", "shared"), File("second", "on its own"),
	}, 0, "after the second archive")
}

func runCancelStream(ctx context.Context, c *C) {
	archive := c.Pack([]Entry{File("a", pattern(300_000))})
	const why = "a context that has ended ends the call, as context.Canceled"
	for _, n := range []int{0, 1000, 200_000} {
		id := c.Volume(ctx)
		pr, pw := io.Pipe()
		streamCtx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		c.Go(func(context.Context) {
			ended <- c.W.StreamIn(streamCtx, id, sdk.StreamIn{}, pr)
			pr.Close() // nobody reads it any more
		})
		pw.Write(archive[:n]) // returns once it was read
		cancel()
		if err := c.AwaitError(ctx, ended, "the end of a cancelled stream"); !isCanceled(err) {
			c.Errorf(why, "StreamIn cancelled after %d bytes: got %s", n, describe(err))
		}
		pw.Close()
		c.OK(c.W.DestroyVolume(ctx, id), "destroying the volume of a cancelled stream")
	}
	id := c.Filled(ctx, File("a", pattern(300_000)))
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := c.W.StreamOut(streamCtx, id, sdk.StreamOut{}, writerFunc(func([]byte) (int, error) {
		cancel()
		return 0, streamCtx.Err()
	}))
	if !isCanceled(err) {
		c.Errorf(why, "StreamOut cancelled at its first bytes: got %s", describe(err))
	}
	c.WantTree(c.Tree(ctx, id, ""), []Entry{File("a", pattern(300_000))}, 0, "the volume after a cancelled stream")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
