package claim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/concourse/baggageclaim"
	"github.com/tedsuo/rata"

	"github.com/slipway-run/slipway/sdk"
)

var (
	// errBadStream says that the server did not like an archive. It does not say why: the archive, an entry that cannot be made, a full disk.
	errBadStream = errors.New("the server could not unpack the archive")
	errNoVolume  = errors.New("the volume is not there")
)

// grace is how long a request that a call gave up may take to end by itself. Its stream has ended, so the server has only to unpack what it got.
const grace = 10 * time.Second

// upload is a stream into a volume that is under way.
type upload struct {
	body   *io.PipeWriter // takes the encoded archive
	answer chan error     // gets one
	cancel context.CancelCauseFunc
}

// upload begins to send. The request has a context of its own: one that ends breaks the connection, and then nobody knows when the server has
// stopped writing. Instead the stream ends, and the server answers. An answer that is an error stops whoever feeds it.
func (s *Store) upload(ctx context.Context, handle, path, encoding string, stopFeeding context.CancelCauseFunc) *upload {
	pr, pw := io.Pipe()
	reqCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	reqCtx, dog := s.watch(reqCtx)
	u := &upload{body: pw, answer: make(chan error, 1), cancel: cancel}
	stop := context.AfterFunc(s.closed, func() { cancel(context.Canceled) })
	s.tails.Go(func() {
		defer dog.end()
		defer stop()
		sendCtx, unwatch := whenBroken(reqCtx, func() { pr.CloseWithError(errAnswered) })
		err := s.send(sendCtx, dog, handle, path, encoding, pr)
		unwatch()
		u.answer <- err
		if err != nil {
			stopFeeding(errAnswered)
		}
		pr.CloseWithError(errAnswered) // nobody reads it any more
		cancel(nil)
	})
	return u
}

var errAnswered = errors.New("the server has answered")

// send makes the request and reads the answer: nil, errBadStream, errNoVolume, or an error of the contract.
func (s *Store) send(ctx context.Context, dog *watchdog, handle, path, encoding string, body io.Reader) error {
	what := "streaming into volume " + quote(handle)
	r := request{what: what, route: baggageclaim.StreamIn, params: rata.Params{"handle": handle}, query: url.Values{"path": {path}}}
	req, err := s.newRequest(ctx, r, nil)
	if err != nil {
		return err
	}
	// The server waits for the caller's reader, too: that is no time in which it does nothing.
	req.Body = io.NopCloser(&sourceReader{dog: dog, r: body})
	req.ContentLength = -1
	if b, ok := body.(*bytes.Reader); ok {
		req.ContentLength = b.Size()
	}
	req.Header.Set("Content-Encoding", encoding)
	resp, err := s.http.Do(req)
	if err != nil {
		return s.unreachable(ctx, what, err)
	}
	defer resp.Body.Close()
	a := readAnswer(resp, resp.Body)
	switch a.code {
	case http.StatusNoContent:
		return nil
	case http.StatusBadRequest, http.StatusInternalServerError:
		return &badStream{s.refused(what, a)}
	case http.StatusNotFound:
		return errNoVolume
	}
	return s.refused(what, a)
}

// badStream is errBadStream with the server's words.
type badStream struct{ answer error }

func (b *badStream) Error() string        { return b.answer.Error() }
func (b *badStream) Is(target error) bool { return target == errBadStream }

// sourceReader stops the watchdog while the reader is waited for.
type sourceReader struct {
	dog *watchdog
	r   io.Reader
}

func (b *sourceReader) Read(p []byte) (int, error) {
	b.dog.pause()
	defer b.dog.run()
	return b.r.Read(p)
}

// settle waits for the answer of an upload whose stream has ended, or until ctx ends. Then the rest is left to a goroutine, which calls done
// once the server has answered or had its grace; else done is called before settle returns.
func (s *Store) settle(ctx context.Context, u *upload, done func()) error {
	select {
	case err := <-u.answer:
		done()
		return err
	default:
	}
	select {
	case err := <-u.answer:
		done()
		return err
	case <-ctx.Done():
	}
	s.tails.Go(func() {
		defer done()
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-u.answer:
		case <-t.C:
			u.cancel(errStalled)
			<-u.answer
		}
	})
	return context.Cause(ctx)
}

// put unpacks a small archive, raw and known to be good, below a path of a volume.
func (s *Store) put(ctx context.Context, handle, path string, archive []byte) error {
	var b bytes.Buffer
	e, free, err := s.codecs.encoder(&b)
	if err != nil {
		return err
	}
	_, err = e.Write(archive)
	err = errors.Join(err, e.Close())
	free()
	if err != nil {
		return sdk.NewInternal(err, "zstd: %v", err)
	}
	ctx, dog := s.watch(ctx)
	defer dog.end()
	sendCtx, unwatch := whenBroken(ctx, func() {})
	defer unwatch()
	err = s.send(sendCtx, dog, handle, path, encodingZstd, bytes.NewReader(b.Bytes()))
	if err == errNoVolume {
		return sdk.NewNotFound(sdk.KindVolume, handle)
	}
	return err
}
