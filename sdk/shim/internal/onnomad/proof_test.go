//go:build linux

package onnomad

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// TestProofs shares one agent, each proof with containers of its own.
func TestProofs(t *testing.T) {
	testkit.Soak(t, "cuts, kills and proofs on every driver")
	a := startAgent(t, nomadtest.Options{Dev: true})
	drivers(t, a, func(t *testing.T, driver string) {
		for name, proof := range map[string]func(*testing.T, *box){
			"secrets": secrets, "supervisor killed": supervisorKilled, "alloc stop": allocStop, "two containers": twoContainers,
			"sixty processes": sixtyProcesses, "archives": archives, "terminal": terminal, "ghosts": ghosts,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				proof(t, newBox(t, settings(t, a, driver)))
			})
		}
	})
}

// secrets looks for a process's environment in all that Nomad tells and keeps.
func secrets(t *testing.T, b *box) {
	secret := "hush-" + string(sdk.NewToken())
	spec := sh(`echo "$SECRET"; read -r line`)
	spec.Env, spec.Stdin = []string{"SECRET=" + secret}, true
	id := b.start(spec)
	var said strings.Builder
	err := b.FollowProcess(t.Context(), b.id, id, 0, sdk.Follow{Acks: make(chan sdk.Position), Output: func(records []sdk.Record) error {
		for _, r := range records {
			said.Write(r.Data)
		}
		return errSeen
	}})
	if !errors.Is(err, errSeen) || said.String() != secret+"\n" {
		t.Fatalf("the process says %q, %v", said.String(), err)
	}
	alloc := b.made(b.id)
	c, err := b.lookup(t.Context(), b.id)
	b.check(err)
	job := "/v1/job/" + jobID(b.id)
	for path, has := range map[string]string{
		job: string(c.spec.Token), job + "/versions": string(c.spec.Token), job + "/evaluations": jobID(b.id), job + "/allocations": alloc,
		"/v1/allocation/" + alloc: alloc, "/v1/evaluations": jobID(b.id),
	} {
		var text json.RawMessage
		_, err := b.client.Raw().Query(path, &text, query(t.Context()))
		b.check(err)
		if !bytes.Contains(text, []byte(has)) {
			t.Errorf("%s does not even tell %q", path, has)
		}
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s tells the secret", path)
		}
	}
	// What the process wrote is its own affair, and so is its journal.
	files, journal := 0, 0
	err = filepath.WalkDir(filepath.Join(b.Allocs, alloc), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		switch has := bytes.Contains(text, []byte(secret)); {
		case has && strings.Contains(path, "/scratch/p/"+string(id)+"/"):
			journal++
		case has:
			t.Errorf("%s has the secret", path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil || journal == 0 {
		t.Errorf("of %d files that were looked at %d are the journal, %v", files, journal, err)
	}
}

// errSeen ends a follow that has seen enough.
var errSeen = errors.New("seen")

// watch follows a process that has said "ready", and gives how that ends. An exit is an error of the test.
func (b *box) watch(id sdk.ProcessID) <-chan error {
	b.t.Helper()
	ctx := testkit.Context(b.t)
	ready, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		ended <- b.FollowProcess(ctx, b.id, id, 0, sdk.Follow{
			Output: func([]sdk.Record) error { once.Do(func() { close(ready) }); return nil },
			Exit:   func(e sdk.Exit) error { b.t.Errorf("an exit that nobody knows: %+v", e); return nil },
		})
	}()
	select {
	case <-ready:
	case err := <-ended:
		b.t.Fatalf("process %q: %v", id, err)
	}
	return ended
}

// isDead checks a container whose task has ended.
func (b *box) isDead(ended <-chan error) {
	b.t.Helper()
	ctx := testkit.Context(b.t)
	err := <-ended
	b.t.Logf("the follower: %v", err)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		b.t.Errorf("a follower ends with %v", err)
	}
	b.check(b.ended(ctx, b.made(b.id)))
	spec := sh("true")
	spec.ID, spec.Token = "late", sdk.NewToken()
	if err := b.StartProcess(ctx, b.id, spec); !errors.Is(err, sdk.ReasonDead) {
		b.t.Errorf("starting in it: %v", err)
	}
	var info sdk.ContainerInfo
	b.check(b.ListContainers(ctx, sdk.Filter{ID: string(b.id)}, func(i sdk.ContainerInfo) error { info = i; return nil }))
	if info.State != sdk.ContainerGone || info.Reason == "" {
		b.t.Errorf("it is listed as %+v", info)
	}
}

// supervisorKilled kills what keeps the processes; they end with it.
func supervisorKilled(t *testing.T, b *box) {
	id := b.start(sh("echo ready; exec sleep 3600"))
	ended := b.watch(id)
	alloc := b.made(b.id)
	dir := filepath.Join(b.Allocs, alloc)
	pids, err := processes(dir, alloc)
	b.check(err)
	keepers := 0
	for _, pid := range pids {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // one that has ended is no keeper
		if args := strings.Split(string(cmdline), "\x00"); len(args) > 1 && filepath.Base(args[0]) == "shim" && args[1] == "serve" {
			keepers++
			b.check(syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	if keepers != 1 {
		t.Fatalf("%d supervisors among %d processes", keepers, len(pids))
	}
	b.isDead(ended)
}

// allocStop has Nomad end the allocation; the one that Nomad makes in its place is not the container.
func allocStop(t *testing.T, b *box) {
	id := b.start(sh("echo ready; exec sleep 3600"))
	ended := b.watch(id)
	alloc, _, err := b.client.Allocations().Info(b.made(b.id), query(t.Context()))
	b.check(err)
	_, err = b.client.Allocations().Stop(alloc, query(t.Context()))
	b.check(err)
	b.isDead(ended)
	stubs, _, err := b.client.Jobs().Allocations(jobID(b.id), true, query(t.Context()))
	b.check(err)
	for _, s := range stubs {
		t.Logf("allocation %s: %s, wanted %s", s.ID, s.ClientStatus, s.DesiredStatus)
	}
	if err := b.exec(t.Context(), b.id, []string{"none"}, strings.NewReader(""), io.Discard, io.Discard); !errors.Is(err, sdk.ReasonRecordLost) {
		t.Errorf("an exec in it: %v", err)
	}
}

// ghosts leaves relays behind as fast as it can: Nomad ends no command whose client is gone, and closes no stdin of it. The keeper has only so many
// sessions at once, and none of them may keep out who comes next.
func ghosts(t *testing.T, b *box) {
	for i := range 50 {
		if r := b.run(sh("echo again")); r.stdout != "again\n" {
			t.Fatalf("after %d relays that were cut: %q, exit %+v", i, r.stdout, r.exit)
		}
		b.cut()
	}
	alloc := b.made(b.id)
	pids, err := processes(filepath.Join(b.Allocs, alloc), alloc)
	b.check(err)
	if len(pids) > 2*32 {
		t.Errorf("%d processes are left", len(pids))
	}
}

// twoContainers run a process of the same name at once, and know nothing of each other.
func twoContainers(t *testing.T, b *box) {
	other := b.another()
	var all sync.WaitGroup
	for i, box := range []*box{b, other} {
		all.Go(func() {
			spec := sh(`i=0; while [ $i -lt 500 ]; do echo "$0 $i"; i=$((i+1)); done; exit "$0"`, fmt.Sprint(i+1))
			spec.ID, spec.Token = "same", sdk.NewToken()
			var r result
			err := errors.Join(box.StartProcess(t.Context(), box.id, spec), box.FollowProcess(t.Context(), box.id, "same", 0, r.follow()))
			var want strings.Builder
			for n := range 500 {
				fmt.Fprintln(&want, i+1, n)
			}
			if err != nil || r.wrong || r.stdout != want.String() || r.exit == nil || r.exit.Code != i+1 {
				t.Errorf("container %s: %v, %d bytes, exit %+v", box.id, err, len(r.stdout), r.exit)
			}
		})
	}
	all.Wait()
	b.check(b.DestroyContainer(t.Context(), other.id))
	if r := b.run(sh("echo still")); r.stdout != "still\n" {
		t.Errorf("with the other one gone: %q, %+v", r.stdout, r.exit)
	}
	if err := b.FollowProcess(t.Context(), other.id, "same", 0, sdk.Follow{}); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("following in the one that is gone: %v", err)
	}
}

// sixtyProcesses run at once, over one exec and so one connection.
func sixtyProcesses(t *testing.T, b *box) {
	before := b.execs()
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			spec := sh(`read -r line; echo "$0 $line"; exit "$0"`, fmt.Sprint(i))
			spec.ID, spec.Token, spec.Stdin = sdk.ProcessID(fmt.Sprint("p", i)), sdk.NewToken(), true
			var r result
			f := r.follow()
			f.Stdin = strings.NewReader("word\n")
			err := errors.Join(b.StartProcess(t.Context(), b.id, spec), b.FollowProcess(t.Context(), b.id, spec.ID, 0, f))
			if err != nil || r.wrong || r.stdout != fmt.Sprintln(i, "word") || r.exit == nil || r.exit.Code != i {
				t.Errorf("process %d: %v, %q, exit %+v", i, err, r.stdout, r.exit)
			}
		})
	}
	all.Wait()
	if n := b.execs() - before; n != 0 {
		t.Errorf("%d execs beside the one that was open", n)
	}
}

// terminal has a size, and another later. Where no container has a root of its own, the suite's cases on terminals do not run.
func terminal(t *testing.T, b *box) {
	spec := sh(`stty size; read -r line; stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && exit 6`)
	spec.TTY, spec.Stdin = &sdk.TTY{Columns: 91, Rows: 31}, true
	id := b.start(spec)
	r, w := io.Pipe()
	defer w.Close()
	var got result
	f := got.follow()
	output := f.Output
	resized := false
	var typing sync.WaitGroup
	defer typing.Wait()
	f.Stdin = r
	f.Output = func(records []sdk.Record) error {
		if err := output(records); err != nil || resized || !strings.Contains(got.stdout, "\n") {
			return err
		}
		resized = true
		if err := b.ResizeProcess(t.Context(), b.id, id, sdk.TTY{Columns: 101, Rows: 41}); err != nil {
			return err
		}
		typing.Go(func() { io.WriteString(w, "go\n") }) // ends with the follower, which closes the pipe's other end
		return nil
	}
	err := b.FollowProcess(t.Context(), b.id, id, 0, f)
	r.Close()
	if err != nil || got.wrong || got.stdout != "31 91\r\ngo\r\n41 101\r\n" || got.exit == nil || got.exit.Code != 6 {
		t.Errorf("%v, %q, exit %+v", err, got.stdout, got.exit)
	}
}

// archives carries a tree of 16 MiB in and out.
func archives(t *testing.T, b *box) {
	root := filepath.Join(b.Allocs, b.made(b.id), nomadtest.TaskName, "local")
	if b.Tasks == nomadtest.Exec {
		root = "/local"
	}
	const files, size = 16, 1 << 20
	r := rand.NewChaCha8([32]byte{1})
	var in bytes.Buffer
	w := tar.NewWriter(&in)
	want := make(map[string][32]byte)
	data := make([]byte, size)
	for i := range files {
		name := fmt.Sprintf("d%d/f%d", i%4, i)
		r.Read(data)
		want[name] = sha256.Sum256(data)
		b.check(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}))
		_, err := w.Write(data)
		b.check(err)
	}
	b.check(w.Close())
	b.check(b.Driver.StreamIn(t.Context(), b.id, root, "tree", &in))
	err := transfer(func(out io.Writer) error { return b.Driver.StreamOut(t.Context(), b.id, root, "tree", out) }, func(out io.Reader) error {
		for tr := tar.NewReader(out); ; {
			h, err := tr.Next()
			if err == io.EOF {
				_, err = io.Copy(io.Discard, out)
				return err
			}
			if err != nil {
				return err
			}
			if h.Typeflag != tar.TypeReg {
				continue
			}
			sum, name := sha256.New(), strings.TrimPrefix(h.Name, "./")
			if _, err := io.Copy(sum, tr); err != nil {
				return err
			}
			if [32]byte(sum.Sum(nil)) != want[name] {
				return fmt.Errorf("%s is not what went in", name)
			}
			delete(want, name)
		}
	})
	if err != nil || len(want) > 0 {
		t.Errorf("%v; %d files are missing", err, len(want))
	}
}
