//go:build linux

package gardentest

import (
	"bytes"
	"io"
	"net/url"
	"testing"

	"code.cloudfoundry.org/garden"
	"code.cloudfoundry.org/garden/client"
	"code.cloudfoundry.org/garden/client/connection"
)

// world is a pair of servers with the wire's own client, and a root for containers.
type world struct {
	*Servers
	t      *testing.T
	client garden.Client
	root   string // of an unprivileged image volume
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	w := &world{Servers: Start(t, o), t: t}
	w.client = dial(t, w.Garden)
	w.root = w.Volume(t, "image", Busybox(t), false) + "/rootfs"
	return w
}

// dial gives a client of a server at an address such as Servers.Garden.
func dial(t *testing.T, address string) garden.Client {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return client.New(connection.New(u.Scheme, u.Host+u.Path))
}

// create makes a container on the image, which the test must be able to destroy.
func (w *world) create(t *testing.T, handle string, change func(*garden.ContainerSpec)) garden.Container {
	t.Helper()
	c, err := w.tryCreate(handle, change)
	if err != nil {
		t.Fatalf("create %s: %v", handle, err)
	}
	t.Cleanup(func() {
		if err := w.client.Destroy(handle); err != nil {
			t.Errorf("destroy %s: %v", handle, err)
		}
	})
	return c
}

func (w *world) tryCreate(handle string, change func(*garden.ContainerSpec)) (garden.Container, error) {
	spec := garden.ContainerSpec{Handle: handle, RootFSPath: "raw://" + w.root}
	if change != nil {
		change(&spec)
	}
	return w.client.Create(spec)
}

// result is what a process gave.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a process to its end. Its outputs are buffers of their own, for they are written at once.
func run(t *testing.T, c garden.Container, spec garden.ProcessSpec, stdin io.Reader) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p, err := c.Run(spec, garden.ProcessIO{Stdin: stdin, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		t.Fatalf("run %s %q: %v", spec.Path, spec.Args, err)
	}
	code, err := p.Wait()
	if err != nil {
		t.Fatalf("wait for %s %q: %v", spec.Path, spec.Args, err)
	}
	return result{code, stdout.String(), stderr.String()}
}

// sh runs a script that must succeed, and gives what it wrote.
func sh(t *testing.T, c garden.Container, script string) string {
	t.Helper()
	r := run(t, c, garden.ProcessSpec{Path: "sh", Args: []string{"-ec", script}}, nil)
	if r.code != 0 {
		t.Fatalf("%s: exit code %d, stdout %q, stderr %q", script, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}
