package nomad

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

const (
	storePrefix = "slipway.store." // of jobs; no container's job begins so
	storeTask   = "store"
	metaStore   = "slipway_store"         // a sum of the job's definition
	metaVersion = "slipway_store_version" // of the plugin that made it
	metaProgram = "slipway_store_program" // where commands in its task find slipway-store
	metaAnew    = "slipway_store_anew"    // what changes where all stores are to be started anew
	storeDir    = "/slipway/volumes"
)

// storeJobID names the job that keeps volumes on the nodes of the block. Everything that keeps its volumes in the same place names it the same, of
// whatever installation: a store serves them all, and tells their volumes apart by their labels.
func (p *pool) storeJobID() string {
	id := storePrefix + escaped(p.c.Store.HostVolume)
	if p.c.Pool != "" {
		id += ".pool-" + escaped(p.c.Pool)
	}
	if p.c.Class != "" {
		id += ".class-" + escaped(p.c.Class)
	}
	return id
}

// escaped writes a name for a part of an id: there are no dots in it, and no two names become one.
func escaped(name string) string {
	return strings.ReplaceAll(url.QueryEscape(name), ".", "%2E")
}

// storePath is where commands in the store's task find its program.
func (p *pool) storePath() string {
	switch {
	case p.c.Store.Path != "":
		return p.c.Store.Path
	case p.c.Store.Driver == "raw_exec":
		return "local/" + storeProgram
	}
	return dockerTask + "/" + storeProgram
}

// storeJob is the store in Nomad's words: a system job, so that it is on each node, comes back with it, and is the last to go when a node is drained.
// dir is where the host volume is on nodes, for drivers that can mount nothing.
func (p *pool) storeJob(dir string) (*api.Job, error) {
	s := p.c.Store
	program, artifacts := p.storePath(), p.fetch(storeProgram, p.storeSum)
	if s.Path != "" {
		artifacts = nil
	} else if s.Driver != "docker" {
		program = "${NOMAD_TASK_DIR}/" + storeProgram
	}
	args := func(dir string) []string {
		return []string{"serve", "--dir", dir, "--listen", "${NOMAD_ADDR_store}", "--zone", s.Zone}
	}
	port := api.Port{Label: "store", Value: int(s.Port)}
	network := &api.NetworkResource{Mode: "host", DynamicPorts: []api.Port{port}}
	if s.Port != 0 {
		network.DynamicPorts, network.ReservedPorts = nil, []api.Port{port}
	}
	const mebibyte = 1 << 20
	task := &api.Task{
		Name: storeTask, Driver: s.Driver, Artifacts: artifacts,
		KillTimeout: new(5 * time.Second),
		Resources:   &api.Resources{CPU: new(int(s.CPU)), MemoryMB: new(int((s.Memory + mebibyte - 1) / mebibyte))},
		LogConfig:   &api.LogConfig{MaxFiles: new(2), MaxFileSizeMB: new(5)},
		// The volumes' owners are of all kinds.
		User:         map[string]string{"docker": "0:0", "exec": "root"}[s.Driver],
		Config:       map[string]any{"command": program, "args": args(storeDir)},
		VolumeMounts: []*api.VolumeMount{{Volume: new("volumes"), Destination: new(storeDir)}},
	}
	switch s.Driver {
	case "docker":
		task.Config = map[string]any{"image": s.Image, "entrypoint": []string{program}, "args": args(storeDir), "network_mode": "host"}
		if s.Path != "" {
			task.Config["mount"] = []map[string]any{bind(s.Path, s.Path, true)}
		}
	case "raw_exec":
		task.Config["args"], task.VolumeMounts = args(dir), nil
	}
	job := &api.Job{
		ID: new(p.storeJobID()), Name: new(p.storeJobID()), Type: new(api.JobTypeSystem), Datacenters: []string{"*"},
		NodePool: new(cmp.Or(p.c.Pool, api.NodePoolAll)), Priority: new(80), // above containers, which are of no use without it
		TaskGroups: []*api.TaskGroup{{
			Name:          new("store"),
			RestartPolicy: &api.RestartPolicy{Attempts: new(10), Interval: new(time.Minute), Delay: new(time.Second), Mode: new(api.RestartPolicyModeDelay)},
			EphemeralDisk: &api.EphemeralDisk{SizeMB: new(100)},
			Networks:      []*api.NetworkResource{network},
			Volumes:       map[string]*api.VolumeRequest{"volumes": {Name: "volumes", Type: "host", Source: s.HostVolume}},
			Tasks:         []*api.Task{task},
		}},
	}
	if p.c.Class != "" {
		job.Constraints = []*api.Constraint{{LTarget: "${node.class}", RTarget: p.c.Class, Operand: "="}}
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	// From where the program is fetched is no part of it, or two plugins with different addresses would take each other's stores down.
	sum := sha256.Sum256(bytes.ReplaceAll(text, []byte(p.c.Serve), nil))
	job.Meta = map[string]string{metaStore: hex.EncodeToString(sum[:]), metaVersion: Version, metaProgram: p.storePath()}
	return job, nil
}

// bind is one of docker's mounts.
func bind(source, target string, readOnly bool) map[string]any {
	return map[string]any{"type": "bind", "source": source, "target": target, "readonly": readOnly}
}

// storeNeed is what a node's store needs of the stores' job, each more than the one before.
type storeNeed int

const (
	storeThere storeNeed = iota // that there is one
	storeOver                   // that Nomad looks again at where nothing of it runs
	storeLame                   // that its program comes from this plugin: where it comes from now there may be none any more
	storeAnew                   // that all of them are started anew, for Nomad will not do so with one whose agent has forgotten it
	storeNeeds
)

// ensureStore sees to it that there is a job of the stores. One that is there stays as it is, whatever this plugin would have in it, unless it is stopped or
// an older version's: or plugins with different settings would take turns, and each turn starts all stores again. Where a
// node's store needs more, the job is registered again.
func (n *node) ensureStore(ctx context.Context, dir string, needs storeNeed) error {
	k, p := n.cluster, n.pool
	unlock, err := p.registering.Lock(ctx, "")
	if err != nil {
		return err
	}
	defer unlock()
	job, err := p.storeJob(dir)
	if err != nil {
		return sdk.NewInternal(err, "worker %q: the job of its store: %v", n.name, err)
	}
	asking, cancel := k.in(ctx)
	defer cancel()
	for try := 0; ; try++ {
		there, _, err := k.client.Jobs().Info(*job.ID, k.query(asking))
		index := uint64(0)
		switch {
		case missing(err):
		case err != nil:
			return k.fail(ctx, "looking for the job "+*job.ID+" of the stores", err)
		case there.Meta[metaStore] == "":
			return sdk.NewInvalid(sdk.ReasonConfig, "worker %q: %s has a job %q that is no store of ours; rename it", n.name, k, *job.ID)
		case p.c.Store.Driver == "raw_exec" && !*there.Stop && dirOf(there) != dir && dirOf(there) != "":
			return sdk.NewUnavailable(nil, "worker %q: node %s has the host volume %q at %s and others have it at %s; with store.driver = \"raw_exec\" it must be at one path on all",
				n.name, short(n.id), p.c.Store.HostVolume, dir, dirOf(there))
		case *there.Stop || older(there.Meta[metaVersion], Version):
			index = *there.JobModifyIndex
		case needs == storeThere:
			if there.Meta[metaStore] != job.Meta[metaStore] && !p.warned {
				p.warned = true
				p.log.Warn("the stores of volumes have other settings than this block's, and keep them until their job is stopped", "job", *job.ID)
			}
			return nil
		case needs == storeAnew:
			job, index = there, *there.JobModifyIndex
			job.Meta[metaAnew] = strconv.FormatUint(index, 10) // a job that is another one in this is placed again
		case needs == storeOver || sameSource(there, job):
			job, index = there, *there.JobModifyIndex // as it is: what runs goes on
		case time.Since(p.moved) < lameAgain:
			return nil
		default:
			index, p.moved = *there.JobModifyIndex, time.Now()
		}
		_, _, err = k.client.Jobs().EnforceRegister(job, index, k.write(asking))
		if status(err) == http.StatusInternalServerError && try == 0 {
			continue // somebody else was faster, or there is a reason, which a second time shows
		}
		if err != nil {
			return k.fail(ctx, "registering the job "+*job.ID+" of the stores", err)
		}
		p.log.Info("the stores of volumes have a new job", "job", *job.ID, "before", index != 0)
		return nil
	}
}

// lameAgain is how long a plugin leaves the stores where it had them moved to: one whose programs a node cannot fetch either must not take turns with another.
const lameAgain = 10 * time.Minute

// sameSource tells whether two jobs of stores have their program from the same place.
func sameSource(a, b *api.Job) bool {
	of := func(j *api.Job) (all []string) {
		for _, g := range j.TaskGroups {
			for _, t := range g.Tasks {
				for _, f := range t.Artifacts {
					all = append(all, *f.GetterSource)
				}
			}
		}
		return all
	}
	return slices.Equal(of(a), of(b))
}

// older tells whether a version is less than another, as semantic versions are; one that is none is less than all.
func older(a, b string) bool {
	parts := func(v string) (numbers [3]int, pre []string, ok bool) {
		v, _, _ = strings.Cut(v, "+")
		v, tail, _ := strings.Cut(v, "-")
		if tail != "" {
			pre = strings.Split(tail, ".")
		}
		_, err := fmt.Sscanf(v+" ", "%d.%d.%d ", &numbers[0], &numbers[1], &numbers[2])
		return numbers, pre, err == nil
	}
	of, preOf, ok := parts(a)
	than, preThan, _ := parts(b)
	if !ok || of != than {
		return !ok || slices.Compare(of[:], than[:]) < 0
	}
	if len(preOf) == 0 || len(preThan) == 0 {
		return len(preOf) > len(preThan)
	}
	return slices.CompareFunc(preOf, preThan, func(x, y string) int {
		n, errX := strconv.Atoi(x)
		m, errY := strconv.Atoi(y)
		if errX == nil && errY == nil {
			return cmp.Compare(n, m)
		}
		return cmp.Compare(x, y) // digits come before letters
	}) < 0
}

// dirOf gives where a store's job keeps volumes, as its task sees it.
func dirOf(job *api.Job) string {
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			args, _ := t.Config["args"].([]any)
			for i, a := range args {
				if a == "--dir" && i+1 < len(args) {
					dir, _ := args[i+1].(string)
					return dir
				}
			}
		}
	}
	return ""
}

// hostVolume gives where the host volume is on the node.
func (n *node) hostVolume(ctx context.Context) (string, error) {
	k, name := n.cluster, n.pool.c.Store.HostVolume
	asking, cancel := k.in(ctx)
	defer cancel()
	info, _, err := k.client.Nodes().Info(n.id, k.query(asking))
	if err != nil {
		return "", k.fail(ctx, "looking at node "+short(n.id), err)
	}
	v := info.HostVolumes[name]
	switch {
	case v == nil:
		return "", sdk.NewUnavailable(nil, "node %s has no host volume %q, which store.host_volume names: add client { host_volume %q { path = … } } to its agent's configuration",
			short(n.id), name, name)
	case v.ReadOnly:
		return "", sdk.NewUnavailable(nil, "node %s has the host volume %q, which store.host_volume names, read-only: volumes cannot be kept in it", short(n.id), name)
	}
	return path.Clean(v.Path), nil
}
