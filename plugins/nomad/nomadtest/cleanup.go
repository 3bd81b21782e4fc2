//go:build linux

package nomadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
)

const dirPrefix = "slipway-nomad-"

// cleanUp ends what the agent has been asked to run, then the agent, and takes away what is left. It fails the test if anything stays.
func (a *Agent) cleanUp(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), max(testkit.Bound(t), cleanLimit))
	defer cancel()
	s := &site{dir: a.dir}
	if err := s.survey(); err != nil {
		t.Errorf("nomadtest: %v", err)
	}
	if t.Failed() && a.proc != nil {
		t.Logf("nomadtest: the agent said last:\n%s", a.proc.log.tail(failureLines))
		if a.docker != nil {
			t.Logf("nomadtest: its Docker said last:\n%s", a.docker.daemon.log.tail(failureLines))
		}
	}
	if a.proc != nil && a.proc.running() {
		if err := a.purge(ctx); err != nil {
			t.Logf("nomadtest: its jobs are ended by force: %v", err)
		}
		if err := a.quit(ctx); err != nil {
			t.Logf("nomadtest: the agent is killed: %v", err)
			a.Kill()
		}
	}
	if a.docker != nil {
		if err := a.docker.stop(ctx); err != nil {
			t.Logf("nomadtest: Docker is killed: %v", err)
		}
	}
	if a.transport != nil {
		a.transport.CloseIdleConnections()
	}
	if err := s.clear(ctx); err != nil {
		t.Errorf("nomadtest: clean-up: %v", err)
	}
	found, err := s.left()
	if err != nil {
		t.Errorf("nomadtest: what is left: %v", err)
	}
	for _, f := range found {
		t.Errorf("nomadtest: left behind: %s", f)
	}
	a.lock.Close()
	a.letPorts()
}

func (a *Agent) quit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return a.Stop(ctx)
}

// purge takes all jobs back and waits until their tasks have ended.
func (a *Agent) purge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	everywhere := &api.QueryOptions{Namespace: api.AllNamespacesNamespace}
	jobs, _, err := a.client.Jobs().List(everywhere.WithContext(ctx))
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		return nil
	}
	for _, j := range jobs {
		if _, _, err := a.client.Jobs().Deregister(j.ID, true, (&api.WriteOptions{Namespace: j.Namespace}).WithContext(ctx)); err != nil {
			return fmt.Errorf("job %s: %w", j.ID, err)
		}
	}
	return watch(ctx, func(q *api.QueryOptions) (*api.QueryMeta, bool, error) {
		q.Namespace = api.AllNamespacesNamespace
		allocs, meta, err := a.client.Allocations().List(q)
		for _, l := range allocs {
			switch l.ClientStatus {
			case api.AllocClientStatusPending, api.AllocClientStatusRunning, api.AllocClientStatusUnknown:
				return meta, false, err
			}
		}
		return meta, true, err
	})
}

// sweep clears the directories of test binaries that are gone: nobody holds their locks.
func sweep(ctx context.Context) error {
	// One without a configuration is being made, and not locked yet.
	confs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*", "agent.json"))
	var errs []error
	for _, conf := range confs {
		dir := filepath.Dir(conf)
		lock, err := tryLock(dir)
		if err != nil {
			continue // in use, another user's, or gone
		}
		if dir, err = filepath.EvalSymlinks(dir); err == nil {
			err = (&site{dir: dir}).clear(ctx)
		}
		errs = append(errs, err, lock.Close())
	}
	return errors.Join(append(errs, err)...)
}

// tryLock locks an agent's directory, for as long as the file is open.
func tryLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
