//go:build linux

package nomadtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Replace does what a new data directory does: the agent ends, and one that knows nothing takes its place, as another node. Tasks of before go on, and are nobody's.
func (a *Agent) Replace(ctx context.Context) error {
	if a.dev || a.docker != nil || a.role != working {
		return errors.New("only a client of StartCluster can be replaced, without Options.Docker")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.proc.kill()
	data := filepath.Join(a.dir, "data")
	if err := os.Rename(data, data+"-of-"+a.node); err != nil {
		return err
	}
	a.node = ""
	a.transport.CloseIdleConnections() // those of the agent that is gone
	return a.launch(ctx)
}

// Reboot does what a machine's reboot does: the agent and all its tasks end at once, and only the agent is started again. What is named of the agent's
// directory, such as data/alloc, is lost with it, as what was kept in memory or on a disk of the machine's own is.
func (a *Agent) Reboot(ctx context.Context, lost ...string) error {
	if a.dev || a.docker != nil {
		return errors.New("an agent with Options.Dev or Options.Docker cannot be rebooted")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.proc.kill()
	s := &site{dir: a.dir}
	if err := errors.Join(s.survey(), s.kill(ctx), s.unmount(), s.removeGroups()); err != nil {
		return err
	}
	for _, name := range lost {
		if err := os.RemoveAll(filepath.Join(a.dir, name)); err != nil {
			return err
		}
	}
	a.transport.CloseIdleConnections() // those of the agent that is gone
	return a.launch(ctx)
}
