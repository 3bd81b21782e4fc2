package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// schema has the tables; it is built once per Store and never changed.
type schema struct {
	containers *table[Container]
	processes  *table[Process]
	volumes    *table[Volume]
	artifacts  *table[Artifact]
	runs       *table[Run]
	steps      *table[Step]
	looks      *table[Look]
	workers    *table[Worker]
}

func newSchema() *schema {
	return &schema{
		containers: newTable("container", "containers",
			"id, worker, owner, team, token, state, spec, reason, created_at, updated_at", (*Container).fields),
		processes: newTable("process", "processes",
			`id, container, token, state, spec, "exit", reason, started_at, ended_at, timeout, deadline, timed_out`, (*Process).fields),
		volumes: newTable("volume", "volumes",
			"id, worker, token, state, container, artifact, parent, path, role, bytes, created_at, doomed_at", (*Volume).fields),
		artifacts: newTable("artifact", "artifacts",
			`id, name, owner, created_at, expires_at, team, "key", source, blob, bytes, ttl, used_at, invalid_at`, (*Artifact).fields),
		runs: newTable("run", "runs",
			"id, job, state, result, created_at, ended_at, active_at", (*Run).fields),
		steps: newTable("step", "steps", "id, result", (*Step).fields),
		looks: newTable("look", "looks", "id, at, seen", (*Look).fields),
		workers: newTable("worker", "workers",
			"id, container_incarnation, volume_incarnation, orders, reason, ordered_at, settings", (*Worker).fields),
	}
}

const byID = " WHERE id = ?"

// Container is a row of a container.
type Container struct {
	ID     string
	Worker string
	// Owner is held by at most one row; empty is no owner, and any number may
	// have that. A row that is on its way out may give its owner up.
	Owner     string
	Team      string
	Token     string
	State     string
	Spec      []byte // JSON
	Reason    string // why it is in this state, for people
	CreatedAt time.Time
	UpdatedAt time.Time
}

func (c *Container) fields() []any {
	return []any{&c.ID, &c.Worker, &c.Owner, &c.Team, &c.Token, &c.State, &c.Spec, &c.Reason,
		(*stamp)(&c.CreatedAt), (*stamp)(&c.UpdatedAt)}
}

// ContainerFilter selects containers; a zero field selects all.
type ContainerFilter struct {
	Worker      string
	Team        string
	OwnerPrefix string
	States      []string // any of these

	UpdatedBefore time.Time
}

// PutContainer answers ErrExists if another row has the owner: of several
// callers that claim one, the first succeeds, and the others find its row with
// ContainerByOwner in the same transaction.
func (tx *Tx) PutContainer(c Container) error { return write(tx, tx.schema.containers, c) }

func (tx *Tx) Container(id string) (Container, error) {
	return get(tx, tx.schema.containers, byID, id)
}

// ContainerByOwner answers ErrNotFound for the empty owner.
func (tx *Tx) ContainerByOwner(owner string) (Container, error) {
	return get(tx, tx.schema.containers, " WHERE owner = ? AND owner <> ''", owner)
}

func (tx *Tx) DeleteContainer(id string) error { return remove(tx, tx.schema.containers, id) }

func (tx *Tx) Containers(f ContainerFilter) ([]Container, error) {
	return list(tx, tx.schema.containers, f.where())
}

func (f ContainerFilter) where() (w where) {
	w.equal("worker", f.Worker)
	w.equal("team", f.Team)
	w.prefix("owner", f.OwnerPrefix)
	w.in("state", f.States)
	w.before("updated_at", f.UpdatedBefore)
	return w
}

// Process is a row of a process.
type Process struct {
	ID        string
	Container string
	Token     string
	State     string
	Spec      []byte // JSON, and never the environment
	Exit      []byte // JSON; empty until it is known
	Reason    string // why it is in this state, for people
	StartedAt time.Time
	EndedAt   time.Time

	Timeout  time.Duration // how long it may run; zero: for ever
	Deadline time.Time     // when that ends, on the wall clock; zero: it has no timeout, or is not known to run yet
	TimedOut bool          // it was told to end since that had passed
}

func (p *Process) fields() []any {
	return []any{&p.ID, &p.Container, &p.Token, &p.State, &p.Spec, &p.Exit, &p.Reason,
		(*stamp)(&p.StartedAt), (*stamp)(&p.EndedAt), (*int64)(&p.Timeout), (*stamp)(&p.Deadline), &p.TimedOut}
}

// ProcessFilter selects processes; a zero field selects all.
type ProcessFilter struct {
	Container string
	Worker    string   // that of its container's row
	States    []string // any of these
}

func (tx *Tx) PutProcess(p Process) error {
	return write(tx, tx.schema.processes, p)
}

func (tx *Tx) Process(id string) (Process, error) { return get(tx, tx.schema.processes, byID, id) }

func (tx *Tx) DeleteProcess(id string) error { return remove(tx, tx.schema.processes, id) }

// ProcessIDs lists the ids of all processes, sorted, without reading the rest of their rows.
func (tx *Tx) ProcessIDs() (ids []string, err error) {
	if err := tx.usable(false); err != nil {
		return nil, err
	}
	rows, err := tx.session.conn.QueryContext(context.Background(), "SELECT id FROM processes ORDER BY id")
	if err != nil {
		return nil, tx.fail("process", "", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := errors.Join(tx.usable(false), rows.Scan(&id)); err != nil {
			return nil, tx.fail("process", "", err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return nil, tx.fail("process", "", err)
	}
	return ids, nil
}

func (tx *Tx) Processes(f ProcessFilter) ([]Process, error) {
	return list(tx, tx.schema.processes, f.where())
}

func (f ProcessFilter) where() (w where) {
	w.equal("container", f.Container)
	w.in("state", f.States)
	if f.Worker != "" {
		w.add("EXISTS (SELECT 1 FROM containers WHERE containers.id = container AND worker = ?)", f.Worker)
	}
	return w
}

// Volume is a row of a volume.
type Volume struct {
	ID        string
	Worker    string
	Token     string
	State     string
	Container string // id of the container that it belongs to, or ""
	Artifact  string // id of the artifact whose content it has, or ""
	Parent    string // id of the volume that it is a clone of, or ""
	Path      string // where its container mounts it, or ""
	Role      string
	Bytes     int64
	CreatedAt time.Time
	DoomedAt  time.Time // since when it is to be destroyed; zero: it is not
}

func (v *Volume) fields() []any {
	return []any{&v.ID, &v.Worker, &v.Token, &v.State, &v.Container, &v.Artifact, &v.Parent, &v.Path, &v.Role, &v.Bytes,
		(*stamp)(&v.CreatedAt), (*stamp)(&v.DoomedAt)}
}

// VolumeFilter selects volumes; a zero field selects all.
type VolumeFilter struct {
	Worker    string
	Container string
	Artifact  string
	Parent    string
	Role      string
	States    []string // any of these
}

func (tx *Tx) PutVolume(v Volume) error {
	return write(tx, tx.schema.volumes, v)
}

func (tx *Tx) Volume(id string) (Volume, error) { return get(tx, tx.schema.volumes, byID, id) }

func (tx *Tx) DeleteVolume(id string) error { return remove(tx, tx.schema.volumes, id) }

func (tx *Tx) Volumes(f VolumeFilter) ([]Volume, error) {
	return list(tx, tx.schema.volumes, f.where())
}

func (f VolumeFilter) where() (w where) {
	w.equal("worker", f.Worker)
	w.equal("container", f.Container)
	w.equal("artifact", f.Artifact)
	w.equal("parent", f.Parent)
	w.equal("role", f.Role)
	w.in("state", f.States)
	return w
}

// Artifact is a row of an artifact; the volumes with its content point to it.
type Artifact struct {
	ID        string
	Name      string // held by at most one row; any number may have none
	Owner     string
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	Team      string    // whose it is, or ""
	Key       string    // of a cache: what it is found by, also with other rows of the same key; or ""
	Source    string    // what it was made of, for people
	Blob      string    // checksum of its content in the blob directory, or "" where none is
	Bytes     int64     // of that content
	TTL       time.Duration
	UsedAt    time.Time
	InvalidAt time.Time // of a cache: since when it is not what its key stands for; zero: it still is
}

func (a *Artifact) fields() []any {
	return []any{&a.ID, &a.Name, &a.Owner, (*stamp)(&a.CreatedAt), (*stamp)(&a.ExpiresAt), &a.Team, &a.Key, &a.Source, &a.Blob, &a.Bytes,
		(*int64)(&a.TTL), (*stamp)(&a.UsedAt), (*stamp)(&a.InvalidAt)}
}

// ArtifactFilter selects artifacts; a zero field selects all.
type ArtifactFilter struct {
	OwnerPrefix   string
	Key           string
	Blobs         bool      // those whose content is in the blob directory
	ExpiresBefore time.Time // those that expire, and before this
}

// PutArtifact answers ErrExists if another row has the name.
func (tx *Tx) PutArtifact(a Artifact) error {
	return write(tx, tx.schema.artifacts, a)
}

func (tx *Tx) Artifact(id string) (Artifact, error) { return get(tx, tx.schema.artifacts, byID, id) }

// ArtifactByName answers ErrNotFound for the empty name.
func (tx *Tx) ArtifactByName(name string) (Artifact, error) {
	return get(tx, tx.schema.artifacts, " WHERE name = ? AND name <> ''", name)
}

func (tx *Tx) DeleteArtifact(id string) error { return remove(tx, tx.schema.artifacts, id) }

func (tx *Tx) Artifacts(f ArtifactFilter) ([]Artifact, error) {
	return list(tx, tx.schema.artifacts, f.where())
}

func (f ArtifactFilter) where() (w where) {
	w.prefix("owner", f.OwnerPrefix)
	w.equal(`"key"`, f.Key)
	if f.Blobs {
		w.add("blob <> ''")
	}
	w.before("expires_at", f.ExpiresBefore)
	return w
}

// Run is a row of a run of a job.
type Run struct {
	ID        string
	Job       []byte // JSON
	State     string
	Result    []byte // JSON; what it came to once its steps have ended, until then what is known of that, or nothing
	CreatedAt time.Time
	EndedAt   time.Time // zero: it has not ended
	ActiveAt  time.Time // when it was last known to be under way; zero: only when it was made
}

func (r *Run) fields() []any {
	return []any{&r.ID, &r.Job, &r.State, &r.Result, (*stamp)(&r.CreatedAt), (*stamp)(&r.EndedAt), (*stamp)(&r.ActiveAt)}
}

// RunFilter selects runs; a zero field selects all.
type RunFilter struct {
	States      []string  // any of these
	EndedBefore time.Time // those that have ended, and before this
}

func (tx *Tx) PutRun(r Run) error { return write(tx, tx.schema.runs, r) }

func (tx *Tx) Run(id string) (Run, error) { return get(tx, tx.schema.runs, byID, id) }

func (tx *Tx) DeleteRun(id string) error { return remove(tx, tx.schema.runs, id) }

func (tx *Tx) Runs(f RunFilter) ([]Run, error) {
	return list(tx, tx.schema.runs, f.where())
}

func (f RunFilter) where() (w where) {
	w.in("state", f.States)
	w.before("ended_at", f.EndedBefore)
	return w
}

// Step is a row of what a step of a run has come to, while the run goes on.
type Step struct {
	ID     string // its owner
	Result []byte // JSON
}

func (s *Step) fields() []any { return []any{&s.ID, &s.Result} }

// StepFilter selects steps; a zero field selects all.
type StepFilter struct {
	OwnerPrefix string
}

func (tx *Tx) PutStep(s Step) error { return write(tx, tx.schema.steps, s) }

func (tx *Tx) Step(id string) (Step, error) { return get(tx, tx.schema.steps, byID, id) }

// DeleteSteps removes all that the filter selects; it has to select by something.
func (tx *Tx) DeleteSteps(f StepFilter) error {
	if f == (StepFilter{}) {
		return fmt.Errorf("steps: %w", errNoFilter)
	}
	w := f.where()
	_, err := tx.exec("steps", f.OwnerPrefix, tx.schema.steps.delete+w.String(), w.args...)
	return err
}

func (tx *Tx) Steps(f StepFilter) ([]Step, error) {
	return list(tx, tx.schema.steps, f.where())
}

func (f StepFilter) where() (w where) {
	w.prefix("id", f.OwnerPrefix)
	return w
}
