//go:build linux

package garden

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// token is that of all things in tests in which tokens do not matter.
const token = "token"

// world is a worker on real servers, with a sealed volume "image" that has busybox.
type world struct {
	*gardentest.Servers
	*worker
	settings Config
	runtime  *Runtime
}

func newWorld(t *testing.T, o gardentest.Options, change func(*Config)) *world {
	t.Helper()
	return worldOn(t, gardentest.Start(t, o), change)
}

func worldOn(t *testing.T, servers *gardentest.Servers, change func(*Config)) *world {
	t.Helper()
	c := config(t, servers)
	if change != nil {
		change(&c)
	}
	x := &world{Servers: servers, settings: c}
	x.open(t)
	x.volume(t, sdk.VolumeSpec{ID: "image"}, gardentest.Busybox(t))
	x.seal(t, "image")
	return x
}

// open makes the runtime, or one more on the same servers.
func (x *world) open(t *testing.T) {
	t.Helper()
	x.runtime = newRuntime(t, x.settings)
	x.worker = workerOf(t, x.runtime)
}

// called is the worker as hosts call it, who have requests that are wrong in themselves refused before it sees them.
func (x *world) called(t *testing.T) sdk.Worker {
	t.Helper()
	w, err := sdk.Checked(x.runtime).Worker("here")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func workerOf(t *testing.T, rt *Runtime) *worker {
	t.Helper()
	w, err := rt.Worker("here")
	if err != nil {
		t.Fatal(err)
	}
	return w.(*worker)
}

// with gives the same servers by a worker with other settings.
func (x *world) with(t *testing.T, change func(*Config)) *world {
	t.Helper()
	other := &world{Servers: x.Servers, settings: x.settings}
	change(&other.settings)
	other.open(t)
	return other
}

// cleaning is for calls that clean up: the context of the test has ended by then.
func cleaning(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), testkit.Bound(t))
}

// volume makes a volume for the time of a test, and unpacks an archive into it.
func (x *world) volume(t testing.TB, spec sdk.VolumeSpec, content []byte) {
	t.Helper()
	ctx := testkit.Context(t)
	spec.Token = token
	if err := x.CreateVolume(ctx, spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.drop(t, "", spec.ID) })
	if content == nil {
		return
	}
	if err := x.StreamIn(ctx, spec.ID, sdk.StreamIn{}, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func (x *world) seal(t testing.TB, id sdk.VolumeID) {
	t.Helper()
	if err := x.SealVolume(testkit.Context(t), id); err != nil {
		t.Fatal(err)
	}
}

// drop destroys a container and volumes.
func (x *world) drop(t testing.TB, id sdk.ContainerID, volumes ...sdk.VolumeID) {
	t.Helper()
	ctx, cancel := cleaning(t)
	defer cancel()
	if id != "" {
		if err := x.DestroyContainer(ctx, id); err != nil {
			t.Errorf("destroying container %s: %v", id, err)
		}
	}
	for _, v := range volumes {
		if err := x.DestroyVolume(ctx, v); err != nil {
			t.Errorf("destroying volume %s: %v", v, err)
		}
	}
}

// container makes a container for the time of a test.
func (x *world) container(t testing.TB, spec sdk.ContainerSpec) {
	t.Helper()
	spec.Token = token
	if err := x.CreateContainer(testkit.Context(t), spec, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.drop(t, spec.ID) })
}

// follower keeps what a process writes.
type follower struct {
	text bytes.Buffer
	at   sdk.Position
	exit *sdk.Exit
	seen func(string) // what there is in all, after each piece
}

func (f *follower) follow() sdk.Follow {
	return sdk.Follow{
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				if r.Position != f.at || r.IsGap() {
					return errors.New("output is lost or doubled")
				}
				f.text.Write(r.Data)
				f.at = r.End()
			}
			if f.seen != nil {
				f.seen(f.text.String())
			}
			return nil
		},
		Exit: func(e sdk.Exit) error { f.exit = &e; return nil },
	}
}

// run runs a process to its end. Like a host it follows again where a server did not answer in time: a machine that stands still for
// some seconds looks like that.
func (x *world) run(t testing.TB, id sdk.ContainerID, spec sdk.ProcessSpec) (string, sdk.Exit) {
	t.Helper()
	ctx := testkit.Context(t)
	spec.Token = token
	if err := x.StartProcess(ctx, id, spec); err != nil {
		t.Fatalf("starting %s in %s: %v", spec.ID, id, err)
	}
	var f follower
	if err := x.followOn(ctx, id, spec.ID, &f); err != nil {
		t.Fatalf("following %s in %s: %v", spec.ID, id, err)
	}
	return f.text.String(), *f.exit
}

// sh runs a script and gives its output.
func (x *world) sh(t testing.TB, id sdk.ContainerID, process sdk.ProcessID, script string) string {
	t.Helper()
	out, exit := x.run(t, id, sdk.ProcessSpec{ID: process, Path: "/bin/sh", Args: []string{"-c", script}})
	if exit.Code != 0 {
		t.Errorf("%s: code %d, %q", script, exit.Code, out)
	}
	return out
}

// kept are things on the servers that stay: what all containers share.
func kept(handle string) bool {
	return handle == "slipway.store" || strings.HasPrefix(handle, "slipway.base.")
}

// there is what both servers have, without what stays.
func (x *world) there(t testing.TB) map[string][]string {
	return map[string][]string{"containers": x.Containers(t), "volumes": slices.DeleteFunc(x.Volumes(t), kept)}
}

// unchanged remembers what is on both servers, and gives the comparison.
func (x *world) unchanged(t testing.TB) (check func()) {
	t.Helper()
	before := x.there(t)
	return func() {
		t.Helper()
		if d := cmp.Diff(before, x.there(t)); d != "" {
			t.Errorf("the servers have other things than before (-before +after):\n%s", d)
		}
	}
}

// want checks an error's class and reason, and that it has all the words.
func want(t testing.TB, err error, class sdk.Class, reason sdk.Reason, words ...string) {
	t.Helper()
	e, ok := errors.AsType[*sdk.Error](err)
	if !ok || sdk.ClassOf(err) != class || e.Reason != reason {
		t.Errorf("%s %q: %v; want %s %q", sdk.ClassOf(err), reasonOf(err), err, class, reason)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v; it must say %q", err, w)
		}
	}
}

func reasonOf(err error) sdk.Reason {
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return e.Reason
	}
	return ""
}

// file is an entry of an archive.
type file struct {
	tar.Header
	text string
}

func dir(name string) file {
	return file{Header: tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}}
}
func plain(name, content string) file {
	return file{Header: tar.Header{Name: name, Mode: 0o644}, text: content}
}
func program(name, content string) file {
	return file{Header: tar.Header{Name: name, Mode: 0o755}, text: content}
}
func symlink(name, to string) file {
	return file{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}}
}

// pack makes an archive.
func pack(t testing.TB, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		f.Size, f.ModTime = int64(len(f.text)), time.Unix(1_000_000_000, 0)
		if err := w.WriteHeader(&f.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// statusOf gives the worker's status, which never fails.
func (x *world) statusOf(t testing.TB) sdk.Status {
	t.Helper()
	s, err := x.Status(testkit.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// containers lists what a host would see.
func (x *world) containers(t testing.TB) map[sdk.ContainerID]sdk.ContainerInfo {
	t.Helper()
	all := make(map[sdk.ContainerID]sdk.ContainerInfo)
	if err := x.ListContainers(testkit.Context(t), sdk.Filter{}, func(c sdk.ContainerInfo) error { all[c.ID] = c; return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}
