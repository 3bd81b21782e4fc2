//go:build linux

package onrunc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// ticker goes on for ever, and is not harmed by the signal of endsSoon.
const ticker = `trap '' USR1; i=0; while ! [ -e /tmp/end ]; do i=$((i+1)); echo $i; sleep 0.05; done; exit 3`

// TestCrashPauses stops parts of the shim, or all of the container, for longer than a driver waits.
func TestCrashPauses(t *testing.T) {
	t.Parallel() // it mostly waits
	stop := func(pick func(b *box) int) func(*box) func() {
		return func(b *box) func() {
			pid := pick(b)
			b.check(unix.Kill(pid, unix.SIGSTOP))
			return func() { b.check(unix.Kill(pid, unix.SIGCONT)) }
		}
	}
	// Whether a driver is answered meanwhile.
	answered := map[string]bool{"a monitor": true, "the relay": true}
	for name, pause := range map[string]func(*box) (resume func()){
		"the supervisor": stop((*box).keeper),
		"a monitor":      stop(func(b *box) int { return b.monitors()[0].pid }),
		"the relay":      stop(func(b *box) int { return b.find("relay")[0].pid }),
		"the container": func(b *box) func() {
			file, on, off := filepath.Join(b.cgroup("freezer"), "freezer.state"), "FROZEN", "THAWED"
			if _, err := os.Stat(file); err != nil {
				file, on, off = filepath.Join(b.cgroup(""), "cgroup.freeze"), "1", "0"
			}
			b.check(os.WriteFile(file, []byte(on), 0))
			return func() { b.check(os.WriteFile(file, []byte(off), 0)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "a monitor" {
				testkit.Soak(t, "pauses longer than every time of the driver")
			}
			t.Parallel()
			m := setting{}
			if !answered[name] {
				m.options.HelloTimeout = 10 * time.Second // that a new relay says nothing, either, is waited for
			}
			b := newBox(t, m)
			b.check(b.StartProcess(t.Context(), b.id, counted("ticker", ticker)))
			ctx := testkit.Context(t)
			s := newStory(0)
			followed := make(chan error, 1)
			go func() { followed <- b.FollowProcess(ctx, b.id, "ticker", 0, s.follow()) }()
			select {
			case <-s.opened:
			case err := <-followed:
				t.Fatal(err)
			}
			at := func() sdk.Position { s.mu.Lock(); defer s.mu.Unlock(); return s.next }
			testkit.Until(t, "it is followed", func() bool { return at() > 0 && len(b.monitors()) == 1 })
			resume := pause(b)
			list := func(h host) error {
				_, err := h.ListProcesses(ctx, b.id)
				return err
			}
			if answered[name] {
				h := b.patient()
				if err := list(h); err != nil {
					t.Errorf("another driver: %v", err)
				}
				if err := list(host{b.Driver, b.id}); err != nil {
					t.Errorf("the same driver: %v", err)
				}
				if err := h.SignalProcess(t.Context(), b.id, "ticker", sdk.Signal("USR1")); err != nil {
					t.Errorf("signal: %v", err)
				}
				before := at()
				testkit.Until(t, "it goes on", func() bool { return at() > before })
				resume()
			} else {
				if err := <-followed; !errors.Is(err, sdk.Unavailable) {
					t.Errorf("follow: %v", err)
				}
				b.endsSoon("ticker", sdk.Unavailable)
				resume()
				go func() { followed <- (host{b.Driver, b.id}).follow(ctx, "ticker", s) }()
				before := at()
				testkit.Until(t, "it goes on", func() bool { return at() > before })
			}
			b.check(os.WriteFile(filepath.Join(b.root, "tmp/end"), nil, 0o644))
			if err := <-followed; err != nil {
				t.Fatal(err)
			}
			// numbers counts as it did, without a hole.
			n := 0
			for _, c := range s.stdout() {
				if c == '\n' {
					n++
				}
			}
			if err := s.is(numbers(n), "", 3); err != nil {
				t.Error(err)
			}
			for id, times := range b.runs() {
				if times != 1 {
					t.Errorf("%q ran %d times", id, times)
				}
			}
		})
	}
}
