//go:build linux

package gardentest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// Volume makes a volume with the content of a tar, by calls of its own to Baggageclaim, and gives its path on this machine. Without privileged its
// root is the one of unprivileged containers.
func (s *Servers) Volume(t testing.TB, handle string, content []byte, privileged bool) (path string) {
	t.Helper()
	path, err := s.volumeAPI.createVolume(testkit.Context(t), handle, content, privileged)
	if err != nil {
		t.Fatalf("gardentest: volume %s: %v", handle, err)
	}
	return path
}

func (a *api) createVolume(ctx context.Context, handle string, content []byte, privileged bool) (string, error) {
	spec, err := json.Marshal(map[string]any{"handle": handle, "strategy": map[string]string{"type": "empty"}, "privileged": privileged})
	if err != nil {
		return "", err
	}
	var made struct{ Path string }
	if err := a.send(ctx, http.MethodPost, "/volumes", nil, spec, &made); err != nil {
		return "", err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.NoCompression) // to pack it takes seconds under the race detector
	if err != nil {
		return "", err
	}
	if _, err := w.Write(content); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	header := http.Header{"Content-Encoding": {"gzip"}}
	if err := a.send(ctx, http.MethodPut, "/volumes/"+url.PathEscape(handle)+"/stream-in?path=.", header, packed.Bytes(), nil); err != nil {
		return "", fmt.Errorf("stream in: %w", err)
	}
	return made.Path, nil
}
