package claim

import (
	"archive/tar"
	"context"
	"errors"
	"io"

	"github.com/slipway-run/slipway/sdk"
)

// StreamIn is that of [sdk.Worker].
func (s *Store) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	if err := sdk.CheckID(sdk.KindVolume, string(id)); err != nil {
		return err
	}
	return s.streamIn(ctx, string(id), in, r)
}

// streamIn is StreamIn for the plugin's own volumes, too.
func (s *Store) streamIn(ctx context.Context, handle string, in sdk.StreamIn, r io.Reader) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	encoding, err := checkEncoding(in.Encoding)
	if err != nil {
		return err
	}
	path, err := insidePath(in.Path)
	if err != nil {
		return err
	}
	// One archive after the other: the second may have entries below links of the first.
	unlockStream, err := s.locks.exclusive(ctx, "archive into "+handle)
	if err != nil {
		return err
	}
	unlock, v, err := s.share(ctx, handle)
	if err != nil {
		unlockStream()
		return err
	}
	streamCtx, ended := s.locks.stream(ctx, handle)
	done := func() {
		ended()
		unlock()
		unlockStream()
	}
	if v.State == sdk.VolumeSealed {
		done()
		return sealedAgainst(v)
	}
	known, err := s.linksOf(streamCtx, v)
	if err == nil {
		e := edit(known)
		if at, ok := e.passes(path + "/"); ok {
			err = sdk.NewInvalid(sdk.ReasonPath, "volume %q: path %s goes through the symbolic link %s", handle, quote(in.Path), quote(at))
		}
		if err == nil {
			return s.feed(ctx, streamCtx, v, path, encoding, e, r, done)
		}
	}
	done()
	return err
}

// feed sends an archive and looks at it on its way, until ctx ends, which may be before the caller's does. It calls done once the server writes no
// more; ctx may end with that.
func (s *Store) feed(caller, ctx context.Context, v Volume, path, encoding string, e *linkEdits, r io.Reader, done func()) error {
	ctx, stopFeeding := context.WithCancelCause(ctx)
	defer stopFeeding(nil)
	src := newSource(ctx, r)
	defer src.close()
	s.memo.drop(v.ID) // until it is whole, anything may be there

	sent := encoding
	// Gzip cannot be held back to the byte, see passing. So where there are links that somebody may aim at, it is packed anew.
	if encoding == sdk.EncodingRaw || encoding == encodingGzip && e.base != nil && len(e.base.at) > 0 {
		sent = encodingZstd
	}
	u := s.upload(ctx, v.ID, path, sent, stopFeeding)
	stop := context.AfterFunc(ctx, func() { u.body.Close() }) // a Write that hangs ends, too
	defer stop()
	out := &early{w: u.body}
	var err error
	entry := func(h *tar.Header) error {
		if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			if err := s.takesDevices(ctx, h.Name); err != nil {
				return err
			}
		}
		return e.note(path, h)
	}
	if sent == encoding {
		err = s.passing(src, encoding, out, entry)
	} else {
		err = s.recoding(src, encoding, out, entry)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, src)
	}
	if src.err != nil {
		err = src.err // what the rest made of it does not matter
	} else if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the pipe was closed for that
	}
	u.body.Close()
	if err != nil && err != errAnswered {
		ended, cancel := context.WithCancelCause(ctx)
		cancel(err) // the caller need not wait for the server
		_ = s.settle(ended, u, done)
		if _, ours := errors.AsType[*sdk.Error](err); !ours && err != src.err && ctx.Err() == nil {
			err = badArchive("the archive is damaged: %v", err) // a decoder says so
		}
		return err
	}
	wait := ctx
	if err == errAnswered {
		wait = caller // the answer is there
	}
	answer := s.settle(wait, u, done)
	switch {
	case answer == nil:
		if l := e.links(); l != nil {
			s.memo.put(v.ID, l)
		}
		return nil
	case errors.Is(answer, errNoVolume):
		return sdk.NewNotFound(sdk.KindVolume, v.ID)
	case errors.Is(answer, errBadStream):
		return s.whyBad(caller, v, path, answer)
	}
	return s.lost(caller, v.ID, answer)
}

// early is a writer to a server that may answer before all is written: tar sees an archive's end before the padding. What is left then goes
// nowhere. An answer that is an error ends the feeding.
type early struct {
	w        io.Writer
	answered bool
}

func (e *early) Write(p []byte) (int, error) {
	if e.answered {
		return len(p), nil
	}
	_, err := e.w.Write(p)
	if errors.Is(err, errAnswered) {
		e.answered, err = true, nil
	}
	return len(p), err
}

// passing hands encoded bytes on as they are. Of zstd nothing goes on that has not been decoded and looked at: blocks are decoded whole, by the
// server as well. Of gzip up to 64 KiB of content may be ahead.
func (s *Store) passing(src io.Reader, encoding string, out io.Writer, entry func(*tar.Header) error) error {
	d, free, err := s.codecs.decoder(encoding, newGate(src, out))
	if err != nil {
		return err
	}
	defer free()
	return walk(d, entry)
}

// recoding hands on what is raw, or coded otherwise, as zstd.
func (s *Store) recoding(src io.Reader, encoding string, out io.Writer, entry func(*tar.Header) error) error {
	d, freeDecoder, err := s.codecs.decoder(encoding, src)
	if err != nil {
		return err
	}
	defer freeDecoder()
	enc, freeEncoder, err := s.codecs.encoder(out)
	if err != nil {
		return err
	}
	defer freeEncoder()
	if err := walk(newGate(d, enc), entry); err != nil {
		return err
	}
	return enc.Close()
}

// whyBad finds out what the server does not say. What this package reads to its end and finds good can still be more than the server can
// unpack: a name that is too long, a device node without the right to make one. Or there is no room.
func (s *Store) whyBad(ctx context.Context, v Volume, path string, answer error) error {
	if _, ok, err := s.get(ctx, v.ID); err != nil {
		return err
	} else if !ok {
		return sdk.NewNotFound(sdk.KindVolume, v.ID)
	}
	if err := s.tryRoom(ctx); err != nil {
		return err
	}
	if path != "" { // the server has made it, unless something is in its place
		if isDir, err := s.isDir(ctx, v, path); err != nil {
			return err
		} else if !isDir {
			return sdk.NewInvalid(sdk.ReasonPath, "volume %q: path %s is no directory, or leads through something that is none", v.ID, quote(path))
		}
	}
	return badArchive("volume %q: %v; an archive of this kind cannot be unpacked there", v.ID, answer)
}
