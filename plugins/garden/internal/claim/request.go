package claim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tedsuo/rata"

	"github.com/slipway-run/slipway/sdk"
)

// The server's own client is not used: it takes no context but on streams, drops status codes, tells errors by their text, retries for an
// hour and polls creations with pauses of up to ten seconds. Its routes and types are.

const maxAnswer = 16 << 20 // of any but a list; a volume's properties are some KiB

// reconnect is how long a call that could not be connected is tried again: a server that restarts is back in that time, and one that is
// away is told soon.
const reconnect = time.Second

// request is one call of the server.
type request struct {
	what   string // for people, such as `making volume "x"`
	route  string
	params rata.Params
	query  url.Values
	body   any  // sent as JSON; nil: none
	once   bool // not to be sent again, even over a connection that was found dead
	slow   bool // it may take as long as a volume is big
}

// answer is what came back, read to its end.
type answer struct {
	code int
	kind string // Content-Type
	body []byte
}

// call makes a request that moves no files.
func (s *Store) call(ctx context.Context, r request) (answer, error) {
	limit := s.config.RequestTimeout
	if r.slow {
		limit = max(limit, s.config.StreamTimeout)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	resp, err := s.connect(ctx, r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return answer{}, s.unreachable(ctx, r.what, err)
	}
	if len(body) > maxAnswer {
		return answer{}, sdk.NewInternal(nil, "baggageclaim %s: %s: the answer is longer than %d bytes", s.url, r.what, maxAnswer)
	}
	return answer{code: resp.StatusCode, kind: resp.Header.Get("Content-Type"), body: body}, nil
}

var errSlow = errors.New("no answer in time")

// connect sends the request, again for a while as long as there is no connection: then nothing has been sent.
func (s *Store) connect(ctx context.Context, r request) (*http.Response, error) {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return nil, sdk.NewInternal(err, "%s: %v", r.what, err)
		}
	}
	begun, pause := time.Now(), 20*time.Millisecond
	for {
		req, err := s.newRequest(ctx, r, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if !r.once {
			req.Header["Idempotency-Key"] = nil // not sent; tells the transport that a connection found dead is no reason to give up
		}
		resp, err := s.http.Do(req)
		if err == nil {
			return resp, nil
		}
		if !neverConnected(err) || time.Since(begun) > s.reconnect || wait(ctx, pause) != nil {
			return nil, s.unreachable(ctx, r.what, err)
		}
		pause *= 2
	}
}

func (s *Store) newRequest(ctx context.Context, r request, body io.Reader) (*http.Request, error) {
	if b, ok := body.(*bytes.Reader); ok && b.Len() == 0 {
		body = http.NoBody
	}
	req, err := s.routes.CreateRequest(r.route, r.params, body)
	if err != nil {
		return nil, sdk.NewInternal(err, "%s: %v", r.what, err)
	}
	req.URL.RawQuery = r.query.Encode()
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req.WithContext(ctx), nil
}

func neverConnected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// wait waits for a while, or for the context's end, whose error it gives.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unreachable makes an error of the contract from why a call had no answer. The caller's own context comes back as it is.
func (s *Store) unreachable(ctx context.Context, what string, err error) error {
	if cause := context.Cause(ctx); cause != nil && (!neverConnected(err) || !errors.Is(cause, errSlow) && !errors.Is(cause, errStalled)) {
		if errors.Is(cause, errSlow) || errors.Is(cause, errStalled) {
			return sdk.NewUnavailable(err, "baggageclaim %s: %s: %v; look whether the server is overloaded", s.url, what, cause)
		}
		if _, ours := errors.AsType[*sdk.Error](cause); ours {
			return cause
		}
		return ctx.Err()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the address is named already
	}
	if neverConnected(err) {
		s.found.setFeatures(nil) // what comes back may be another version
		return sdk.NewUnavailable(err, "baggageclaim %s: %s: no connection: %s; check that the server runs and that the address is right", s.url, what, words([]byte(err.Error())))
	}
	return sdk.NewUnavailable(err, "baggageclaim %s: %s: %s", s.url, what, words([]byte(err.Error())))
}

// refused makes an error of an answer that no caller expects.
func (s *Store) refused(what string, a answer) error {
	msg := fmt.Sprintf("baggageclaim %s: %s: the server answered %d", s.url, what, a.code)
	if said := a.words(); said != "" {
		msg += ": " + said
	}
	switch a.code {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return sdk.NewUnavailable(nil, "%s", msg)
	}
	if len(bytes.TrimSpace(a.body)) > 0 && !json.Valid(a.body) {
		return sdk.NewUnavailable(nil, "%s; %s", msg, another)
	}
	return sdk.NewInternal(nil, "%s", msg)
}

// another is what an answer suggests that no such server gives. What should be there may be back later.
const another = "is there another server at this address?"

// words are what the server said, for people.
func (a answer) words() string {
	var e struct {
		Message string `json:"error"`
	}
	if json.Unmarshal(a.body, &e) == nil && e.Message != "" {
		return words([]byte(e.Message))
	}
	return words(a.body)
}

// words makes what came over the wire fit to be shown: short, and without what a terminal would obey.
func words(b []byte) string {
	const most = 300
	cut := len(b) > most
	if cut {
		b = b[:most]
	}
	text := strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(b), "?"))
	text = strings.TrimSpace(text)
	if cut {
		text += "..."
	}
	return text
}

// decode reads an answer's JSON. What is none did not come from such a server.
func (s *Store) decode(what string, a answer, into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return sdk.NewUnavailable(err, "baggageclaim %s: %s: it answered %d and what makes no sense: %v: %q; %s", s.url, what, a.code, err, words(a.body), another)
	}
	return nil
}
