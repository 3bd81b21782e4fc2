//go:build linux

package onnomad

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// container is what Nomad tells of a job, and the mark that says that it was made whole.
type container struct {
	spec    sdk.ContainerSpec
	stopped bool
	alloc   string // the only one that is the container: Nomad may make others; empty: half made
}

const (
	jobPrefix = "slipway-"
	specMeta  = "slipway_spec"
)

func jobID(id sdk.ContainerID) string { return jobPrefix + string(id) }

func (w *worker) mark(id sdk.ContainerID) string { return filepath.Join(w.State, "made", string(id)) }

// made gives the allocation of a container that was made whole.
func (w *worker) made(id sdk.ContainerID) string {
	alloc, err := os.ReadFile(w.mark(id))
	if err != nil {
		return ""
	}
	return string(alloc)
}

func (w *worker) read(meta map[string]string, stopped bool) (c container, err error) {
	if err := json.Unmarshal([]byte(meta[specMeta]), &c.spec); err != nil {
		return c, fmt.Errorf("a job's meta: %w", err)
	}
	c.stopped, c.alloc = stopped, w.made(c.spec.ID)
	return c, nil
}

func (w *worker) lookup(ctx context.Context, id sdk.ContainerID) (container, error) {
	job, _, err := w.client.Jobs().Info(jobID(id), query(ctx))
	if status(err) == http.StatusNotFound {
		return container{}, sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	if err != nil {
		return container{}, away(ctx, err)
	}
	return w.read(job.Meta, *job.Stop)
}

func (w *worker) containers(ctx context.Context) ([]container, error) {
	jobs, _, err := w.client.Jobs().ListOptions(&api.JobListOptions{Fields: &api.JobListFields{Meta: true}},
		(&api.QueryOptions{Prefix: jobPrefix}).WithContext(ctx))
	if err != nil {
		return nil, away(ctx, err)
	}
	var all []container
	for _, job := range jobs {
		c, err := w.read(job.Meta, job.Stop)
		if err != nil {
			return nil, err
		}
		if c.spec.ID != probe {
			all = append(all, c)
		}
	}
	return all, nil
}

// alloc gives the allocation to exec in.
func (w *worker) alloc(ctx context.Context, id sdk.ContainerID) (*api.Allocation, error) {
	w.mu.Lock()
	a := w.allocs[id]
	w.mu.Unlock()
	if a != nil {
		return a, nil
	}
	c, err := w.lookup(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case c.stopped:
		return nil, sdk.NewNotFound(sdk.KindContainer, string(id))
	case c.alloc == "":
		return nil, sdk.NewFailedPrecondition(sdk.ReasonCreating, sdk.KindContainer, string(id), "container %q is half made", id)
	}
	a, _, err = w.client.Allocations().Info(c.alloc, query(ctx))
	if status(err) == http.StatusNotFound {
		return nil, lost(id)
	}
	if err != nil {
		return nil, away(ctx, err)
	}
	if a.ClientTerminalStatus() {
		return nil, lost(id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allocs[id] = a
	return a, nil
}

func (w *worker) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, _ func(sdk.Progress)) error {
	if err := cmp.Or(ctx.Err(), spec.Validate(), w.supported(spec)); err != nil {
		return err
	}
	unlock, err := w.lock(ctx, spec.ID)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := w.lookup(ctx, spec.ID)
	switch {
	case sdk.IsNotFound(err, sdk.KindContainer):
	case err != nil:
		return err
	case c.spec.Token != spec.Token:
		return sdk.NewAlreadyExists(sdk.KindContainer, string(spec.ID))
	case c.alloc != "":
		return nil
	default:
		if err := w.remove(ctx, spec.ID); err != nil {
			return err
		}
	}
	for _, m := range spec.Mounts {
		v, err := w.volume(m.Volume)
		if err != nil {
			return err
		}
		if v.State == sdk.VolumeSealed && !m.ReadOnly {
			return sealed(m.Volume)
		}
	}
	if _, err = w.build(ctx, spec); err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if undone := w.remove(undo, spec.ID); undone != nil {
		err = fmt.Errorf("%w; and it is left half made: %v", err, undone)
	}
	return away(ctx, err)
}

func (w *worker) supported(spec sdk.ContainerSpec) error {
	l := spec.Limits
	switch {
	case spec.Image.Ref != "":
		return sdk.NewUnsupported(sdk.FeatureImageRef)
	case spec.Image.Volume != "":
		return sdk.NewUnsupported(sdk.FeatureImageVolume)
	case spec.Privileged:
		return sdk.NewUnsupported(sdk.FeaturePrivileged)
	case spec.Hermetic:
		return sdk.NewUnsupported(sdk.FeatureNetworkNone)
	case l.CPUMillis != 0:
		return sdk.NewUnsupported(sdk.FeatureLimitsCPU)
	case l.MemoryBytes != 0 && w.Tasks != nomadtest.Exec:
		return sdk.NewUnsupported(sdk.FeatureLimitsMemory)
	case l.DiskBytes != 0:
		return sdk.NewUnsupported(sdk.FeatureLimitsDisk)
	case l.PIDs != 0:
		return sdk.NewUnsupported(sdk.FeatureLimitsPIDs)
	case len(spec.Mounts) > 0 && w.Tasks != nomadtest.Exec:
		return sdk.NewInvalid(sdk.ReasonPath, "container %q: nothing can be mounted at %q: the driver %s gives a container no root of its own", spec.ID, spec.Mounts[0].Path, w.Tasks)
	}
	return nil
}

// job is the supervisor as a task that is started once and never again.
func (w *worker) job(spec sdk.ContainerSpec) (*api.Job, error) {
	meta, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	task := &api.Task{
		Name: nomadtest.TaskName, Driver: nomadtest.RawExec, KillSignal: "SIGKILL", KillTimeout: new(time.Second),
		Config:    map[string]any{"command": w.Shim, "args": []string{"serve", "${NOMAD_TASK_DIR}/scratch"}},
		Resources: &api.Resources{CPU: new(10), MemoryMB: new(512)},
		LogConfig: &api.LogConfig{MaxFiles: new(1), MaxFileSizeMB: new(5)},
	}
	if w.Tasks == nomadtest.Exec {
		task.Driver, task.User = nomadtest.Exec, nomadtest.ContainerRoot
		task.Config = map[string]any{"command": chrootProgram, "args": []string{"serve", chrootScratch}}
	}
	if n := spec.Limits.MemoryBytes; n != 0 {
		task.Resources.MemoryMB = new(int(n>>20) + 32)
	}
	return &api.Job{
		ID: new(jobID(spec.ID)), Type: new(api.JobTypeBatch), Datacenters: []string{"*"}, Meta: map[string]string{specMeta: string(meta)},
		TaskGroups: []*api.TaskGroup{{
			Name:             new("main"),
			RestartPolicy:    &api.RestartPolicy{Attempts: new(0), Mode: new(api.RestartPolicyModeFail)},
			ReschedulePolicy: &api.ReschedulePolicy{Attempts: new(0), Unlimited: new(false)},
			EphemeralDisk:    &api.EphemeralDisk{SizeMB: new(10)},
			Tasks:            []*api.Task{task},
		}},
	}, nil
}

// build makes the container that is not there. Its lock is held.
func (w *worker) build(ctx context.Context, spec sdk.ContainerSpec) (shim.Info, error) {
	job, err := w.job(spec)
	if err != nil {
		return shim.Info{}, err
	}
	reply, _, err := w.client.Jobs().EnforceRegister(job, 0, write(ctx)) // only if there is none
	if err != nil {
		return shim.Info{}, err
	}
	alloc, err := w.placed(ctx, spec.ID, reply.EvalID)
	if err != nil {
		return shim.Info{}, err
	}
	w.mu.Lock()
	w.allocs[spec.ID] = alloc
	w.mu.Unlock()
	info, err := w.up(ctx, spec.ID, alloc.ID)
	if err != nil {
		return shim.Info{}, err
	}
	if err := w.ownFiles(alloc.ID); err != nil {
		return shim.Info{}, err
	}
	for _, m := range spec.Mounts {
		if err := w.copyIn(ctx, spec.ID, m); err != nil {
			return shim.Info{}, err
		}
	}
	return info, os.WriteFile(w.mark(spec.ID), []byte(alloc.ID), 0o600)
}

// placed waits for the one allocation that a job is to have after an evaluation. Where a job of that name was there until a moment ago, it may be that one's:
// Nomad then evaluates both at once, and makes none.
func (w *worker) placed(ctx context.Context, id sdk.ContainerID, eval string) (*api.Allocation, error) {
	for q := query(ctx); ; {
		e, meta, err := w.client.Evaluations().Info(eval, q)
		if err != nil {
			return nil, err
		}
		for _, m := range e.FailedTGAllocs {
			return nil, sdk.NewExhausted(sdk.ReasonMemory, "container %q has no place: filtered %v, exhausted %v", id, m.ConstraintFiltered, m.DimensionExhausted)
		}
		if e.Status == "complete" {
			break
		}
		if e.Status != "pending" {
			return nil, fmt.Errorf("evaluation %s is %s: %s", eval, e.Status, e.StatusDescription)
		}
		q = (&api.QueryOptions{WaitIndex: meta.LastIndex}).WithContext(ctx)
	}
	stubs, _, err := w.client.Jobs().Allocations(jobID(id), true, query(ctx))
	if err != nil {
		return nil, err
	}
	stubs = slices.DeleteFunc(stubs, func(a *api.AllocationListStub) bool { return a.DesiredStatus != api.AllocDesiredStatusRun })
	if len(stubs) != 1 {
		return nil, fmt.Errorf("after evaluation %s there are %d allocations, not one", eval, len(stubs))
	}
	a, _, err := w.client.Allocations().Info(stubs[0].ID, query(ctx))
	return a, err
}

// startLook is between two tries to exec: of a task that is up Nomad tells only a second later.
const startLook = 20 * time.Millisecond

// mostRefused is how often a task that Nomad calls running takes no command before it is told to go on. Nomad's client (1.9.4: allocRunner.AllocState) loses that a
// task has started if a command comes while it is called up; what happens to the task next, a signal for one, puts that right.
const mostRefused = 100

func (w *worker) up(ctx context.Context, id sdk.ContainerID, alloc string) (shim.Info, error) {
	for refused := 0; ; {
		info, err := w.Ready(ctx, id)
		if !errors.Is(err, sdk.Unavailable) && !errors.Is(err, sdk.ReasonRecordLost) {
			return info, err
		}
		a, _, infoErr := w.client.Allocations().Info(alloc, query(ctx))
		if infoErr != nil {
			return info, infoErr
		}
		if a.ClientTerminalStatus() {
			why := fmt.Errorf("container %q: allocation %s is %s", id, alloc, a.ClientStatus)
			if s := a.TaskStates[nomadtest.TaskName]; s != nil {
				for _, e := range s.Events {
					why = fmt.Errorf("%w; %s: %s", why, e.Type, e.DisplayMessage)
				}
			}
			return info, sdk.NewInternal(why, "%v", why)
		}
		if s := a.TaskStates[nomadtest.TaskName]; s != nil && s.State == "running" {
			if refused++; refused%mostRefused == 0 {
				if err := w.client.Allocations().Signal(a, query(ctx), nomadtest.TaskName, "SIGCONT"); err != nil {
					return info, err
				}
			}
		}
		select {
		case <-time.After(startLook):
		case <-ctx.Done():
			return info, ctx.Err()
		}
	}
}

// ownFiles gives a container users of its own: what Nomad puts into a chroot are links to files that all of them have in common.
func (w *worker) ownFiles(alloc string) error {
	if w.Tasks != nomadtest.Exec {
		return nil
	}
	root, err := os.OpenRoot(filepath.Join(w.Allocs, alloc, nomadtest.TaskName)) // whatever the container makes of it meanwhile
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{"etc/passwd", "etc/group"} {
		text, err := root.ReadFile(name)
		if err := cmp.Or(err, root.Remove(name)); err != nil {
			return err
		}
		if err := root.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// copyIn is a mount, as far as it can be had.
func (w *worker) copyIn(ctx context.Context, id sdk.ContainerID, m sdk.Mount) error {
	return w.withFiles(m.Volume, func(f *files) error {
		return transfer(func(out io.Writer) error { return f.Pack(ctx, "", out) },
			func(in io.Reader) error { return w.Driver.StreamIn(ctx, id, "/", strings.TrimPrefix(m.Path, "/"), in) })
	})
}

func (w *worker) ListContainers(ctx context.Context, filter sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	all, err := w.containers(ctx)
	if err != nil {
		return err
	}
	stubs, _, err := w.client.Allocations().List(query(ctx))
	if err != nil {
		return away(ctx, err)
	}
	ended := make(map[string]string)
	for _, s := range stubs {
		if s.ClientStatus != api.AllocClientStatusPending && s.ClientStatus != api.AllocClientStatusRunning {
			ended[s.ID] = "its allocation is " + s.ClientStatus
		}
	}
	for _, c := range all {
		if !filter.Match(string(c.spec.ID), c.spec.Labels) {
			continue
		}
		info := sdk.ContainerInfo{ID: c.spec.ID, Token: c.spec.Token, Labels: c.spec.Labels, State: sdk.ContainerReady}
		switch {
		case c.stopped:
			info.State, info.Reason = sdk.ContainerGone, "its job is stopped"
		case c.alloc == "":
			info.State = sdk.ContainerCreating
		case ended[c.alloc] != "":
			info.State, info.Reason = sdk.ContainerGone, ended[c.alloc]
		}
		if err := emit(info); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *worker) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	unlock, err := w.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := w.lookup(ctx, id)
	if sdk.IsNotFound(err, sdk.KindContainer) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range c.spec.Mounts {
		if c.alloc == "" || c.stopped || m.ReadOnly {
			continue
		}
		// What cannot be had any more is lost with the container.
		if err := w.copyBack(ctx, id, m); err != nil && !errors.Is(err, sdk.FailedPrecondition) && !errors.Is(err, fs.ErrNotExist) && !sdk.IsNotFound(err, sdk.KindFile) {
			return err
		}
	}
	return away(ctx, w.remove(ctx, id))
}

// remove stops the job, so that it is still listed while something of it may live, and then takes it away. Its lock is held.
func (w *worker) remove(ctx context.Context, id sdk.ContainerID) error {
	if _, _, err := w.client.Jobs().Deregister(jobID(id), false, write(ctx)); status(err) == http.StatusNotFound {
		return nil
	} else if err != nil {
		return err
	}
	stubs, _, err := w.client.Jobs().Allocations(jobID(id), false, query(ctx))
	if err != nil {
		return err
	}
	for _, s := range stubs {
		if err := w.ended(ctx, s.ID); err != nil {
			return err
		}
	}
	if _, _, err := w.client.Jobs().Deregister(jobID(id), true, write(ctx)); err != nil {
		return err
	}
	w.mu.Lock()
	delete(w.allocs, id)
	w.mu.Unlock()
	w.Forget(id)
	if err := os.Remove(w.mark(id)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// ended waits until Nomad says that an allocation has ended, and this machine that nothing of it lives.
func (w *worker) ended(ctx context.Context, alloc string) error {
	for q := query(ctx); ; {
		a, meta, err := w.client.Allocations().Info(alloc, q)
		if status(err) == http.StatusNotFound {
			break
		}
		if err != nil {
			return err
		}
		if a.ClientTerminalStatus() {
			break
		}
		q = (&api.QueryOptions{WaitIndex: meta.LastIndex}).WithContext(ctx)
	}
	return awaitGone(ctx, filepath.Join(w.Allocs, alloc), alloc)
}

// StartProcess knows the container's directory, and what is sealed.
func (w *worker) StartProcess(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
	if err := cmp.Or(ctx.Err(), spec.Validate()); err != nil {
		return err
	}
	c, err := w.lookup(ctx, id)
	if err != nil {
		return err
	}
	spec.Dir = cmp.Or(spec.Dir, c.spec.Dir, "/")
	err = w.Driver.StartProcess(ctx, id, spec) // after sealing, its keeper refuses
	if errors.Is(err, sdk.ReasonRecordLost) {
		return sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, string(id), "container %q is gone and takes no process; destroy it", id)
	}
	return err
}
