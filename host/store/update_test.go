package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestUpdatesOfOneBatchAreIsolated(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	mustUpdate(t, s, func(tx *Tx) error { return tx.PutContainer(Container{ID: "c0", Owner: "taken"}) })
	errOwn := errors.New("own")
	put := func(id string, then func(tx *Tx) error) func(*Tx) error {
		return func(tx *Tx) error {
			if err := tx.PutContainer(Container{ID: id}); err != nil {
				return err
			}
			return then(tx)
		}
	}
	ok := func(*Tx) error { return nil }
	fns := []func(*Tx) error{
		put("ok1", ok),
		put("error", func(*Tx) error { return errOwn }),
		put("ok2", ok),
		put("panic", func(*Tx) error { panic(errOwn) }),
		put("owner", func(tx *Tx) error { return tx.PutContainer(Container{ID: "c9", Owner: "taken"}) }),
		put("exit", func(*Tx) error { runtime.Goexit(); return nil }),
		put("exists", func(tx *Tx) error {
			if err := tx.PutContainer(Container{ID: "c9", Owner: "taken"}); !errors.Is(err, ErrExists) {
				return fmt.Errorf("put: %v", err)
			}
			_, err := tx.ContainerByOwner("taken") // the transaction goes on
			return err
		}),
		put("overlooked", func(tx *Tx) error {
			_, _ = tx.exec("nothing", "", "INSERT INTO nothing VALUES (1)")
			return nil
		}),
		put("ok3", ok),
	}
	reqs := make([]*request, len(fns))
	for i := range reqs {
		reqs[i] = newRequest(Durability(i%2), false)
	}
	errs := inOneBatch(t, s, reqs, func(i int, tx *Tx) error { return fns[i](tx) })
	var p *PanicError
	for i, check := range []func(error) bool{
		0: func(err error) bool { return err == nil },
		1: func(err error) bool { return err == errOwn },
		2: func(err error) bool { return err == nil },
		3: func(err error) bool {
			return errors.As(err, &p) && errors.Is(err, errOwn) && strings.Contains(string(p.Stack), "update_test.go")
		},
		4: func(err error) bool { return errors.Is(err, ErrExists) },
		5: func(err error) bool { return err == errExited },
		6: func(err error) bool { return err == nil },
		7: func(err error) bool { return err != nil },
		8: func(err error) bool { return err == nil },
	} {
		if !check(errs[i]) {
			t.Errorf("update %d: %v", i, errs[i])
		}
	}
	want := []string{"c0", "exists", "ok1", "ok2", "ok3"}
	if got := containers(t, s); !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
}

func TestUpdateWithdrawsWhenItsContextEnds(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = s.Update(context.Background(), KillSafe, func(*Tx) error { close(entered); <-leave; return nil })
	})
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	late := make(chan error)
	go func() {
		late <- s.Update(ctx, KillSafe, func(tx *Tx) error { t.Error("ran"); return nil })
	}()
	cancel()
	if err := <-late; !errors.Is(err, context.Canceled) {
		t.Errorf("update: %v", err)
	}
	close(leave)
	wg.Wait()

	// Once it runs, it is stored, whatever becomes of ctx.
	ctx, cancel = context.WithCancel(t.Context())
	err := s.Update(ctx, PowerSafe, func(tx *Tx) error { cancel(); return tx.PutRun(Run{ID: "r1"}) })
	if err != nil {
		t.Errorf("update: %v", err)
	}
	mustView(t, s, func(tx *Tx) error { _, err := tx.Run("r1"); return err })
}

func TestManyGoroutinesFindOrCreate(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	var wg sync.WaitGroup
	var mu sync.Mutex
	made, ids := map[string]int{}, map[string]map[string]bool{}
	for g := range 100 {
		wg.Go(func() {
			for i := range 10 {
				owner := fmt.Sprintf("owner-%d", i)
				var id string
				var inserted bool
				err := s.Update(context.Background(), Durability(g%2), func(tx *Tx) error {
					id, inserted = fmt.Sprintf("c-%d-%d", g, i), true
					err := tx.PutContainer(Container{ID: id, Owner: owner})
					if !errors.Is(err, ErrExists) {
						return err
					}
					c, err := tx.ContainerByOwner(owner)
					id, inserted = c.ID, false
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				// What was answered is seen.
				err = s.View(context.Background(), func(tx *Tx) error { _, err := tx.Container(id); return err })
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if inserted {
					made[owner]++
				}
				if ids[owner] == nil {
					ids[owner] = map[string]bool{}
				}
				ids[owner][id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for owner, n := range made {
		if n != 1 || len(ids[owner]) != 1 {
			t.Errorf("%s was made %d times, callers have %v", owner, n, ids[owner])
		}
	}
	if len(made) != 10 {
		t.Errorf("%d owners", len(made))
	}
}

func TestViewIsASnapshot(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	mustUpdate(t, s, func(tx *Tx) error { return tx.PutRun(Run{ID: "r1", State: "running"}) })
	mustView(t, s, func(tx *Tx) error {
		if _, err := tx.Run("r1"); err != nil {
			return err
		}
		mustUpdate(t, s, func(tx *Tx) error {
			return errors.Join(tx.DeleteRun("r1"), tx.PutRun(Run{ID: "r2"}))
		})
		if _, err := tx.Run("r1"); err != nil {
			t.Errorf("r1 went: %v", err)
		}
		if _, err := tx.Run("r2"); !errors.Is(err, ErrNotFound) {
			t.Errorf("r2 came: %v", err)
		}
		return nil
	})
	mustView(t, s, func(tx *Tx) error {
		runs, err := tx.Runs(RunFilter{})
		if len(runs) != 1 || runs[0].ID != "r2" {
			t.Errorf("runs %v", runs)
		}
		return err
	})
}

func TestViewWaitsAndStopsWithItsContext(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{Readers: 1, Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustView(t, s, func(*Tx) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := s.View(ctx, func(*Tx) error { t.Error("ran"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("view: %v", err)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	err = s.View(ctx, func(tx *Tx) error {
		cancel()
		_, err := tx.Containers(ContainerFilter{})
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
	var kept *Tx
	mustView(t, s, func(tx *Tx) error { kept = tx; return nil })
	if _, err := kept.Run("r"); !errors.Is(err, ErrTxDone) {
		t.Errorf("kept transaction: %v", err)
	}
	mustUpdate(t, s, func(tx *Tx) error { kept = tx; return nil })
	if err := kept.PutRun(Run{ID: "r"}); !errors.Is(err, ErrTxDone) {
		t.Errorf("kept transaction: %v", err)
	}
}

// A directory that nobody reads after its program waits for no disk.
func TestTemporaryWaitsForNoDisk(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{Temporary: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, d := range []Durability{KillSafe, PowerSafe} {
		err := s.Update(t.Context(), d, func(tx *Tx) error {
			if got := synchronous(t, tx); got != 0 {
				t.Errorf("durability %d runs at level %d, want none", d, got)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// synchronous is how far SQLite waits for the disk.
func synchronous(t *testing.T, tx *Tx) (level int) {
	if err := tx.session.conn.QueryRowContext(context.Background(), "PRAGMA synchronous").Scan(&level); err != nil {
		t.Error(err)
	}
	return level
}

// What SQLite promises for a level is its own to test; that it is asked for the
// right one is ours. One careful update makes the whole batch careful.
func TestDurabilityAsksForTheDisk(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	const normal, full = 1, 2
	level := func(tx *Tx) int { return synchronous(t, tx) }
	for _, c := range []struct {
		d    Durability
		want int
	}{{KillSafe, normal}, {PowerSafe, full}, {PowerSafe, full}, {KillSafe, normal}} {
		err := s.Update(t.Context(), c.d, func(tx *Tx) error {
			if got := level(tx); got != c.want {
				t.Errorf("durability %d runs at level %d, want %d", c.d, got, c.want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	errs := inOneBatch(t, s, []*request{newRequest(KillSafe, false), newRequest(PowerSafe, false)}, func(i int, tx *Tx) error {
		if got := level(tx); got != full {
			t.Errorf("update %d of a mixed batch runs at level %d", i, got)
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// inOneBatch has all of reqs in the queue before the writer takes the first,
// runs fn for each when it has its turn, and returns what each was answered.
func inOneBatch(t *testing.T, s *Store, reqs []*request, fn func(i int, tx *Tx) error) []error {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.Update(context.Background(), KillSafe, func(*Tx) error { close(entered); <-leave; return nil })
		if err != nil {
			t.Errorf("the update that holds the writer: %v", err)
		}
	})
	<-entered
	for i, r := range reqs {
		if err := s.queue.add(r); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { r.call(<-r.turn, func(tx *Tx) error { return fn(i, tx) }) })
	}
	close(leave)
	wg.Wait()
	errs := make([]error, len(reqs))
	for i, r := range reqs {
		errs[i] = <-r.done
	}
	return errs
}

// TestCommitted: what was to be done with a transaction's end is done before its Update returns, once, in order, and only if it was stored.
func TestCommitted(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	fail := errors.New("fail")
	var done []int
	reqs := make([]*request, 6)
	for i := range reqs {
		reqs[i] = newRequest(KillSafe, i%2 == 0)
	}
	errs := inOneBatch(t, s, reqs, func(i int, tx *Tx) error {
		tx.Committed(func() { done = append(done, 10*i) })
		tx.Committed(func() { done = append(done, 10*i+1) })
		if err := tx.PutContainer(Container{ID: fmt.Sprintf("c%d", i)}); err != nil || i == 2 {
			return errors.Join(err, fail)
		}
		if i == 3 {
			panic(fail)
		}
		return nil
	})
	if !errors.Is(errs[2], fail) || !errors.Is(errs[3], fail) {
		t.Errorf("%v", errs)
	}
	if want := []int{0, 1, 10, 11, 40, 41, 50, 51}; !slices.Equal(done, want) {
		t.Errorf("done %v, want %v", done, want)
	}
}
