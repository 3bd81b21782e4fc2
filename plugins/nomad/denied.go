package nomad

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// denied is Nomad's refusal of a call for its ACL token. Nomad says no more than that; what the call needs is known here.
type denied struct {
	said  string
	needs string // a capability, as policies name it; empty: not known
}

func (d *denied) Error() string {
	needs := d.needs
	if needs == "" {
		needs = "what the plugin's page lists"
	}
	return fmt.Sprintf("%s: it needs an ACL token that is still valid and has %s", d.said, needs)
}

// asking makes HTTP calls, and errors of their refusal.
type asking struct{ next http.RoundTripper }

func (a asking) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, err := a.next.RoundTrip(q)
	if err != nil || resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	defer resp.Body.Close()
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" { // Nomad's client asks for it, and so has to unpack it
		if body, err = gzip.NewReader(body); err != nil {
			body = strings.NewReader(resp.Status)
		}
	}
	text, _ := io.ReadAll(io.LimitReader(body, 4<<10)) // what there is of it will do
	return nil, &denied{said: string(bytes.TrimSpace(text)), needs: capability(q.Method, q.URL.Path)}
}

// capability is what a call of the API needs, of those that this package makes.
func capability(method, path string) string {
	path, _ = strings.CutPrefix(path, "/v1/")
	kind, _, _ := strings.Cut(path, "/")
	switch kind {
	case "jobs":
		if method == http.MethodGet {
			return "list-jobs"
		}
		return "submit-job; for the store's job also host_volume with the policy write"
	case "job":
		if method == http.MethodGet {
			return "read-job"
		}
		return "submit-job"
	case "evaluation", "allocation":
		return "read-job"
	case "node", "nodes":
		return "node:read"
	case "client":
		return "alloc-exec"
	}
	return ""
}

// execNeeds is what commands in a container need.
func execNeeds(driver string) string {
	if driver == "raw_exec" {
		return "alloc-exec and alloc-node-exec"
	}
	return "alloc-exec"
}
