package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// kind has the methods of Tx for one kind of row, so that one test holds all.
type kind[T any] struct {
	put  func(*Tx, T) error
	get  func(*Tx, string) (T, error)
	del  func(*Tx, string) error
	list func(*Tx) ([]T, error)
}

func TestRowsComeBackAsTheyWere(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	t.Run("container", func(t *testing.T) {
		testKind(t, s, kind[Container]{(*Tx).PutContainer, (*Tx).Container, (*Tx).DeleteContainer,
			func(tx *Tx) ([]Container, error) { return tx.Containers(ContainerFilter{}) }})
	})
	t.Run("process", func(t *testing.T) {
		testKind(t, s, kind[Process]{(*Tx).PutProcess, (*Tx).Process, (*Tx).DeleteProcess,
			func(tx *Tx) ([]Process, error) { return tx.Processes(ProcessFilter{}) }})
	})
	t.Run("volume", func(t *testing.T) {
		testKind(t, s, kind[Volume]{(*Tx).PutVolume, (*Tx).Volume, (*Tx).DeleteVolume,
			func(tx *Tx) ([]Volume, error) { return tx.Volumes(VolumeFilter{}) }})
	})
	t.Run("artifact", func(t *testing.T) {
		testKind(t, s, kind[Artifact]{(*Tx).PutArtifact, (*Tx).Artifact, (*Tx).DeleteArtifact,
			func(tx *Tx) ([]Artifact, error) { return tx.Artifacts(ArtifactFilter{}) }})
	})
	t.Run("run", func(t *testing.T) {
		testKind(t, s, kind[Run]{(*Tx).PutRun, (*Tx).Run, (*Tx).DeleteRun,
			func(tx *Tx) ([]Run, error) { return tx.Runs(RunFilter{}) }})
	})
	t.Run("step", func(t *testing.T) {
		testKind(t, s, kind[Step]{(*Tx).PutStep, (*Tx).Step, func(tx *Tx, id string) error { return tx.DeleteSteps(StepFilter{OwnerPrefix: id}) },
			func(tx *Tx) ([]Step, error) { return tx.Steps(StepFilter{}) }})
	})
	t.Run("look", func(t *testing.T) {
		testKind(t, s, kind[Look]{(*Tx).PutLook, (*Tx).Look, (*Tx).DeleteLook, (*Tx).Looks})
	})
}

// testKind compares with a map, over random rows.
func testKind[T any](t *testing.T, s *Store, k kind[T]) {
	ids := []string{"a", "b", "c", "d"}
	model := map[string]T{}
	rapid.Check(t, func(rt *rapid.T) {
		id := rapid.SampledFrom(ids).Draw(rt, "id")
		row := drawRow[T](rt, id)
		err := s.Update(context.Background(), KillSafe, func(tx *Tx) error {
			if rapid.IntRange(0, 3).Draw(rt, "delete") == 0 {
				delete(model, id)
				return k.del(tx, id)
			}
			model[id] = row
			return k.put(tx, row)
		})
		if err != nil {
			rt.Fatal(err)
		}
		err = s.View(context.Background(), func(tx *Tx) error {
			var want []T
			for _, id := range ids {
				m, ok := model[id]
				if ok {
					want = append(want, m)
				}
				got, err := k.get(tx, id)
				if ok != (err == nil) || (!ok && !errors.Is(err, ErrNotFound)) {
					rt.Fatalf("%s: %v", id, err)
				}
				if diff := cmp.Diff(m, got); diff != "" {
					rt.Fatal(diff)
				}
			}
			all, err := k.list(tx)
			if diff := cmp.Diff(want, all); diff != "" {
				rt.Fatal(diff)
			}
			return err
		})
		if err != nil {
			rt.Fatal(err)
		}
		err = s.Update(context.Background(), KillSafe, func(tx *Tx) error { return k.put(tx, drawRow[T](rt, "")) })
		if err == nil {
			rt.Fatal("a row without an id was stored")
		}
	})
}

// drawRow fills every field, so that a field added without a column is found out.
func drawRow[T any](rt *rapid.T, id string) T {
	var row T
	v := reflect.ValueOf(&row).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch p := v.Field(i).Addr().Interface().(type) {
		case *string:
			*p = rapid.String().Draw(rt, name)
			if name == "Owner" || name == "Name" { // unique
				*p = rapid.SampledFrom([]string{"", "of " + id}).Draw(rt, name)
			}
		case *int64:
			*p = rapid.Int64().Draw(rt, name)
		case *bool:
			*p = rapid.Bool().Draw(rt, name)
		case *time.Duration:
			*p = time.Duration(rapid.Int64().Draw(rt, name))
		case *[]byte:
			if b := rapid.SliceOf(rapid.Byte()).Draw(rt, name); len(b) > 0 {
				*p = b
			}
		case *time.Time:
			if n := rapid.Int64().Draw(rt, name); n != 0 {
				*p = time.Unix(0, n).UTC()
			}
		default:
			rt.Fatalf("field %s of %T: no rule for %T", name, row, p)
		}
	}
	v.FieldByName("ID").SetString(id)
	return row
}

func TestOwnersAndNamesAreHeldByOne(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	mustUpdate(t, s, func(tx *Tx) error {
		return errors.Join(
			tx.PutContainer(Container{ID: "c1", Owner: "o"}),
			tx.PutContainer(Container{ID: "c2"}),
			tx.PutContainer(Container{ID: "c3"}), // no owner any number of times
			tx.PutArtifact(Artifact{ID: "a1", Name: "n"}),
			tx.PutArtifact(Artifact{ID: "a2"}),
			tx.PutArtifact(Artifact{ID: "a3"}),
		)
	})
	for name, fn := range map[string]func(*Tx) error{
		"put the owner": func(tx *Tx) error { return tx.PutContainer(Container{ID: "c4", Owner: "o"}) },
		"put the name":  func(tx *Tx) error { return tx.PutArtifact(Artifact{ID: "a4", Name: "n"}) },
	} {
		if err := s.Update(t.Context(), KillSafe, fn); !errors.Is(err, ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustUpdate(t, s, func(tx *Tx) error {
		c, err := tx.ContainerByOwner("o")
		if err != nil || c.ID != "c1" {
			t.Errorf("owner o has %q, %v", c.ID, err)
		}
		a, err := tx.ArtifactByName("n")
		if err != nil || a.ID != "a1" {
			t.Errorf("name n has %q, %v", a.ID, err)
		}
		for _, key := range []string{"", "none"} {
			_, err1 := tx.ContainerByOwner(key)
			_, err2 := tx.ArtifactByName(key)
			if !errors.Is(err1, ErrNotFound) || !errors.Is(err2, ErrNotFound) {
				t.Errorf("key %q: %v, %v", key, err1, err2)
			}
		}
		// The row gives its owner up; another takes it.
		return errors.Join(tx.PutContainer(Container{ID: "c1"}), tx.PutContainer(Container{ID: "c4", Owner: "o"}))
	})
}

func TestFilters(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	at := func(h int) time.Time { return time.Unix(0, 0).Add(time.Duration(h) * time.Hour) }
	mustUpdate(t, s, func(tx *Tx) error {
		return errors.Join(
			tx.PutContainer(Container{ID: "c1", Worker: "w1", Team: "t1", Owner: "run/1/a", State: "creating", UpdatedAt: at(1)}),
			tx.PutContainer(Container{ID: "c2", Worker: "w1", Team: "t2", Owner: "run/1/b", State: "created"}),
			tx.PutContainer(Container{ID: "c3", Worker: "w2", Team: "t1", Owner: "run/10/a", State: "created"}),
			tx.PutContainer(Container{ID: "c4", Worker: "w2", Team: "t1", Owner: "Run/1/%", State: "destroying"}),
			tx.PutContainer(Container{ID: "c5", Worker: "w2", Owner: "\xff\xff", State: "created"}),
			tx.PutContainer(Container{ID: "c6", Worker: "w3", State: "failed", UpdatedAt: at(2)}),
			tx.PutProcess(Process{ID: "p1", Container: "c1", State: "running"}),
			tx.PutProcess(Process{ID: "p2", Container: "c1", State: "exited"}),
			tx.PutProcess(Process{ID: "p3", Container: "c3", State: "running"}),
			tx.PutProcess(Process{ID: "p4", Container: "gone", State: "running"}),
			tx.PutVolume(Volume{ID: "v1", Worker: "w1", Container: "c1", State: "open", Role: "output"}),
			tx.PutVolume(Volume{ID: "v2", Worker: "w1", Artifact: "a1", State: "sealed", Role: "artifact"}),
			tx.PutVolume(Volume{ID: "v3", Worker: "w2", Parent: "v2", Container: "c1", State: "open", Role: "input"}),
			tx.PutArtifact(Artifact{ID: "a1", Owner: "run/1/a", ExpiresAt: at(1), Key: "k"}),
			tx.PutArtifact(Artifact{ID: "a2", Owner: "run/1/b", ExpiresAt: at(2)}),
			tx.PutArtifact(Artifact{ID: "a3", Owner: "run/2/b", Key: "k", Blob: "sum"}),
			tx.PutRun(Run{ID: "r1", State: "running"}),
			tx.PutRun(Run{ID: "r2", State: "done", EndedAt: at(1)}),
			tx.PutRun(Run{ID: "r3", State: "failed", EndedAt: at(2)}),
		)
	})
	for _, c := range []struct {
		filter any
		want   string
	}{
		{ContainerFilter{}, "c1 c2 c3 c4 c5 c6"},
		{ContainerFilter{Worker: "w1"}, "c1 c2"},
		{ContainerFilter{Worker: "w1", Team: "t2"}, "c2"},
		{ContainerFilter{Team: "t1"}, "c1 c3 c4"},
		{ContainerFilter{OwnerPrefix: "run/1/"}, "c1 c2"},
		{ContainerFilter{OwnerPrefix: "run/1"}, "c1 c2 c3"},
		{ContainerFilter{OwnerPrefix: "%"}, ""},
		{ContainerFilter{OwnerPrefix: "\xff"}, "c5"},
		{ContainerFilter{States: []string{"created"}}, "c2 c3 c5"},
		{ContainerFilter{States: []string{"created", "creating"}, Worker: "w1"}, "c1 c2"},
		{ContainerFilter{States: []string{"none"}}, ""},
		{ContainerFilter{UpdatedBefore: at(2)}, "c1"},
		{ContainerFilter{UpdatedBefore: at(3), States: []string{"failed"}}, "c6"},
		{ProcessFilter{}, "p1 p2 p3 p4"},
		{ProcessFilter{Container: "c1"}, "p1 p2"},
		{ProcessFilter{Worker: "w1"}, "p1 p2"},
		{ProcessFilter{Worker: "w2", States: []string{"running"}}, "p3"},
		{ProcessFilter{States: []string{"running"}}, "p1 p3 p4"},
		{VolumeFilter{}, "v1 v2 v3"},
		{VolumeFilter{Worker: "w1"}, "v1 v2"},
		{VolumeFilter{Container: "c1"}, "v1 v3"},
		{VolumeFilter{Artifact: "a1"}, "v2"},
		{VolumeFilter{Parent: "v2"}, "v3"},
		{VolumeFilter{Role: "input"}, "v3"},
		{VolumeFilter{States: []string{"open"}, Worker: "w1"}, "v1"},
		{ArtifactFilter{}, "a1 a2 a3"},
		{ArtifactFilter{OwnerPrefix: "run/1/"}, "a1 a2"},
		{ArtifactFilter{ExpiresBefore: at(2)}, "a1"},
		{ArtifactFilter{Key: "k"}, "a1 a3"},
		{ArtifactFilter{Key: "K"}, ""},
		{ArtifactFilter{Blobs: true}, "a3"},
		{ArtifactFilter{ExpiresBefore: at(9)}, "a1 a2"},
		{RunFilter{}, "r1 r2 r3"},
		{RunFilter{States: []string{"done", "failed"}}, "r2 r3"},
		{RunFilter{EndedBefore: at(2)}, "r2"},
		{RunFilter{EndedBefore: at(3)}, "r2 r3"},
	} {
		t.Run(fmt.Sprintf("%T%+v", c.filter, c.filter), func(t *testing.T) {
			mustView(t, s, func(tx *Tx) error {
				ids, err := find(tx, c.filter)
				if got := strings.Join(ids, " "); got != c.want {
					t.Errorf("found %q, want %q", got, c.want)
				}
				return err
			})
		})
	}
}

func find(tx *Tx, filter any) ([]string, error) {
	switch f := filter.(type) {
	case ContainerFilter:
		return idsOf(tx.Containers(f))
	case ProcessFilter:
		return idsOf(tx.Processes(f))
	case VolumeFilter:
		return idsOf(tx.Volumes(f))
	case ArtifactFilter:
		return idsOf(tx.Artifacts(f))
	case RunFilter:
		return idsOf(tx.Runs(f))
	}
	return nil, fmt.Errorf("no such filter: %T", filter)
}

func idsOf[T any](rows []T, err error) (ids []string, _ error) {
	for _, r := range rows {
		ids = append(ids, reflect.ValueOf(r).FieldByName("ID").String())
	}
	return ids, err
}

// Every single filter must be answered from an index, not by reading the table.
func TestFiltersUseIndexes(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	state := []string{"x", "y"}
	now := time.Now()
	for table, conds := range map[string][]func(*where){
		"containers": {
			func(w *where) { w.equal("worker", "x") }, func(w *where) { w.equal("team", "x") },
			func(w *where) { w.prefix("owner", "x") }, func(w *where) { w.in("state", state) },
			func(w *where) { w.equal("owner", "x") },
		},
		"processes": {func(w *where) { w.equal("container", "x") }, func(w *where) { w.in("state", state) }},
		"volumes": {
			func(w *where) { w.equal("worker", "x") }, func(w *where) { w.equal("container", "x") },
			func(w *where) { w.equal("artifact", "x") }, func(w *where) { w.equal("parent", "x") },
			func(w *where) { w.equal("role", "x") }, func(w *where) { w.in("state", state) },
		},
		"artifacts": {func(w *where) { w.prefix("owner", "x") }, func(w *where) { w.before("expires_at", now) }, func(w *where) { w.equal("name", "x") }},
		"runs":      {func(w *where) { w.in("state", state) }, func(w *where) { w.before("ended_at", now) }},
	} {
		for _, cond := range conds {
			var w where
			cond(&w)
			mustView(t, s, func(tx *Tx) error {
				rows, err := tx.session.conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN SELECT * FROM "+table+w.String(), w.args...)
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					var a, b, c int
					var plan string
					if err := rows.Scan(&a, &b, &c, &plan); err != nil {
						return err
					}
					if !strings.Contains(plan, "USING INDEX") {
						t.Errorf("%s%s: %s", table, w.String(), plan)
					}
				}
				return rows.Err()
			})
		}
	}
}

// The steps of one run go together, those of others stay, and a filter that forgot to say whose is refused.
func TestDeleteSteps(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	err := s.Update(t.Context(), KillSafe, func(tx *Tx) error {
		var errs []error
		for _, id := range []string{"run/1/a", "run/1/b", "run/10/a", "run/2/a"} {
			errs = append(errs, tx.PutStep(Step{ID: id, Result: []byte("{}")}))
		}
		if err := tx.DeleteSteps(StepFilter{}); !errors.Is(err, errNoFilter) {
			t.Errorf("without a filter: %v", err)
		}
		return errors.Join(append(errs, tx.DeleteSteps(StepFilter{OwnerPrefix: "run/1/"}))...)
	})
	if err != nil {
		t.Fatal(err)
	}
	mustView(t, s, func(tx *Tx) error {
		rows, err := tx.Steps(StepFilter{})
		if len(rows) != 2 || rows[0].ID != "run/10/a" || rows[1].ID != "run/2/a" {
			t.Errorf("left: %v", rows)
		}
		return err
	})
}
