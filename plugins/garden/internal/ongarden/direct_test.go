//go:build linux

package ongarden

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"code.cloudfoundry.org/garden"
	"code.cloudfoundry.org/garden/client"
	"code.cloudfoundry.org/garden/client/connection"
	"github.com/concourse/baggageclaim"

	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// direct makes calls on two servers without anything of ours: on Garden with its client library; on Baggageclaim the calls of its library, but made by hand:
// the library waits for 10 ms and more where 2 are enough, which no floor should, and brings modules that nothing else needs.
type direct struct {
	garden garden.Client
	base   string // of Baggageclaim's URLs
	http   *http.Client
}

func newDirect(t testing.TB, s *gardentest.Servers) *direct {
	t.Helper()
	network, address, _ := strings.Cut(s.Garden, "://")
	d := &direct{
		garden: client.New(connection.New(network, address)), base: s.Baggageclaim,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10}},
	}
	t.Cleanup(d.http.CloseIdleConnections)
	return d
}

// send makes a request; the answer's body is the caller's to close. Any code but 2xx is an error.
func (d *direct) send(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, body)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := d.http.Do(req)
	if err == nil && resp.StatusCode/100 != 2 {
		resp.Body.Close()
		err = fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return resp, err
}

// call sends JSON and reads JSON, where there is any.
func (d *direct) call(ctx context.Context, method, path string, in, out any) (code int, err error) {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return 0, err
		}
	}
	resp, err := d.send(ctx, method, path, http.Header{"Content-Type": {"application/json"}}, &body)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && out != nil && len(answer) > 0 {
		err = json.Unmarshal(answer, out)
	}
	return resp.StatusCode, err
}

// volume makes one: a copy-on-write of a parent, or an empty one. It gives the path.
func (d *direct) volume(ctx context.Context, handle, parent string) (string, error) {
	strategy := json.RawMessage(`{"type":"empty"}`)
	if parent != "" {
		strategy = json.RawMessage(`{"type":"cow","volume":"` + parent + `"}`)
	}
	req := baggageclaim.VolumeRequest{Handle: handle, Strategy: &strategy, Properties: baggageclaim.VolumeProperties{"made": "0"}}
	if _, err := d.call(ctx, http.MethodPost, "/volumes-async", req, nil); err != nil {
		return "", err
	}
	future := "/volumes-async/" + handle
	for {
		var made baggageclaim.VolumeResponse
		code, err := d.call(ctx, http.MethodGet, future, nil, &made)
		if err != nil {
			return "", err
		}
		if code == http.StatusOK {
			_, err := d.call(ctx, http.MethodDelete, future, nil, nil)
			return made.Path, err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// mark sets a volume's property.
func (d *direct) mark(ctx context.Context, handle string) error {
	_, err := d.call(ctx, http.MethodPut, "/volumes/"+handle+"/properties/made", baggageclaim.PropertyRequest{Value: "1"}, nil)
	return err
}

// destroy removes volumes.
func (d *direct) destroy(ctx context.Context, handles ...string) error {
	_, err := d.call(ctx, http.MethodDelete, "/volumes/destroy", handles, nil)
	return err
}

// out reads a volume as an archive in an encoding of the server's.
func (d *direct) out(ctx context.Context, handle, encoding string) (io.ReadCloser, error) {
	resp, err := d.send(ctx, http.MethodPut, "/volumes/"+handle+"/stream-out?path=.", http.Header{"Accept-Encoding": {encoding}}, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// in unpacks an archive into a volume.
func (d *direct) in(ctx context.Context, handle, encoding string, r io.Reader) error {
	resp, err := d.send(ctx, http.MethodPut, "/volumes/"+handle+"/stream-in?path=.", http.Header{"Content-Encoding": {encoding}}, r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// peerURL is where other servers send what goes into a volume.
func (d *direct) peerURL(ctx context.Context, handle string) (string, error) {
	resp, err := d.send(ctx, http.MethodGet, "/p2p-url", nil, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	base, err := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(base)) + "/volumes/" + handle + "/stream-in?path=.", err
}

// peerSend has the server send a volume to another server.
func (d *direct) peerSend(ctx context.Context, handle, encoding, to string) error {
	query := url.Values{"path": {"."}, "streamInURL": {to}, "encoding": {encoding}}
	resp, err := d.send(ctx, http.MethodPut, "/volumes/"+handle+"/stream-p2p-out?"+query.Encode(), nil, nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// withFile finds a volume that has this file, and in whose handle is the word.
func (d *direct) withFile(t testing.TB, s *gardentest.Servers, word, file string) string {
	t.Helper()
	for _, handle := range s.Volumes(t) {
		if !strings.Contains(handle, word) {
			continue
		}
		var v baggageclaim.VolumeResponse
		if _, err := d.call(t.Context(), http.MethodGet, "/volumes/"+handle, nil, &v); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(v.Path + "/" + file); err == nil {
			return handle
		}
	}
	t.Fatalf("no volume has %s in it", file)
	return ""
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
