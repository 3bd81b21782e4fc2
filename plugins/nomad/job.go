package nomad

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

const (
	jobPrefix = "slipway-"
	taskName  = "shim"
	metaSpec  = "slipway_spec"   // the container's spec, as JSON; it holds no secret (rule 13)
	metaNode  = "slipway_node"   // the whole id of the node that it is on
	metaOwner = "slipway_plugin" // the plugin's name, and
	metaBlock = "slipway_block"  // that of its block, which it was made for
	metaMaker = "slipway_maker"  // the process that made it, see thisProcess; only of a probe
)

func jobID(id sdk.ContainerID) string { return jobPrefix + string(id) }

// Where things are in a container. What begins with $ the node fills in.
const (
	fetchedShim = "${NOMAD_TASK_DIR}/" + shimProgram
	scratchDir  = "${NOMAD_TASK_DIR}/slipway"
	dockerTask  = "/local"
)

// locate tells where the shim and its scratch are in a container.
func (n *node) locate(id sdk.ContainerID) (program, scratch string) {
	task := dockerTask // in docker's containers, and in exec's chroot
	if n.pool.c.Driver == "raw_exec" {
		task = "local" // commands begin in the task's directory, wherever that is on the node
	}
	program = task + "/slipway-shim"
	if n.pool.c.ShimPath != "" {
		program = n.pool.c.ShimPath
	}
	return program, task + "/slipway"
}

// job is a container in Nomad's words: the shim as a task that is started once and never again.
func (n *node) job(spec sdk.ContainerSpec, h *holding) (*api.Job, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	program, artifacts := fetchedShim, n.pool.fetch(shimProgram, n.pool.shimSum)
	if n.pool.c.ShimPath != "" {
		program, artifacts = n.pool.c.ShimPath, nil
	}
	task := &api.Task{
		Name: taskName, Driver: n.pool.c.Driver, User: n.pool.c.User,
		KillSignal: "SIGKILL", KillTimeout: new(time.Second),
		Artifacts: artifacts,
		Resources: n.resources(spec.Limits),
		// What processes write is in their journals. Nomad would run two processes of its own more to collect what the shim prints, which it also has in its log.
		LogConfig: &api.LogConfig{Disabled: new(true), MaxFiles: new(1), MaxFileSizeMB: new(1)},
		Config:    map[string]any{"command": program, "args": []string{"serve", scratchDir}},
	}
	switch n.pool.c.Driver {
	case "docker":
		n.docker(task, spec, h)
	case "raw_exec":
		if task.Config["args"], err = n.raw(spec, h); err != nil {
			return nil, err
		}
	}
	meta := map[string]string{metaSpec: string(text), metaNode: n.id, metaOwner: n.pool.plugin, metaBlock: n.pool.name}
	if isProbe(spec.ID) {
		meta[metaMaker] = thisProcess()
	}
	return &api.Job{
		ID: new(jobID(spec.ID)), Name: new(jobID(spec.ID)), Type: new(api.JobTypeBatch), Datacenters: []string{"*"},
		NodePool: new(n.nodePool()), Meta: meta,
		Constraints: []*api.Constraint{{LTarget: "${node.unique.id}", RTarget: n.id, Operand: "="}},
		TaskGroups: []*api.TaskGroup{{
			Name:             new("container"),
			RestartPolicy:    &api.RestartPolicy{Attempts: new(0), Mode: new(api.RestartPolicyModeFail)},
			ReschedulePolicy: &api.ReschedulePolicy{Attempts: new(0), Unlimited: new(false)},
			Disconnect:       disconnect(),
			EphemeralDisk:    &api.EphemeralDisk{SizeMB: new(10)},
			Tasks:            []*api.Task{task},
		}},
	}, nil
}

// raw gives the arguments of the shim where it makes a root for the container, in which volumes are mounted. A probe has it show that it can.
func (n *node) raw(spec sdk.ContainerSpec, h *holding) ([]string, error) {
	if !h.own && len(h.binds) == 0 && (!isProbe(spec.ID) || n.mounts() != nil) {
		return []string{"serve", scratchDir}, nil
	}
	return shim.Root{Image: h.root, Mounts: h.binds}.Serve(scratchDir)
}

// docker adds what only its driver has.
func (n *node) docker(t *api.Task, spec sdk.ContainerSpec, h *holding) {
	image := n.pool.c.Image
	if spec.Image.Ref != "" {
		image = spec.Image.Ref
	}
	command := t.Config["command"].(string)
	if n.pool.c.ShimPath == "" {
		command = dockerTask + "/slipway-shim"
	}
	t.Config = map[string]any{
		"image": image, "entrypoint": []string{command}, "args": []string{"serve", dockerTask + "/slipway"},
		"init": false, "privileged": spec.Privileged,
	}
	if t.User == "" {
		t.User = "0:0"
	}
	if spec.Hermetic {
		t.Config["network_mode"] = "none"
	}
	if spec.Limits.PIDs != 0 {
		t.Config["pids_limit"] = spec.Limits.PIDs + shim.OverheadPIDs
	}
	var binds []map[string]any
	for _, b := range h.binds {
		binds = append(binds, bind(b.Source, b.Target, b.ReadOnly))
	}
	if n.pool.c.ShimPath != "" {
		binds = append(binds, bind(n.pool.c.ShimPath, n.pool.c.ShimPath, true))
	}
	if len(binds) > 0 {
		t.Config["mount"] = binds
	}
	if h.own {
		t.Config["image"], t.Config["load"] = emptyImage, emptyFile
		t.Artifacts = append(t.Artifacts, n.pool.fetchEmpty())
	}
}

// resources are what the container gets; Nomad has no container without limits.
func (n *node) resources(l sdk.Resources) *api.Resources {
	millis, memory := l.CPUMillis, l.MemoryBytes
	if millis == 0 {
		millis = n.pool.c.CPU
	}
	if memory == 0 {
		memory = int64(n.pool.c.Memory)
	}
	mhz := int64(1000) // of a core, where the node does not tell
	if stub, _ := n.pool.stub(n.name); stub != nil && stub.NodeResources != nil && stub.NodeResources.Cpu.TotalCpuCores > 0 {
		mhz = stub.NodeResources.Cpu.CpuShares / int64(stub.NodeResources.Cpu.TotalCpuCores)
	}
	const mebibyte = 1 << 20
	return &api.Resources{
		CPU:      new(int(max(1, millis*mhz/1000))),
		MemoryMB: new(int((memory + shim.OverheadMemoryBytes + mebibyte - 1) / mebibyte)),
	}
}

func (n *node) nodePool() string {
	if stub, _ := n.pool.stub(n.name); stub != nil && stub.NodePool != "" {
		return stub.NodePool
	}
	return "default"
}

// container is what a job of ours says.
type container struct {
	spec    sdk.ContainerSpec
	node    string // its whole id
	plugin  string
	block   string
	maker   string // of a probe
	stopped bool
}

// read reads a job's meta. A job that is not of ours is false.
func read(meta map[string]string, stopped bool) (container, bool) {
	c := container{node: meta[metaNode], plugin: meta[metaOwner], block: meta[metaBlock], maker: meta[metaMaker], stopped: stopped}
	if meta[metaSpec] == "" || json.Unmarshal([]byte(meta[metaSpec]), &c.spec) != nil {
		return container{}, false
	}
	return c, true
}

// supported refuses what could only be ignored.
func (n *node) supported(spec sdk.ContainerSpec, features []sdk.Feature) error {
	l := spec.Limits
	for _, asked := range []struct {
		feature sdk.Feature
		yes     bool
	}{
		{sdk.FeatureLimitsCPU, l.CPUMillis != 0}, {sdk.FeatureLimitsMemory, l.MemoryBytes != 0}, {sdk.FeatureLimitsPIDs, l.PIDs != 0},
		{sdk.FeatureLimitsDisk, l.DiskBytes != 0}, {sdk.FeaturePrivileged, spec.Privileged}, {sdk.FeatureNetworkNone, spec.Hermetic},
		{sdk.FeatureImageRef, spec.Image.Ref != ""}, {sdk.FeatureImageVolume, spec.Image.Volume != ""},
	} {
		if asked.yes && !slices.Contains(features, asked.feature) {
			return sdk.NewUnsupported(asked.feature)
		}
	}
	if len(spec.Mounts) > 0 {
		if err := n.mounts(); err != nil {
			return err
		}
	}
	for _, m := range spec.Mounts {
		for _, own := range n.notRoots() {
			if m.Path == own || strings.HasPrefix(m.Path, own+"/") {
				return sdk.NewInvalid(sdk.ReasonPath, "container %q: nothing can be mounted at %q: %s is not the container's own", spec.ID, m.Path, own)
			}
		}
	}
	return nil
}

// notRoots are directories in which nothing can be mounted: they are the machine's, or Nomad's.
func (n *node) notRoots() []string {
	kernels := []string{"/proc", "/sys", "/dev"}
	if n.pool.c.Driver != "docker" {
		return kernels
	}
	return append(kernels, "/local", "/secrets", "/alloc")
}

// mounts tells why nothing can be mounted; nil: it can, as far as is known.
func (n *node) mounts() error {
	switch driver := n.pool.c.Driver; {
	case driver == "exec":
		return cannot(sdk.ReasonConfig, "worker %q: the driver exec mounts no volumes: steps with inputs or outputs need docker, or raw_exec where nothing must be isolated", n.name)
	case n.pool.c.Store == nil:
		return n.volumes.errNoStore()
	case driver == "raw_exec":
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.look.mounts
	case n.attribute("driver.docker.volumes.enabled") != "true":
		return cannot(sdk.ReasonConfig, "worker %q: docker on node %s may not mount directories of the node: add plugin \"docker\" { config { volumes { enabled = true } } } to its agent's configuration",
			n.name, short(n.id))
	}
	return nil
}

// privileged tells whether containers may be so.
func (n *node) privileged() bool {
	return n.pool.c.Privileged == "allow" && n.attribute("driver.docker.privileged.enabled") == "true"
}
