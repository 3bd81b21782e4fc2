package main

import (
	"path/filepath"
	"testing"

	"github.com/slipway-run/slipway/host/api"
	"github.com/slipway-run/slipway/host/store"
)

// A command waits for a daemon that has the state directory and does not answer yet, or no more; for another command's it does not.
func TestDaemonThatBegins(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := filepath.Join(p.work, "state")
	s, err := store.Open(t.Context(), dir, store.Options{})
	p.must(err)
	p.run("workers", "--state", "state").wants(codeInternal).says("in use by process")
	p.must(s.Close())

	s, err = store.Open(t.Context(), dir, store.Options{Daemon: true})
	p.must(err)
	waits := p.start("workers", "--state", "state")
	waits.await("waiting for the daemon of")
	waits.await("which is starting or ending")
	p.must(s.Close())
	waits.wait().wants(0).shows("memory") // on a host of its own

	s, err = store.Open(t.Context(), dir, store.Options{Daemon: true})
	p.must(err)
	defer s.Close()
	waits = p.start("workers", "--state", "state")
	waits.await("which is starting or ending")
	other := newPlace(t).serve()
	withdraw, err := api.Announce(dir, "unix://"+other.socket) // as the one that has the directory would
	p.must(err)
	waits.wait().wants(0).shows("memory")
	p.must(withdraw())
	other.stop()
}
