//go:build unix

package main

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
)

// TestKilledAnyTime has many short commands on one state directory and one world, each killed at a random moment and never resumed. Commands that come to
// their end take away what those left, though none lives for as long as a grace: in the end the world has nothing, and the store nothing but records, each with
// its output, unless the process never came to have one.
func TestKilledAnyTime(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	socket := p.world()
	p.write(map[string]string{"j.hcl": oneStep("echo once; echo made > out/made"), "world.hcl": onMemory(`config { world = "unix:`+socket+`" }`) + `
reaping { abandoned = "1s" }
timing { missing_grace = "1s" }
`})
	args := []string{"-c", "world.hcl", "run", "j.hcl", "--state", "state", "-o", "json"}
	began := time.Now()
	p.run(args...).wants(0)
	whole := time.Since(began)
	ended := 1
	for range testkit.Times(10, 1000) {
		r := p.start(args...)
		time.Sleep(rand.N(whole)) // any moment will do
		r.signal(syscall.SIGKILL)
		if r.wait().code == 0 {
			ended++
		}
	}
	testkit.Until(t, "all runs have ended", func() bool {
		p.run(args...).wants(0)
		ended++
		var going []store.Run
		s, err := store.OpenReadOnly(t.Context(), filepath.Join(p.work, "state"))
		p.must(err)
		p.must(s.View(t.Context(), func(tx *store.Tx) (err error) {
			going, err = tx.Runs(store.RunFilter{States: []string{lifecycle.RunGoing, lifecycle.RunEnding}})
			return err
		}))
		p.must(s.Close())
		return len(going) == 0
	})
	if left := p.inWorld(socket); len(left) > 0 {
		t.Errorf("the world has %q", left)
	}

	s, err := store.OpenReadOnly(t.Context(), filepath.Join(p.work, "state"))
	p.must(err)
	defer s.Close()
	var known []string
	p.must(s.View(t.Context(), func(tx *store.Tx) error {
		containers, err := tx.Containers(store.ContainerFilter{})
		p.must(err)
		for _, c := range containers {
			if c.State != lifecycle.ContainerDestroyed && c.State != lifecycle.ContainerLost {
				t.Errorf("container %s of %s is %s", c.ID, c.Owner, c.State)
			}
		}
		runs, err := tx.Runs(store.RunFilter{})
		p.must(err)
		if len(runs) < ended {
			t.Errorf("%d runs are recorded, and %d came to their end", len(runs), ended)
		}
		for _, r := range runs {
			if r.State != lifecycle.RunEnded {
				t.Errorf("run %s is %s", r.ID, r.State)
			}
		}
		volumes, err := tx.Volumes(store.VolumeFilter{})
		p.must(err)
		artifacts, err := tx.Artifacts(store.ArtifactFilter{})
		p.must(err)
		if len(volumes)+len(artifacts) > 0 {
			t.Errorf("left: %v %v", volumes, artifacts)
		}
		known, err = tx.ProcessIDs()
		return err
	}))
	files, err := spool.Open(filepath.Join(p.work, "state", "spool"), spool.Options{ReadOnly: true})
	p.must(err)
	defer files.Close()
	stored, err := files.IDs()
	p.must(err)
	for _, id := range stored {
		if _, is := slices.BinarySearch(known, id); !is {
			t.Errorf("process %s has output and is not known", id)
		}
	}
	p.must(s.View(t.Context(), func(tx *store.Tx) error {
		for _, id := range known {
			if _, has := slices.BinarySearch(stored, id); has {
				continue
			}
			// Its host was killed between the word that it would be started and the file of its output.
			process, err := tx.Process(id)
			p.must(err)
			if process.State == lifecycle.ProcessExited || process.State == lifecycle.ProcessAborted || len(process.Exit) > 0 {
				t.Errorf("process %s is %s with exit %q, and has no output", id, process.State, process.Exit)
			}
		}
		return nil
	}))
}
