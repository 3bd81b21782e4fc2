package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestTidyAbandoned: a run that nobody resumes is given up, and what it has goes, though no host stays for as long as the grace: the first that finds it
// overdue notes that, and one after the grace ends it. One that is resumed between them is not.
func TestTidyAbandoned(t *testing.T) {
	t.Parallel()
	for _, resumed := range []bool{false, true} {
		t.Run(fmt.Sprintf("resumed %v", resumed), func(t *testing.T) {
			t.Parallel()
			rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
			runLeft(t, rt, dir)
			cfg := testConfig("m")
			tidied := func() (state string, things int) {
				t.Helper()
				h := openHost(t, rt, Options{StateDir: dir, clock: clk.clock()}, "m")
				defer closeTestHost(t, h)
				if left := h.Tidy(testkit.Context(t)); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				r, err := h.RunByID(t.Context(), "r")
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint("ended ", r.Ended), len(onWorker(t, rt, "m"))
			}
			want := func(state string, things int) {
				t.Helper()
				if s, n := tidied(); s != state || n != things {
					t.Errorf("it has %s, and %d things; want %s, %d", s, n, state, things)
				}
			}
			const has = 4 // a container, its input and output, and what the input is a copy of
			want("ended false", has)
			clk.pass(25 * time.Hour)
			want("ended false", has) // this one notes it
			want("ended false", has)
			if resumed {
				h := openHost(t, rt, Options{StateDir: dir, clock: clk.clock()}, "m")
				if !h.enterRun("r") {
					t.Fatal("it is under way")
				}
				h.leaveRun(t.Context(), "r")
				closeTestHost(t, h)
			}
			clk.pass(cfg.Timing.MissingGrace + time.Second)
			if resumed {
				want("ended false", has)
				return
			}
			want("ended true", 0)
		})
	}
}

// TestTidyKeepsStateSmall: hosts that each live for one job leave no more behind, once the time for records has passed, than one job does.
func TestTidyKeepsStateSmall(t *testing.T) {
	t.Parallel()
	rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
	job := func(id string) {
		t.Helper()
		h := openHost(t, rt, Options{StateDir: dir, clock: clk.clock()}, "m")
		defer closeTestHost(t, h)
		req := manyInputs(t, 1)
		req.ID = id
		if res, err := h.Run(testkit.Context(t), req); err != nil || !res.Succeeded() {
			t.Fatalf("%s: %v", states(res), err)
		}
		if left := h.Tidy(testkit.Context(t)); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	kept := func() (rows, files int) {
		t.Helper()
		s, err := store.OpenReadOnly(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		err = s.View(t.Context(), func(tx *store.Tx) error {
			runs, errRuns := tx.Runs(store.RunFilter{})
			containers, errContainers := tx.Containers(store.ContainerFilter{})
			processes, errProcesses := tx.Processes(store.ProcessFilter{})
			volumes, errVolumes := tx.Volumes(store.VolumeFilter{})
			artifacts, errArtifacts := tx.Artifacts(store.ArtifactFilter{})
			rows = len(runs) + len(containers) + len(processes) + len(volumes) + len(artifacts)
			return errors.Join(errRuns, errContainers, errProcesses, errVolumes, errArtifacts)
		})
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		_, files = filesIn(t, filepath.Join(dir, "spool"))
		return rows, files
	}
	job("first")
	rows, files := kept()
	for i := range 5 {
		job(fmt.Sprintf("r%d", i))
	}
	if r, f := kept(); r != 6*rows || f != 6*files {
		t.Errorf("six jobs keep %d rows and %d files, one %d and %d", r, f, rows, files)
	}
	clk.pass(8 * 24 * time.Hour)
	job("last")
	if r, f := kept(); r != rows || f != files {
		t.Errorf("in the end there are %d rows and %d files, want %d and %d", r, f, rows, files)
	}
}

// filesIn tells how many files are below a directory, in which a host may go on, and how many bytes they have.
func filesIn(t *testing.T, dir string) (bytes int64, files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && (d.IsDir() || strings.HasSuffix(d.Name(), "-wal")) { // how large SQLite's log is says how long somebody read while others wrote
			return nil
		}
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			files++
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes, files
}

// TestStateOfManyJobs: what many jobs leave is, once the time for records has passed, what a hundred leave, within a tenth.
func TestStateOfManyJobs(t *testing.T) {
	t.Parallel()
	const few = 100
	size := func(jobs int) (bytes int64) {
		t.Helper()
		rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
		h := openHost(t, rt, Options{StateDir: dir, clock: clk.clock()}, "m")
		var g errgroup.Group
		g.SetLimit(8)
		for range jobs {
			g.Go(func() error {
				res, err := h.Run(testkit.Context(t), RunRequest{Job: parseJob(t, "job \"j\" {\n  step \"s\" {\n    run { path = \"true\" }\n  }\n}")})
				if err == nil && !res.Succeeded() {
					err = errors.New(states(res))
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		clk.pass(8 * 24 * time.Hour)
		if left := h.Tidy(testkit.Context(t)); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		closeTestHost(t, h)
		bytes, _ = filesIn(t, dir)
		return bytes
	}
	a, b := size(few), size(testkit.Times(5*few, 100*few))
	t.Logf("%d bytes, %d after many", a, b)
	if b > a+a/10 {
		t.Errorf("a hundred jobs leave %d bytes, many leave %d", a, b)
	}
}

// TestTidyStrangeThings: what this installation has on a worker and has no record of goes, and what it has a record of and is not there is lost, where no host lives for the grace: it
// takes two looks, a grace apart. What is well in between begins anew.
func TestTidyStrangeThings(t *testing.T) {
	t.Parallel()
	rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
	conn, err := rt.Worker("m")
	if err != nil {
		t.Fatal(err)
	}
	var lost sdk.ContainerID
	tidy := func(before func(*Host)) (things, running int) {
		t.Helper()
		h := openHost(t, rt, Options{StateDir: dir, clock: clk.clock()}, "m")
		defer closeTestHost(t, h)
		if before != nil {
			before(h)
		}
		if left := h.Tidy(testkit.Context(t)); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		for _, row := range containerRows(t, h) {
			if row.State == lifecycle.ContainerReady {
				running++
			}
		}
		return len(onWorker(t, rt, "m")), running
	}
	want := func(what string, things, running int, before func(*Host)) {
		t.Helper()
		if n, r := tidy(before); n != things || r != running {
			t.Errorf("%s: %d things, %d containers are ready; want %d and %d", what, n, r, things, running)
		}
	}
	grace := testConfig("m").Timing.MissingGrace
	want("at first", 4, 1, func(h *Host) {
		labels := map[string]string{sdk.LabelInstallation: h.Installation()}
		c, err := h.Container(t.Context(), "o", ContainerRequest{})
		if err == nil {
			lost = c.id
			err = errors.Join(
				conn.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "stray", Token: "t", Labels: labels}),
				conn.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "stray", Token: "t", Labels: labels}, nil),
				conn.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "others", Token: "t", Labels: map[string]string{sdk.LabelInstallation: "another"}}))
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	want("too soon", 4, 1, nil)
	if err := conn.DestroyContainer(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	clk.pass(grace + time.Second)
	want("after the grace", 1, 1, nil) // the stray things have gone; the lost one is seen to be missing for the first time
	clk.pass(grace + time.Second)
	want("after another", 1, 0, nil)
}
