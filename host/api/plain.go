package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/sdk"
)

// plain adds what needs no messages.
func (s *Server) plain(mux *http.ServeMux) {
	mux.HandleFunc("PUT /v1alpha1/artifacts/{name...}", s.putArtifact)
	mux.HandleFunc("GET /v1alpha1/artifacts/{name...}", s.getArtifact)
	mux.HandleFunc("GET /v1alpha1/files/{name...}", s.getFile)
	mux.HandleFunc("GET /v1alpha1/output/{owner...}", s.getOutput)
	s.watched(mux)
}

// named keeps the names in plain addresses as they are: http.ServeMux would take those with // or .. in them for others'.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		for _, kind := range []string{"/v1alpha1/artifacts/", "/v1alpha1/files/", "/v1alpha1/output/"} {
			if name, ok := strings.CutPrefix(path, kind); ok {
				to := *r
				to.URL = &url.URL{Path: r.URL.Path, RawPath: kind + strings.ReplaceAll(name, "/", "%2F"), RawQuery: r.URL.RawQuery}
				r = &to
				break
			}
		}
		next.ServeHTTP(w, r)
	})
}

// requestKey is the key of a request's http.ResponseController in its context.
type requestKey struct{}

// interruptible has interruptAtEnd reach the request that a context belongs to.
func interruptible(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, http.NewResponseController(w))))
	})
}

// interruptAtEnd ends the read of a request's body that is under way when the context ends, and all that come later, for a client that sends
// nothing more. It can still be answered. Nothing of it goes on once done has returned: a request that was answered has no connection any more.
func interruptAtEnd(ctx context.Context) (done func()) {
	c, ok := ctx.Value(requestKey{}).(*http.ResponseController)
	if !ok {
		return func() {}
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = c.SetReadDeadline(time.Unix(1, 0)) // it fails only for what is served without a connection, in a test
	})
	return func() {
		if !stop() {
			<-interrupted
		}
	}
}

// Watched serves what a monitoring system asks for, and nothing else: /metrics, /healthz and /readyz. It gives away no secret.
func (s *Server) Watched() http.Handler {
	mux := http.NewServeMux()
	s.watched(mux)
	return within(mux, watchedTime)
}

// watchedTime is how long an answer for a monitoring system may take to be read. Whoever can reach its address could else keep many open.
const watchedTime = time.Minute

// within breaks off the answers that nobody has read after so long.
func within(h http.Handler, bound time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bound)) // where there is none, nothing is sent slowly
		h.ServeHTTP(w, r)
	})
}

func (s *Server) watched(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
}

// healthz answers while the host works at all: its store answers.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	if err := s.h.Check(r.Context()); err != nil {
		refuse(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}

// readyz answers once all plugins have told what they have, and until the server takes no new work, or cannot since its disk is full. That is no failure of
// healthz: to start the daemon anew makes no room.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.Draining() {
		refuse(w, errClosing())
		return
	}
	select {
	case <-s.told:
	default:
		refuse(w, &sdk.Error{Class: sdk.Unavailable, Message: "not all plugins have told their workers yet"})
		return
	}
	if full := s.h.Room(r.Context()).Full; full != nil {
		refuseAs(w, http.StatusServiceUnavailable, full)
		return
	}
	fmt.Fprintln(w, "ready")
}

// refuse answers with an error, in the form in which calls do.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch code(err) {
	case connect.CodeNotFound:
		status = http.StatusNotFound
	case connect.CodeInvalidArgument:
		status = http.StatusBadRequest
	case connect.CodeAlreadyExists, connect.CodeFailedPrecondition:
		status = http.StatusConflict
	case connect.CodeResourceExhausted:
		status = http.StatusTooManyRequests
	case connect.CodeUnavailable:
		status = http.StatusServiceUnavailable
	case connect.CodeUnimplemented:
		status = http.StatusNotImplemented
	}
	refuseAs(w, status, err)
}

func refuseAs(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": code(err).String(), "message": err.Error()}) // if it fails, nobody is there
}

func (s *Server) putArtifact(w http.ResponseWriter, r *http.Request) {
	u := host.Upload{Name: r.PathValue("name"), Encoding: r.Header.Get("Content-Encoding")}
	if err := s.take(r.Context(), u, r.Body); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

func (s *Server) getArtifact(w http.ResponseWriter, r *http.Request) {
	a, err := s.artifact(r.Context(), r.PathValue("name"))
	if err != nil {
		refuse(w, err)
		return
	}
	s.body(w, r, "application/x-tar", func(ctx context.Context, w io.Writer) error { return s.h.Download(ctx, a, w) })
}

func (s *Server) getFile(w http.ResponseWriter, r *http.Request) {
	a, err := s.artifact(r.Context(), r.PathValue("name"))
	if err != nil {
		refuse(w, err)
		return
	}
	s.body(w, r, "application/octet-stream", func(ctx context.Context, w io.Writer) error {
		return s.h.ReadFile(ctx, a, r.URL.Query().Get("path"), w)
	})
}

// getOutput gives the bytes that a process wrote, as they come: of both streams, or of the one that the query names.
func (s *Server) getOutput(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var from int64
	if text := q.Get("from"); text != "" {
		var err error
		if from, err = strconv.ParseInt(text, 10, 64); err != nil {
			refuse(w, invalid("from=%s is no position", text))
			return
		}
	}
	only := q.Get("stream")
	if only != "" && only != sdk.Stdout.String() && only != sdk.Stderr.String() {
		refuse(w, invalid("stream=%s: the streams are stdout and stderr", only))
		return
	}
	gaps := q.Get("gaps")
	if gaps != "" && gaps != gapsSkip {
		refuse(w, invalid("gaps=%s: they can be skipped (gaps=%s), or else end the answer", gaps, gapsSkip))
		return
	}
	name := &pb.ProcessName{Owner: r.PathValue("owner"), Name: q.Get("process")}
	s.body(w, r, "application/octet-stream", func(ctx context.Context, w io.Writer) error {
		return s.followOutput(ctx, name, from, bytesOf(w, only, gaps == gapsSkip))
	})
}

// gapsSkip asks for the bytes that there are, whatever was dropped between them.
const gapsSkip = "skip"

// bytesOf writes the bytes of records of one stream, or of both if it is empty. What was dropped cannot be seen in them: so it is a failure,
// unless it is to be skipped.
func bytesOf(w io.Writer, only string, skip bool) func(spool.Record) error {
	return func(rec spool.Record) error {
		switch {
		case rec.GapTo > rec.Position && skip:
			return nil
		case rec.GapTo > rec.Position:
			return &sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.ReasonOutputGap, Position: sdk.Position(rec.GapTo), Message: fmt.Sprintf(
				"what was written from %d to %d was dropped: ask with from=%d, or with gaps=%s for all that is left", rec.Position, rec.GapTo, rec.GapTo, gapsSkip)}
		case only != "" && sdk.Stream(rec.Stream).String() != only:
			return nil
		}
		_, err := w.Write(rec.Data)
		return err
	}
}

// body writes an answer as it comes. A failure before its first byte is an answer of its own; after it the connection is broken off,
// so that nobody takes the answer for whole.
func (s *Server) body(w http.ResponseWriter, r *http.Request, kind string, write func(context.Context, io.Writer) error) {
	defer s.watching()()
	ctx, cancel := s.while(r.Context())
	defer cancel()
	out := &flushed{w: w, c: http.NewResponseController(w), kind: kind}
	err := because(ctx, write(ctx, out))
	switch {
	case err == nil:
		out.begin()
	case !out.begun:
		refuse(w, err)
	default:
		panic(http.ErrAbortHandler) // the way of net/http to break off; its server knows it
	}
}

// flushed sends each write at once.
type flushed struct {
	w     http.ResponseWriter
	c     *http.ResponseController
	kind  string
	begun bool
}

func (f *flushed) begin() {
	if !f.begun {
		f.begun = true
		f.w.Header().Set("Content-Type", f.kind)
	}
}

func (f *flushed) Write(p []byte) (int, error) {
	f.begin()
	n, err := f.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, f.c.Flush()
}
