package gdn

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"code.cloudfoundry.org/garden"
	"github.com/tedsuo/rata"
)

// wire carries the library's requests under one context. Its own way of carrying them knows no context, waits without end for
// an answer that is to be a stream, and leaves connections open where that answer is a refusal.
type wire struct {
	s   *Server
	ctx context.Context

	mu    sync.Mutex
	conns []net.Conn // that were made streams
}

func (w *wire) request(handler string, body io.Reader, params rata.Params, query url.Values, contentType string) (*http.Request, error) {
	r, err := w.s.requests.CreateRequest(handler, params, body)
	if err != nil {
		return nil, err
	}
	// The library's generator puts parameters into the path as they are.
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if query != nil {
		r.URL.RawQuery = query.Encode()
	}
	return r.WithContext(w.ctx), nil
}

// Stream is that of the library's HijackStreamer: it gives the body of a good answer.
func (w *wire) Stream(handler string, body io.Reader, params rata.Params, query url.Values, contentType string) (io.ReadCloser, error) {
	r, err := w.request(handler, body, params, query, contentType)
	if err != nil {
		return nil, err
	}
	answer, err := w.s.client.Do(r)
	if err != nil {
		return nil, err
	}
	if !good(answer) {
		defer answer.Body.Close()
		return nil, refusal(answer)
	}
	defer answer.Body.Close()
	// All answers that are asked for in this way are small. Read whole, what is no answer of Garden's can be told from what is.
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, &strange{status: answer.StatusCode, said: said(text)}
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

// Hijack is that of the library's HijackStreamer: it gives the connection of a good answer as a stream. Wire.close closes it.
func (w *wire) Hijack(handler string, body io.Reader, params rata.Params, query url.Values, contentType string) (net.Conn, *bufio.Reader, error) {
	r, err := w.request(handler, body, params, query, contentType)
	if err != nil {
		return nil, nil, err
	}
	conn, err := w.s.dial(w.ctx)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(w.ctx, func() { conn.Close() })
	reader := bufio.NewReader(conn)
	_ = conn.SetDeadline(time.Now().Add(w.s.c.RequestTimeout))
	answer, err := func() (*http.Response, error) {
		if err := r.Write(conn); err != nil {
			return nil, err
		}
		return http.ReadResponse(reader, r)
	}()
	if err == nil && !good(answer) {
		err = refusal(answer)
	}
	if err != nil {
		stop()
		conn.Close()
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	w.mu.Lock()
	w.conns = append(w.conns, conn)
	w.mu.Unlock()
	return conn, reader, nil
}

// close closes all streams. The library then ends what it does with them.
func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		conn.Close()
	}
}

func good(answer *http.Response) bool { return answer.StatusCode >= 200 && answer.StatusCode <= 299 }

// maxAnswer bounds what is read of an answer: the handles of some hundred thousand containers.
const maxAnswer = 16 << 20

// refusal reads why a server refuses.
func refusal(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return err
	}
	var e garden.Error
	if json.Unmarshal(text, &e) != nil || e.Err == nil {
		return &strange{status: answer.StatusCode, said: said(text)}
	}
	switch e.Err.(type) {
	case garden.ContainerNotFoundError, garden.ServiceUnavailableError, garden.UnrecoverableError, garden.ExecutableNotFoundError, garden.ProcessNotFoundError:
		return e.Err
	}
	return &Refusal{Message: said([]byte(e.Err.Error()))}
}
