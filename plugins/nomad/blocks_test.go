//go:build linux

package nomad

import (
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// testBlocks has several blocks on one node, of one plugin and of others, and blocks that get other names.
func testBlocks(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	c := config(a)
	c.Store = &StoreConfig{HostVolume: "blocks", Path: program(storeProgram), CPU: 10}
	c.TagsFrom, c.TeamFrom = []string{fromMeta + "tags", fromClass}, fromMeta+"team"

	ours := map[string]string{sdk.LabelInstallation: "i"}
	volumes := func(n *node, labels map[string]string) (all []sdk.VolumeID) {
		t.Helper()
		err := n.ListVolumes(ctx, sdk.Filter{Labels: labels}, func(v sdk.VolumeInfo) error {
			if all = append(all, v.ID); !maps.Equal(v.Labels, ours) {
				t.Errorf("volume %s has the labels %v, want %v", v.ID, v.Labels, ours)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	containers := func(n *node, labels map[string]string) (all []sdk.ContainerID) {
		t.Helper()
		err := n.ListContainers(ctx, sdk.Filter{Labels: labels}, func(c sdk.ContainerInfo) error { all = append(all, c.ID); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	lists := func(n *node, labels map[string]string, id string) {
		t.Helper()
		v, c := volumes(n, labels), containers(n, labels)
		if !slices.Equal(v, ids[sdk.VolumeID](id)) || !slices.Equal(c, ids[sdk.ContainerID](id)) {
			t.Errorf("%s lists the volumes %v and the containers %v for %v, want %q of each", n.name, v, c, labels, id)
		}
	}
	make1 := func(n *node, id string) {
		t.Helper()
		if err := n.CreateVolume(ctx, sdk.VolumeSpec{ID: sdk.VolumeID(id), Token: "t", Labels: ours}); err != nil {
			t.Fatal(err)
		}
		if err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: sdk.ContainerID(id), Token: "t", Labels: ours}, nil); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("two that list their own", func(t *testing.T) {
		nodes := openBlocks(t, a, "plugin", map[string]Config{"one": c, "two": c}, nil)
		make1(nodes["one"], "a")
		make1(nodes["two"], "b")
		for _, labels := range []map[string]string{nil, ours} {
			lists(nodes["one"], labels, "a")
			lists(nodes["two"], labels, "b")
		}
	})
	t.Run("another plugin's are not inherited", func(t *testing.T) {
		lists(openBlocks(t, a, "other", map[string]Config{"three": c}, nil)["three"], ours, "")
	})
	t.Run("another name", func(t *testing.T) {
		nodes := openBlocks(t, a, "plugin", map[string]Config{"one": c, "three": c, "zero": c}, nil)
		lists(nodes["zero"], ours, "")
		lists(nodes["three"], ours, "")
		if v := volumes(nodes["one"], ours); len(v) != 2 { // it is the first of those that could have them
			t.Errorf("volumes %v", v)
		}
		lists(nodes["one"], nil, "a") // nobody says whose the others are
		nodes = openBlocks(t, a, "plugin", map[string]Config{"three": c, "two": c}, nil)
		lists(nodes["three"], ours, "a")
		lists(nodes["two"], ours, "b")
		for id, n := range map[string]*node{"a": nodes["three"], "b": nodes["two"]} {
			if err := errors.Join(n.DestroyContainer(ctx, sdk.ContainerID(id)), n.DestroyVolume(ctx, sdk.VolumeID(id))); err != nil {
				t.Error(err)
			}
			lists(n, ours, "")
		}
	})
	t.Run("one address for programs", func(t *testing.T) {
		for try := 1; ; try++ { // a port may be lost to another between choosing and binding it
			address := unused(t)
			c := c
			c.Store, c.ShimPath, c.Shim, c.Listen, c.Serve = nil, "", program(shimProgram), address, "http://"+address
			rt, err := New(map[string]Config{"one": c, "two": c}, Options{})
			if err != nil && try < 5 && taken(address) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			defer rt.Close()
			for _, block := range []string{"one", "two"} {
				n := nodeOf(t, rt, a, block)
				if err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: sdk.ContainerID(block), Token: "t"}, nil); err != nil {
					t.Fatal(err)
				}
				if err := n.DestroyContainer(ctx, sdk.ContainerID(block)); err != nil {
					t.Error(err)
				}
			}
			return
		}
	})
	t.Run("tags and team", func(t *testing.T) {
		n := openBlocks(t, a, "plugin", map[string]Config{"one": c}, nil)["one"]
		info := n.pool.infos()[n.name]
		if !slices.Equal(info.Tags, []string{"gpu", "large", "ssd"}) || info.Team != "red" || info.Attributes["arch"] != c.Architecture {
			t.Errorf("%+v", info)
		}
	})
	t.Run("nodes that are not meant", func(t *testing.T) {
		red, blue, foreign, wrong := c, c, c, c
		red.Filter, blue.Filter, foreign.Architecture, wrong.Filter = `Meta.team == "red"`, `Meta.team == "blue"`, "arm64", `Meta.team ==`
		rt, err := New(map[string]Config{"red": red, "blue": blue, "foreign": foreign, "wrong": wrong}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		nodeOf(t, rt, a, "red")
		for block, words := range map[string][]string{"blue": {`Meta.team == "blue"`}, "foreign": {"linux/arm64", "linux/amd64"}, "wrong": {"listing nodes"}} {
			told(t, rt, block)
			w, err := rt.Worker(block)
			if err != nil {
				t.Fatal(err)
			}
			s, err := w.Status(ctx)
			if err != nil || s.Health != sdk.Away {
				t.Errorf("%s: %+v, %v", block, s, err)
			}
			for _, word := range words {
				if !strings.Contains(s.Reason, word) {
					t.Errorf("%s: %q does not name %s", block, s.Reason, word)
				}
			}
		}
	})
	t.Run("stores that would be two", func(t *testing.T) {
		for setting, change := range map[string]func(*Config){
			"class": func(c *Config) { c.Class = "large" }, "pool": func(c *Config) { c.Pool = "default" }, "namespace": func(c *Config) { c.Namespace = "other" },
			"settings": func(c *Config) { c.Store.Memory = 1 << 30 },
		} {
			other, s := c, *c.Store
			other.Store = &s
			change(&other)
			rt, err := New(map[string]Config{"one": c, "two": other}, Options{})
			if err == nil {
				rt.Close()
			}
			if !errors.Is(err, sdk.ReasonConfig) || !strings.Contains(err.Error(), setting) || !strings.Contains(err.Error(), `"two"`) {
				t.Errorf("%s: %v", setting, err)
			}
		}
		apart, there := c, c
		apart.Pool, there.Pool = "x", "y"
		rt, err := New(map[string]Config{"one": apart, "two": there}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		rt.Close()
	})
}

// TestStoreJobID sees that stores in different places have different jobs.
func TestStoreJobID(t *testing.T) {
	seen := make(map[string]Config)
	for _, c := range []Config{
		{}, {Pool: "x"}, {Class: "x"}, {Pool: "x", Class: "y"}, {Pool: "y", Class: "x"}, {Pool: "x.class-y"}, {Class: "x.pool-y"}, {Pool: "pool-x"},
	} {
		for _, volume := range []string{"v", "v.x", "v.pool-x", "v.class-x", "v.pool-x.class-y", "v%2Epool-x"} {
			c.Store = &StoreConfig{HostVolume: volume}
			id := (&pool{c: c}).storeJobID()
			if other, ok := seen[id]; ok {
				t.Errorf("%q is that of %+v and of %+v", id, c, other)
			}
			seen[id] = c
		}
	}
}

// TestLameStore has a store come up again whose program is fetched from where no plugin is any more.
func TestLameStore(t *testing.T) {
	testkit.Soak(t, "an agent of its own")
	a := nomadtest.Start(t, nomadtest.Options{Dev: true, HostVolumes: []string{hostVolume}})
	ctx := testkit.Context(t)
	plugin := func() (*Runtime, *node) {
		c := config(a)
		c.Store = &StoreConfig{HostVolume: hostVolume, Path: program(storeProgram), CPU: 10}
		c, lis := fetching(t, c)
		return open(t, a, c, lis)
	}
	// allocation waits until the store has one of which that is true.
	allocation := func(is func(*api.AllocationListStub) bool) (found *api.AllocationListStub) {
		t.Helper()
		for index := uint64(1); ; {
			stubs, meta, err := a.Client().Jobs().Allocations(storePrefix+hostVolume, false, (&api.QueryOptions{WaitIndex: index}).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			if i := slices.IndexFunc(stubs, is); i >= 0 {
				return stubs[i]
			}
			index = meta.LastIndex
		}
	}
	kill := func() { // the store's task, once Nomad says that it runs, until it does so no more; Nomad makes another
		t.Helper()
		running := allocation(func(s *api.AllocationListStub) bool {
			return s.ClientStatus == api.AllocClientStatusRunning && s.DesiredStatus == api.AllocDesiredStatusRun
		})
		if _, err := a.Client().Allocations().Stop(&api.Allocation{ID: running.ID}, nil); err != nil {
			t.Fatal(err)
		}
		allocation(func(s *api.AllocationListStub) bool {
			return s.ID == running.ID && s.ClientStatus != api.AllocClientStatusRunning
		})
	}
	first, n := plugin()
	healthy(ctx, t, n)
	if err := n.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: "t"}); err != nil {
		t.Fatal(err)
	}
	second, used := plugin()
	healthy(ctx, t, used)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	kill()
	there := func(n *node) {
		t.Helper()
		healthy(ctx, t, n)
		if err := settled(ctx, func() error { _, err := n.StatFile(ctx, "v", "."); return err }); err != nil {
			t.Fatal(err)
		}
	}
	there(used) // a plugin that had it open
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	kill()
	_, last := plugin()
	there(last) // and one that had not
}

func ids[ID ~string](id string) []ID {
	if id == "" {
		return nil
	}
	return []ID{ID(id)}
}

// openBlocks makes a runtime, and gives the worker of each block for the agent's node.
func openBlocks(t *testing.T, a *nomadtest.Agent, plugin string, blocks map[string]Config, lis net.Listener) map[string]*node {
	t.Helper()
	rt := openRuntime(t, plugin, blocks, lis)
	nodes := make(map[string]*node)
	for block := range blocks {
		nodes[block] = nodeOf(t, rt, a, block)
	}
	return nodes
}

// testLook has nothing told of a node that has changed: it goes on as it was known, and is known as it is once that is told again.
func testLook(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	var silent, refused atomic.Bool
	c := config(a)
	c.TagsFrom = []string{fromMeta + "colour"}
	c.Address = between(t, a, func(pass *httputil.ReverseProxy, w http.ResponseWriter, q *http.Request) {
		if silent.Load() && q.URL.Path == "/v1/node/"+a.NodeID() {
			refused.Store(true)
			http.Error(w, "not now", http.StatusInternalServerError)
			return
		}
		pass.ServeHTTP(w, q)
	})
	rt, n := open(t, a, c, nil)
	healthy(ctx, t, n)
	silent.Store(true)
	colour := "red"
	if _, err := a.Client().Nodes().Meta().Apply(&api.NodeMetaApplyRequest{NodeID: a.NodeID(), Meta: map[string]*string{"colour": &colour}}, nil); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the node has changed, and cannot be looked at", refused.Load)
	healthy(ctx, t, n)
	silent.Store(false)
	err := rt.Workers(ctx, func(e sdk.WorkerEvent) error {
		for _, w := range e.Workers {
			if w.Name == n.name && slices.Contains(w.Tags, colour) {
				return errEnough
			}
		}
		return nil
	})
	if err != errEnough {
		t.Errorf("it is not known as it is: %v", err)
	}
}

var errEnough = errors.New("enough")
