//go:build linux

package onrunc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/runc/engine"
	"github.com/slipway-run/slipway/sdk"
)

// limited is a container that was asked to have 64 MiB, and has the shim's overhead besides.
func limited(initMode bool) setting {
	return setting{initMode: initMode, spec: func(s *engine.Spec) { s.MemoryBytes = (64 + 32) << 20 }}
}

// hog takes memory until there is no more, once it is told to.
const hog = `while ! [ -e /tmp/go ]; do sleep 0.02; done; exec awk 'BEGIN { s = "0123456789abcdef"; while (1) s = s s }'`

// filler takes memory that is no process's first, so that it is not the largest one in the end.
const filler = `while ! [ -e /tmp/go ]; do sleep 0.02; done; cat /dev/zero >/dev/shm/filler; ` + hog

func TestCrashOutOfMemory(t *testing.T) {
	for name, initMode := range map[string]bool{"process 1": false, "first exec": true} {
		t.Run(name, func(t *testing.T) {
			if initMode {
				testkit.Soak(t, "the kernel does the same where the keeper is not process 1")
			}
			b := newBox(t, limited(initMode))
			info, err := b.Ready(t.Context(), b.id)
			b.check(err)
			b.check(os.WriteFile(filepath.Join(b.root, "tmp/go"), nil, 0o644))
			b.check(b.StartProcess(t.Context(), b.id, counted("bystander", "echo still; read x </tmp/end; echo here; exit 3")))
			for i := range testkit.Times(1, 5) {
				id := newID("hog", i)
				b.check(b.StartProcess(t.Context(), b.id, counted(id, "echo before; "+hog)))
				s := newStory(0)
				b.check(b.FollowProcess(t.Context(), b.id, id, 0, s.follow()))
				reason := sdk.ExitSignalled
				if slices.Contains(info.Features, sdk.FeatureExitOOM) {
					reason = sdk.ExitOOM
				}
				if s.exit.Reason != reason || s.exit.Signal != sdk.KILL || s.exit.Code != 137 || s.stdout() != "before\n" {
					t.Errorf("%+v, %q", *s.exit, s.stdout())
				}
			}
			t.Log(info.Features)
			if p, err := b.listed(t.Context(), "bystander"); err != nil || p.State == sdk.ProcessAbandoned {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// TestCrashKeeperOutOfMemory has the kernel choose the supervisor when memory runs out.
func TestCrashKeeperOutOfMemory(t *testing.T) {
	for name, initMode := range map[string]bool{"process 1": false, "first exec": true} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, limited(initMode))
			b.check(b.StartProcess(t.Context(), b.id, counted("said", "echo kept; exit 5")))
			testkit.Until(t, "it has ended", func() bool {
				p, err := b.listed(t.Context(), "said")
				return err == nil && p.State == sdk.ProcessExited
			})
			b.check(b.StartProcess(t.Context(), b.id, counted("hog", "echo before; "+filler)))
			b.check(b.journalled(t.Context(), "hog", "before\n"))
			keeper := b.keeper()
			b.check(os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", keeper), []byte("1000"), 0))
			b.check(os.WriteFile(filepath.Join(b.root, "tmp/go"), nil, 0o644))
			testkit.Until(t, "the supervisor is gone", func() bool {
				stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", keeper))
				return err != nil || strings.Contains(string(stat), ") Z ")
			})
			testkit.Until(t, "all commands are gone", func() bool { return len(b.commands()) == 0 })
			readers := map[string]reader{"records": b.throughRecords(t.Context())}
			if initMode {
				readers["relay"] = b.throughDriver(t.Context())
			}
			for name, r := range readers {
				all, err := r.list()
				if err != nil || len(all) != 2 {
					t.Errorf("%s: %+v, %v", name, all, err)
				}
				for _, p := range all {
					if p.ID == "said" && (p.Exit == nil || p.Exit.Code != 5) || p.ID == "hog" && p.State != sdk.ProcessAbandoned {
						t.Errorf("%s: %+v", name, p)
					}
				}
				s := newStory(0)
				if err := r.follow("hog", s); !errors.Is(err, sdk.ReasonAbandoned) || s.exit != nil || s.stdout() != "before\n" {
					t.Errorf("%s: %v, %q, %+v", name, err, s.stdout(), s.exit)
				}
			}
			b.ranOnce(2)
		})
	}
}
