//go:build linux

package nomadtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// The drivers that an agent has.
const (
	RawExec = "raw_exec" // no isolation: the task is a process of this machine
	Exec    = "exec"     // a chroot, and namespaces of its own for mounts and processes
	Docker  = "docker"   // a container of Image; see Options.Docker
)

// ContainerRoot is root for Exec tasks in the chroot that Options.ChrootEnv has by default. The driver wants a name that this machine knows, but the
// user is who the chroot says it is. With the name root the task would get all capabilities, and not start where the agent itself lacks one; so it
// gets a container's usual ones.
const ContainerRoot = "daemon"

// TaskName is the name of a job's one task.
const TaskName = "main"

// Task is a command for a job of its own. The zero values but Command's are usable.
type Task struct {
	Driver   string // RawExec, Exec or Docker; empty: RawExec
	Command  string // Exec looks for it in the chroot, Docker in the image
	Args     []string
	Env      map[string]string
	User     string // empty: nobody for Exec (see ContainerRoot), the agent's own for RawExec, the image's for Docker
	MemoryMB int    // 0: 64

	// KillTimeout is what the task gets between SIGINT and SIGKILL when it is stopped; 0: 500 ms.
	KillTimeout time.Duration
}

// Run registers a batch job with the one task, never started twice, and waits until Nomad reports it as running, about a second after it is. A task
// that cannot be placed or ends before is an error with Nomad's reasons, and so is an end of ctx; the job stays registered then too, until the test
// ends or the caller takes it back.
func (a *Agent) Run(ctx context.Context, task Task) (*api.Allocation, error) {
	return a.runJob(ctx, task.job("nomadtest-"+strings.ToLower(rand.Text())))
}

// runJob registers a job with one task and waits until it runs.
func (a *Agent) runJob(ctx context.Context, job *api.Job) (*api.Allocation, error) {
	reply, _, err := a.client.Jobs().Register(job, new(api.WriteOptions).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("register job %s: %w", *job.ID, err)
	}
	id, err := a.placed(ctx, reply.EvalID)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", *job.ID, err)
	}
	alloc, err := a.started(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("job %s, allocation %s: %w", *job.ID, id, err)
	}
	return alloc, nil
}

func (t Task) job(id string) *api.Job {
	if t.Driver == "" {
		t.Driver = RawExec
	}
	if t.MemoryMB == 0 {
		t.MemoryMB = 64
	}
	if t.KillTimeout == 0 {
		t.KillTimeout = 500 * time.Millisecond
	}
	config := map[string]any{"command": t.Command, "args": slices.Clone(t.Args)}
	if t.Driver == Docker {
		config["image"] = Image
	}
	return &api.Job{
		ID:          &id,
		Type:        new(api.JobTypeBatch),
		Datacenters: []string{"*"},
		TaskGroups: []*api.TaskGroup{{
			Name:             new("main"),
			RestartPolicy:    &api.RestartPolicy{Attempts: new(0), Mode: new(api.RestartPolicyModeFail)},
			ReschedulePolicy: &api.ReschedulePolicy{Attempts: new(0), Unlimited: new(false)},
			EphemeralDisk:    &api.EphemeralDisk{SizeMB: new(10)},
			Tasks: []*api.Task{{
				Name:        TaskName,
				Driver:      t.Driver,
				User:        t.User,
				Config:      config,
				Env:         t.Env,
				KillTimeout: &t.KillTimeout,
				Resources:   &api.Resources{CPU: new(20), MemoryMB: &t.MemoryMB},
				LogConfig:   &api.LogConfig{MaxFiles: new(1), MaxFileSizeMB: new(5)},
			}},
		}},
	}
}

// placed waits for the evaluation's end, and returns the one allocation it made.
func (a *Agent) placed(ctx context.Context, eval string) (string, error) {
	err := watch(ctx, func(q *api.QueryOptions) (*api.QueryMeta, bool, error) {
		e, meta, err := a.client.Evaluations().Info(eval, q)
		if err != nil {
			return nil, false, err
		}
		for group, m := range e.FailedTGAllocs {
			return nil, false, fmt.Errorf("group %s has no place: filtered %v, exhausted %v", group, m.ConstraintFiltered, m.DimensionExhausted)
		}
		switch e.Status {
		case "complete":
			return meta, true, nil
		case "pending":
			return meta, false, nil
		default:
			return nil, false, fmt.Errorf("its evaluation is %s: %s", e.Status, e.StatusDescription)
		}
	})
	if err != nil {
		return "", err
	}
	list, _, err := a.client.Evaluations().Allocations(eval, new(api.QueryOptions).WithContext(ctx))
	if err != nil {
		return "", err
	}
	if len(list) != 1 {
		return "", fmt.Errorf("its evaluation made %d allocations, not one", len(list))
	}
	return list[0].ID, nil
}

// started waits until the allocation's task runs.
func (a *Agent) started(ctx context.Context, id string) (*api.Allocation, error) {
	var alloc *api.Allocation
	err := watch(ctx, func(q *api.QueryOptions) (*api.QueryMeta, bool, error) {
		found, meta, err := a.client.Allocations().Info(id, q)
		if err != nil {
			return nil, false, err
		}
		alloc = found
		task := alloc.TaskStates[TaskName]
		if alloc.ClientTerminalStatus() || task != nil && task.State == "dead" {
			return nil, false, fmt.Errorf("the task is not running: allocation is %s%s", alloc.ClientStatus, events(task))
		}
		return meta, task != nil && task.State == "running", nil
	})
	return alloc, err
}

func events(task *api.TaskState) string {
	if task == nil {
		return ""
	}
	var b strings.Builder
	for _, e := range task.Events {
		fmt.Fprintf(&b, "; %s: %s", e.Type, e.DisplayMessage)
	}
	return b.String()
}

// watch asks again each time Nomad says that the answer has changed, until it is done.
func watch(ctx context.Context, ask func(*api.QueryOptions) (meta *api.QueryMeta, done bool, err error)) error {
	var index uint64
	for {
		meta, done, err := ask((&api.QueryOptions{WaitIndex: index}).WithContext(ctx))
		if err != nil || done {
			return err
		}
		if meta.LastIndex < index {
			index = 0 // the server has begun anew
			continue
		}
		index = max(meta.LastIndex, 1) // 0 would not wait
	}
}
