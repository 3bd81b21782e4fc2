//go:build linux

package nomad

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// testStore sees to a node's store through plugins that come and go, each with other settings. Its volumes stay.
func testStore(t *testing.T, a *nomadtest.Agent) {
	c := config(a)
	c.Store = &StoreConfig{HostVolume: hostVolume, Path: program(storeProgram), CPU: 10}
	ctx := testkit.Context(t)
	with := func(change func(*Config)) *node {
		t.Helper()
		c, s := c, *c.Store
		c.Store = &s
		change(&c)
		_, n := open(t, a, c, nil)
		return n
	}
	first := with(func(*Config) {})
	status := healthy(ctx, t, first)
	if status.VolumeIncarnation == "" || status.Zone != "global" || !status.Has(sdk.FeaturePeerStream) || !status.Has(sdk.FeatureFileRead) || status.Capacity.DiskBytes == 0 {
		t.Errorf("%+v", status)
	}
	if err := first.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: "t", Labels: map[string]string{sdk.LabelInstallation: "i"}}); err != nil {
		t.Fatal(err)
	}
	if err := first.StreamIn(ctx, "v", sdk.StreamIn{}, directories([]string{"d"})); err != nil {
		t.Fatal(err)
	}
	there := func(n *node) {
		t.Helper()
		var info sdk.FileInfo
		if err := settled(ctx, func() (err error) { info, err = n.StatFile(ctx, "v", "d"); return err }); err != nil || !info.Mode.IsDir() {
			t.Errorf("%+v, %v", info, err)
		}
		if s := healthy(ctx, t, n); s.VolumeIncarnation != status.VolumeIncarnation {
			t.Errorf("another store: %q, it was %q", s.VolumeIncarnation, status.VolumeIncarnation)
		}
	}
	job := func() *api.Job {
		t.Helper()
		j, _, err := a.Client().Jobs().Info("slipway.store."+hostVolume, nil)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	before := *job().JobModifyIndex

	t.Run("another plugin of the same settings", func(t *testing.T) {
		there(with(func(*Config) {}))
		if now := *job().JobModifyIndex; now != before {
			t.Errorf("it registered the job again: %d, it was %d", now, before)
		}
	})
	smaller := func(c *Config) { c.Store.Memory = 128 << 20 }
	t.Run("other settings", func(t *testing.T) { // they would take turns
		there(with(smaller))
		if now := *job().JobModifyIndex; now != before {
			t.Errorf("it registered the job again: %d, it was %d", now, before)
		}
	})
	t.Run("an older version's", func(t *testing.T) {
		old := job()
		old.Meta[metaVersion] = "0.0.9"
		if _, _, err := a.Client().Jobs().Register(old, nil); err != nil {
			t.Fatal(err)
		}
		there(with(smaller))
		if now := job(); now.Meta[metaVersion] != Version || *now.TaskGroups[0].Tasks[0].Resources.MemoryMB != 128 {
			t.Errorf("the job is as it was: %v", now.Meta)
		}
		there(first) // whose store is another process now
	})
	t.Run("a newer version's", func(t *testing.T) {
		newer := job()
		newer.Meta[metaVersion] = "99.0.0"
		if _, _, err := a.Client().Jobs().Register(newer, nil); err != nil {
			t.Fatal(err)
		}
		there(with(func(*Config) {}))
		if now := job(); now.Meta[metaVersion] != "99.0.0" || *now.TaskGroups[0].Tasks[0].Resources.MemoryMB != 128 {
			t.Errorf("the job is another: %v", now.Meta)
		}
	})
	t.Run("one that is stopped", func(t *testing.T) {
		if _, _, err := a.Client().Jobs().Deregister(*job().ID, false, nil); err != nil {
			t.Fatal(err)
		}
		there(with(func(*Config) {}))
		if now := job(); now.Meta[metaVersion] != Version || *now.TaskGroups[0].Tasks[0].Resources.MemoryMB != 256 {
			t.Errorf("the job is as it was: %v", now.Meta)
		}
	})
	t.Run("volumes are mounted", func(t *testing.T) { testRaw(t, a, c) })
	t.Run("nothing is mounted", func(t *testing.T) { testNoMounts(t, a, c) })
	t.Run("a host volume that the node lacks", func(t *testing.T) {
		n := with(func(c *Config) { c.Store.HostVolume = "nowhere" })
		degraded(ctx, t, n, short(a.NodeID()), `"nowhere"`, "store.host_volume")
		if err := n.CreateVolume(ctx, sdk.VolumeSpec{ID: "w", Token: "t"}); !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), "nowhere") {
			t.Errorf("%v, want unavailable", err)
		}
		if _, _, err := a.Client().Jobs().Info("slipway.store.nowhere", nil); !missing(err) {
			t.Errorf("a job was made for it: %v", err)
		}
	})
	t.Run("a store that does not come up", func(t *testing.T) {
		n := with(func(c *Config) { c.Store.HostVolume, c.Store.Memory = "empty", 1<<50 })
		_ = n.patience() // that of the first look is over
		unanswered := 0
		for ; ctx.Err() == nil; unanswered++ {
			// That long a host waits. However slow the machine is, one of many is fast enough.
			within, stop := context.WithTimeout(ctx, 10*time.Second)
			s, err := n.Status(within)
			stop()
			if err == nil && s.Health == sdk.Degraded && strings.Contains(s.Reason, "slipway.store.empty") && s.Has(sdk.FeatureLimitsCPU) {
				return
			}
			t.Logf("%+v, %v", s, err)
		}
		t.Errorf("none of %d asked for its status in time", unanswered)
	})
	t.Run("a job of somebody else's", func(t *testing.T) {
		theirs := api.NewBatchJob("slipway.store.taken", "theirs", "global", 50)
		theirs.Datacenters = []string{"*"}
		theirs.AddTaskGroup(api.NewTaskGroup("g", 0).AddTask(api.NewTask("t", "raw_exec").SetConfig("command", "/bin/true")))
		if _, _, err := a.Client().Jobs().Register(theirs, nil); err != nil {
			t.Fatal(err)
		}
		degraded(ctx, t, with(func(c *Config) { c.Store.HostVolume = "taken" }), "slipway.store.taken", "no store of ours")
		if j, _, err := a.Client().Jobs().Info("slipway.store.taken", nil); err != nil || *j.Name != "theirs" || *j.Stop {
			t.Errorf("it was touched: %+v, %v", j, err)
		}
	})
	t.Run("without a store", func(t *testing.T) {
		n := with(func(c *Config) { c.Store = nil })
		refused(ctx, t, n, "block store")
		if err := n.ListVolumes(ctx, sdk.Filter{}, nil); err != nil {
			t.Error(err)
		}
	})
	there(first)
	var out bytes.Buffer
	if err := first.StreamOut(ctx, "v", sdk.StreamOut{}, &out); err != nil || !strings.Contains(out.String(), "d/") {
		t.Errorf("%v: %d bytes", err, out.Len())
	}
	if err := first.DestroyVolume(ctx, "v"); err != nil {
		t.Error(err)
	}
}

// TestOlder compares versions.
func TestOlder(t *testing.T) {
	order := []string{"", "0.0.9", "0.1.0-alpha.1", "0.1.0-alpha.2", "0.1.0-alpha.10", "0.1.0-alpha.x", "0.1.0-beta", "0.1.0", "0.1.1", "0.2.0", "0.10.0", "1.0.0"}
	for i, a := range order {
		for j, b := range order[1:] {
			if got, want := older(a, b), i < j+1; got != want {
				t.Errorf("%q before %q: %v", a, b, got)
			}
		}
	}
}

// healthy waits until a worker is.
func healthy(ctx context.Context, t *testing.T, n *node) sdk.Status {
	t.Helper()
	return shows(ctx, t, n, "the worker is healthy", func(s sdk.Status) bool { return s.Health == sdk.Healthy })
}

// shows waits until a worker says of itself what is wanted.
func shows(ctx context.Context, t *testing.T, n *node, what string, wanted func(sdk.Status) bool) (s sdk.Status) {
	t.Helper()
	ok := false
	defer func() {
		if !ok {
			t.Logf("it said last: %+v", s)
		}
	}()
	testkit.Until(t, what, func() bool {
		var err error
		if s, err = n.Status(ctx); err != nil {
			t.Fatal(err)
		}
		ok = wanted(s)
		return ok
	})
	return s
}

// degraded waits until a worker is, for a reason with these words: what is not known in time it says later.
func degraded(ctx context.Context, t *testing.T, n *node, words ...string) {
	t.Helper()
	shows(ctx, t, n, fmt.Sprintf("the worker names %q", words), func(s sdk.Status) bool {
		if s.Health != sdk.Degraded {
			t.Fatalf("it is %s", s.Health)
		}
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s.Reason, w) })
	})
}

// settled makes a call again as long as its answer is only that it cannot be now, as hosts do: a store may have just been replaced.
func settled(ctx context.Context, call func() error) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := call()
		if ctx.Err() != nil || !errors.Is(err, sdk.Unavailable) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}
