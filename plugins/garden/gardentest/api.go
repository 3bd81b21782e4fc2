//go:build linux

package gardentest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
)

// api speaks to a server without any client library, one connection for each call, so that what a test sees is not what it tests.
type api struct{ client *http.Client }

func newAPI(network, address string) *api {
	return &api{client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}}
}

// call makes a request without a body.
func (a *api) call(ctx context.Context, method, path string, into any) error {
	return a.send(ctx, method, path, nil, nil, into)
}

// send makes a request and decodes the answer, unless into is nil.
func (a *api) send(ctx context.Context, method, path string, header http.Header, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://server"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	maps.Copy(req.Header, header)
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (a *api) ping(ctx context.Context) error { return a.call(ctx, http.MethodGet, "/ping", nil) }

func (a *api) containers(ctx context.Context) ([]string, error) {
	var answer struct{ Handles []string }
	err := a.call(ctx, http.MethodGet, "/containers", &answer)
	slices.Sort(answer.Handles)
	return answer.Handles, err
}

func (a *api) destroyContainer(ctx context.Context, handle string) error {
	return a.call(ctx, http.MethodDelete, "/containers/"+url.PathEscape(handle), nil)
}

func (a *api) volumes(ctx context.Context) ([]string, error) {
	var answer []struct{ Handle string }
	err := a.call(ctx, http.MethodGet, "/volumes", &answer)
	var handles []string
	for _, v := range answer {
		handles = append(handles, v.Handle)
	}
	slices.Sort(handles)
	return handles, err
}
