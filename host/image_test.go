package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// An image's metadata.json says what runs, with which environment, where a process does not; the container's own environment lies between. What is
// shared is the same for all, and not written to.
func TestImageAndEnvironment(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	image, err := h.UploadDir(t.Context(), Upload{Name: "image"}, tree(t, map[string]string{"rootfs/etc/motd": "hello\n", "metadata.json": `{
		"env": ["A=image", "B=image", "C=image"], "entrypoint": ["sh", "-c"], "cmd": ["echo $A $B $C; cat /etc/motd"]}`}))
	if err != nil {
		t.Fatal(err)
	}
	certs, err := h.UploadDir(t.Context(), Upload{Name: "certs"}, tree(t, map[string]string{"ca.pem": "trust me\n"}))
	if err != nil {
		t.Fatal(err)
	}
	req := ContainerRequest{Image: image, Shared: []Input{{certs, "/etc/ssl/certs"}}, Env: []string{"B=container", "C=container"}}
	c, err := h.Container(t.Context(), "o", req)
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, req ProcessRequest) string {
		t.Helper()
		p, err := c.Start(t.Context(), name, req)
		if err != nil {
			t.Fatal(err)
		}
		waitOutcome(t, p)
		return output(t, p)
	}
	if got := run("a", ProcessRequest{Env: []string{"C=process"}}); got != "image container process\nhello\n" {
		t.Errorf("by the image: %q", got)
	}
	if got := run("b", ProcessRequest{Args: []string{"echo own $A"}}); got != "own image\n" {
		t.Errorf("with arguments: %q", got)
	}
	if got := run("c", ProcessRequest{Path: "sh", Args: []string{"-c", "cat /etc/ssl/certs/ca.pem; echo x > /etc/ssl/certs/ca.pem || echo refused"}}); !strings.HasPrefix(got, "trust me\n") || !strings.HasSuffix(got, "refused\n") {
		t.Errorf("what is shared: %q", got)
	}
	for _, a := range []*Artifact{image, certs} {
		if err := h.RemoveArtifact(t.Context(), a); !errors.Is(err, sdk.ReasonInUse) {
			t.Errorf("removing what a container mounts, %s: %v", a.Name, err)
		}
	}
	again, err := h.Container(t.Context(), "o", ContainerRequest{Image: image, Env: []string{"B=again"}})
	if err != nil {
		t.Fatal(err)
	}
	c = again
	if got := run("d", ProcessRequest{Args: []string{"echo $B"}}); got != "again\n" {
		t.Errorf("whoever finds the container brings its environment: %q", got)
	}
	bare, err := h.UploadDir(t.Context(), Upload{Name: "bare"}, tree(t, map[string]string{"rootfs/f": ""}))
	if err != nil {
		t.Fatal(err)
	}
	c, err = h.Container(t.Context(), "bare", ContainerRequest{Image: bare})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(t.Context(), MainProcess, ProcessRequest{Args: []string{"x"}}); !errors.Is(err, sdk.Invalid) || !strings.Contains(err.Error(), "entrypoint") {
		t.Errorf("nothing to run: %v", err)
	}
}

// Mounts that hide or lose a part of another are refused with both names, before anything is made.
func TestOverlappingMounts(t *testing.T) {
	t.Parallel()
	a, b := &Artifact{ID: "a1", Name: "first"}, &Artifact{ID: "a2", Name: "second"}
	for name, c := range map[string]struct {
		req   ContainerRequest
		names []string // empty: it is fine
	}{
		"side by side":             {ContainerRequest{Inputs: []Input{{a, "x"}, {b, "xy"}}, Outputs: []Output{{"o", "y"}}}, nil},
		"output in an input":       {ContainerRequest{Inputs: []Input{{a, "."}}, Outputs: []Output{{"o", "out"}}}, nil},
		"output at an input":       {ContainerRequest{Inputs: []Input{{a, "x"}}, Outputs: []Output{{"o", "x"}}}, nil},
		"cache in an input":        {ContainerRequest{Inputs: []Input{{a, "."}}, Caches: []Cache{{Key: "k", Path: "node_modules"}}}, nil},
		"inputs at one place":      {ContainerRequest{Inputs: []Input{{a, "x"}, {b, "/work/x"}}}, []string{"first", "second"}},
		"input in an input":        {ContainerRequest{Inputs: []Input{{a, "x/y"}, {b, "x"}}}, []string{"first", "second"}},
		"input in an output":       {ContainerRequest{Inputs: []Input{{a, "o/x"}}, Outputs: []Output{{"o", "o"}}}, []string{"first", "output o"}},
		"outputs at one place":     {ContainerRequest{Outputs: []Output{{"o", "x"}, {"p", "./x"}}}, []string{"o", "p"}},
		"output in an output":      {ContainerRequest{Outputs: []Output{{"o", "x"}, {"p", "x/y"}}}, []string{"output o", "output p"}},
		"cache at an output":       {ContainerRequest{Outputs: []Output{{"o", "x"}}, Caches: []Cache{{Key: "k", Path: "x"}}}, []string{"output o", "cache k"}},
		"cache in an output":       {ContainerRequest{Outputs: []Output{{"o", "x"}}, Caches: []Cache{{Key: "k", Path: "x/y"}}}, []string{"output o", "cache k"}},
		"one key twice":            {ContainerRequest{Caches: []Cache{{Key: "k", Path: "x"}, {Key: "k", Path: "y"}}}, []string{"cache k"}},
		"output at what is shared": {ContainerRequest{Shared: []Input{{a, "x"}}, Outputs: []Output{{"o", "x"}}}, []string{"first", "o"}},
		"output in what is shared": {ContainerRequest{Shared: []Input{{a, "x"}}, Outputs: []Output{{"o", "x/y"}}}, []string{"first", "output o"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.req.plan()
			if len(c.names) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, sdk.Invalid) {
				t.Fatalf("got %v", err)
			}
			for _, n := range c.names {
				if !strings.Contains(err.Error(), n) {
					t.Errorf("%q does not name %q", err, n)
				}
			}
		})
	}
}
