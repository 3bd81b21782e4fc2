package claim

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	pathpkg "path"
	"time"

	"github.com/concourse/baggageclaim"
	"github.com/tedsuo/rata"

	"github.com/slipway-run/slipway/sdk"
)

// StreamOut is that of [sdk.Worker].
func (s *Store) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, w io.Writer) error {
	if err := sdk.CheckID(sdk.KindVolume, string(id)); err != nil {
		return err
	}
	return s.streamOut(ctx, string(id), out, w)
}

func (s *Store) streamOut(ctx context.Context, handle string, out sdk.StreamOut, w io.Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	encoding, err := checkEncoding(out.Encoding)
	if err != nil {
		return err
	}
	path, err := insidePath(out.Path)
	if err != nil {
		return err
	}
	v, err := s.volume(ctx, handle)
	if err != nil {
		return err
	}
	if v.State == sdk.VolumeCreating {
		return halfMade(handle)
	}
	if path != "" {
		known, err := s.linksOf(ctx, v)
		if err != nil {
			return err
		}
		if path, err = known.resolve(path); err != nil {
			return err
		}
		if l, ok := known.at[path]; ok {
			return s.linkOut(path, l, encoding, w)
		}
	}
	target := sdk.KeepWriter(w)
	err = s.download(ctx, v, path, encoding, target)
	if own := target.Err(); own != nil {
		return own
	}
	return err
}

// linkOut writes an archive of one link, which the server would follow where it leads to a directory.
func (s *Store) linkOut(path string, l link, encoding string, w io.Writer) error {
	target := sdk.KeepWriter(w)
	enc, closeEnc, err := s.codecs.writer(encoding, target)
	if err != nil {
		return err
	}
	t := tar.NewWriter(enc)
	err = t.WriteHeader(&tar.Header{
		Typeflag: tar.TypeSymlink, Name: pathpkg.Base(path), Linkname: l.target, Mode: 0o777, Uid: l.uid, Gid: l.gid,
		ModTime: time.Unix(l.mtime, 0), Format: tar.FormatPAX,
	})
	err = errors.Join(err, t.Close(), closeEnc())
	if own := target.Err(); own != nil {
		return own
	}
	if err != nil {
		return sdk.NewInternal(err, "packing the link %s: %v", quote(path), err)
	}
	return nil
}

// download writes a path without links in it to w, and checks on the way that it is whole: a server that fails in the middle has said that
// all is well already, ends the compressed stream as it should be, and appends an error to it.
func (s *Store) download(ctx context.Context, v Volume, path, encoding string, w io.Writer) error {
	ctx, dog := s.watch(ctx)
	defer dog.end()
	asked := encoding
	if encoding == sdk.EncodingRaw {
		asked = encodingZstd
	}
	body, err := s.fetch(ctx, dog, v, path, asked)
	if err != nil {
		return err
	}
	defer body.Close()
	err = s.check(body, encoding, w)
	if err == nil {
		return nil
	}
	if _, ours := errors.AsType[*sdk.Error](err); ours && !errors.Is(err, sdk.ReasonArchive) {
		return err
	}
	_, _ = io.CopyN(io.Discard, body, 64<<10) // whatever the server has to say comes last
	if ctx.Err() != nil || body.cut {
		return s.lost(ctx, v.ID, s.unreachable(ctx, "streaming out of volume "+quote(v.ID), err))
	}
	return s.lost(ctx, v.ID, sdk.NewInternal(err, "baggageclaim %s: streaming out of volume %q: the server failed on the way: %s", s.url, v.ID, cmp.Or(body.last(), err.Error())))
}

// fetch asks for a path and gives the encoded archive.
func (s *Store) fetch(ctx context.Context, dog *watchdog, v Volume, path, encoding string) (*download, error) {
	what := "streaming out of volume " + quote(v.ID)
	r := request{what: what, route: baggageclaim.StreamOut, params: rata.Params{"handle": v.ID}, query: url.Values{"path": {path}}}
	req, err := s.newRequest(ctx, r, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", encoding)
	req.Header["Idempotency-Key"] = nil
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, s.unreachable(ctx, what, err)
	}
	dog.pause()
	d := &download{r: dog.reader(resp.Body), c: resp.Body}
	if resp.StatusCode == http.StatusOK {
		return d, nil
	}
	a := readAnswer(resp, d)
	resp.Body.Close()
	switch a.code {
	case http.StatusNotFound:
		if _, err := s.volume(ctx, v.ID); err != nil {
			return nil, err
		}
		return nil, sdk.NewNotFound(sdk.KindFile, path)
	case http.StatusInternalServerError:
		// So it answers where a directory on the way is none, too.
		if dir := pathpkg.Dir(path); path != "" && dir != "." {
			if isDir, err := s.isDir(ctx, v, dir); err != nil {
				return nil, err
			} else if !isDir {
				return nil, sdk.NewNotFound(sdk.KindFile, path)
			}
		}
	}
	return nil, s.lost(ctx, v.ID, s.refused(what, a))
}

// download is the body of an answer. It keeps its last bytes, for they may say what went wrong.
type download struct {
	r    io.Reader
	c    io.Closer
	tail []byte
	cut  bool // the connection broke
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	const most = 256
	if n > 0 {
		d.tail = append(d.tail, p[max(0, n-most):n]...)
		d.tail = append(d.tail[:0], d.tail[max(0, len(d.tail)-most):]...)
	}
	if err != nil && err != io.EOF {
		d.cut = true
	}
	return n, err
}

func (d *download) Close() error { return d.c.Close() }

// last is the error that the server has appended, or empty.
func (d *download) last() string {
	at := bytes.LastIndexByte(d.tail, '{')
	if at < 0 {
		return ""
	}
	var e struct {
		Message string `json:"error"`
	}
	if json.Unmarshal(d.tail[at:], &e) != nil {
		return ""
	}
	return words([]byte(e.Message))
}

// check passes an archive on and is nil only if it is whole.
func (s *Store) check(body io.Reader, encoding string, w io.Writer) error {
	switch encoding {
	case encodingZstd:
		return checkFrames(body, w)
	case encodingGzip:
		d, free, err := s.codecs.decoder(encoding, newGate(body, w))
		if err != nil {
			return err
		}
		defer free()
		return walk(d, func(*tar.Header) error { return nil })
	}
	d, free, err := s.codecs.decoder(encodingZstd, body)
	if err != nil {
		return err
	}
	defer free()
	return walk(newGate(d, w), func(*tar.Header) error { return nil })
}

// checkFrames is check for zstd, which needs no decoding: whatever goes wrong leaves the stream without its end, or with more after it.
func checkFrames(body io.Reader, w io.Writer) error {
	var f frames
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if err := f.add(buf[:n]); err != nil {
				return err
			}
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			if f.whole() {
				return nil
			}
			return errFrames
		}
		if err != nil {
			return err
		}
	}
}
