package store

import (
	"strings"
	"testing"
	"time"
)

// What the reaper and a host's start ask for reads no more rows than it wants, however many records there are of what is over. The plans do
// not depend on what the tables hold.
func TestQueryPlans(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	at := time.Now()
	mustView(t, s, func(tx *Tx) error {
		for _, c := range []struct {
			list string
			w    where
			want string // the first step
		}{
			{s.schema.containers.list, ContainerFilter{Worker: "w", States: []string{"creating", "ready", "destroying"}}.where(), "containers_worker (worker=? AND state=?)"},
			{s.schema.containers.list, ContainerFilter{Worker: "w", States: []string{"destroying"}}.where(), "containers_worker (worker=? AND state=?)"},
			{s.schema.containers.list, ContainerFilter{States: []string{"creating", "ready"}}.where(), "containers_state (state=?)"},
			{s.schema.containers.list, ContainerFilter{States: []string{"destroyed", "lost"}, UpdatedBefore: at}.where(), "containers_state (state=? AND updated_at<?)"},
			{s.schema.containers.list, ContainerFilter{OwnerPrefix: "run/r/"}.where(), "containers_owner (owner>? AND owner<?)"},
			{s.schema.processes.list, ProcessFilter{Worker: "w", States: []string{"starting", "running"}}.where(), "processes_state (state=?)"},
			{s.schema.processes.list, ProcessFilter{Container: "c", States: []string{"starting", "running"}}.where(), "processes_container (container=?)"},
			{s.schema.volumes.list, VolumeFilter{Worker: "w"}.where(), "volumes_worker (worker=?)"},
			{s.schema.volumes.list, VolumeFilter{Worker: "w", States: []string{"destroying"}}.where(), "volumes_worker (worker=? AND state=?)"},
			{s.schema.volumes.list, VolumeFilter{Container: "c"}.where(), "volumes_container (container=?)"},
			{s.schema.volumes.list, VolumeFilter{Container: "c", States: []string{"destroying"}}.where(), "volumes_container (container=?)"},
			{s.schema.volumes.list, VolumeFilter{Artifact: "a", States: []string{"sealed"}}.where(), "volumes_artifact (artifact=?"},
			{s.schema.volumes.list, VolumeFilter{Worker: "w", Artifact: "a", States: []string{"sealed"}}.where(), "volumes_artifact (artifact=? AND worker=? AND state=?)"},
			{s.schema.volumes.list, VolumeFilter{Parent: "v"}.where(), "volumes_parent (parent=?)"},
			{s.schema.volumes.list, VolumeFilter{Parent: "v", Worker: "w"}.where(), "volumes_parent (parent=?)"},
			{s.schema.artifacts.list, ArtifactFilter{OwnerPrefix: "run/r/"}.where(), "artifacts_owner (owner>? AND owner<?)"},
			{s.schema.artifacts.list, ArtifactFilter{Key: "k"}.where(), "artifacts_key (key=?)"},
			{s.schema.runs.list, RunFilter{States: []string{"going", "ending"}}.where(), "runs_state (state=?)"},
			{s.schema.steps.list, StepFilter{OwnerPrefix: "run/r/"}.where(), "PRIMARY KEY (id>? AND id<?)"},
			{s.schema.runs.list, RunFilter{States: []string{"ended"}, EndedBefore: at}.where(), "runs_state (state=? AND ended_at<?)"},
		} {
			rows, err := tx.session.conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+c.list+c.w.String()+" ORDER BY id", c.w.args...)
			if err != nil {
				return err
			}
			var plan []string
			for rows.Next() {
				var id, parent, unused int
				var step string
				if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
					return err
				}
				plan = append(plan, step)
			}
			if err := rows.Err(); err != nil {
				return err
			}
			if err := rows.Close(); err != nil {
				return err
			}
			if all := strings.Join(plan, "; "); !strings.Contains(plan[0], c.want) || strings.Contains(all, "SCAN") {
				t.Errorf("%s%s:\n  %s\n  want %s", c.list, c.w, all, c.want)
			}
		}
		return nil
	})
}
