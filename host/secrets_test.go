package host

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// words collects what is said, from many goroutines.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// filesWith lists the files below a directory that have a text, by their names or in their bytes.
func filesWith(t testing.TB, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) || strings.Contains(path, text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSecretsAreNowhere: what is secret in a step's environment, a container's or a plugin's gets to where it is meant to go, and is in no file of the state directory, no line of the log
// and no error, though the plugin is killed under a start, another start fails, and the host ends under a process.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	secrets := []string{"hunter2-of-a-step", "hunter2-of-a-container", "hunter2-of-a-plugin"}
	dir, world, said := newStateDir(t), startWorld(t, "m", 0), &words{}
	cfg := worldConfig(memoryPlugin(t), world.socket, "m")
	cfg.Plugins[0].Env = map[string]string{"TOKEN": secrets[2]}
	var h *Host
	var kills atomic.Int64
	open := func() {
		t.Helper()
		var err error
		h, err = Open(t.Context(), cfg, Options{StateDir: dir, Launch: restless(), manual: true, Log: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug})), fault: func(at string) {
			if at == "start-sent" && kills.Add(1) == 1 {
				if err := killNow(h); err != nil {
					t.Error(err)
				}
			}
		}})
		if err == nil {
			err = h.Ready(testkit.Context(t))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	nowhere := func(when string) {
		t.Helper()
		for _, secret := range secrets {
			if found := filesWith(t, dir, secret); len(found) > 0 {
				t.Errorf("%s: %q is in %q", when, secret, found)
			}
		}
	}
	open()
	if found := filesWith(t, dir, "memory"); len(found) == 0 { // else the search itself finds nothing
		t.Error("not even the name of the plugin is in the state directory")
	}
	res, err := h.Run(testkit.Context(t), RunRequest{ID: "r", Events: func(e Event) {
		if _, err := said.Write([]byte(e.Message)); err != nil {
			t.Error(err)
		}
		if e.Kind == EventStarted {
			nowhere("while a step runs")
		}
	}, Job: parseJob(t, `
job "j" {
  step "has-it" {
    env = { SECRET = "`+secrets[0]+`" }
    run {
      path = "sh"
      args = ["-c", "echo $${#SECRET}; test $${#SECRET} = 17"]
    }
  }
  step "cannot-start" {
    env = { SECRET = "`+secrets[0]+`" }
    run { path = "no-such-program" }
  }
}`)})
	if err != nil || states(res) != "has-it=succeeded cannot-start=errored" || kills.Load() < 2 {
		t.Errorf("%s, %v, after %d starts", states(res), err, kills.Load())
	}
	for _, s := range res.Steps {
		if s.Err != nil {
			_, _ = said.Write([]byte(s.Err.Error()))
		}
	}
	c, err := h.Container(testkit.Context(t), "owner", ContainerRequest{Env: []string{"SECRET=" + secrets[1]}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(testkit.Context(t), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo ${#SECRET}; sleep 100000"}})
	if err != nil {
		t.Fatal(err)
	}
	awaitText(t, p, "22\n")
	nowhere("while a process runs")
	closeTestHost(t, h)
	nowhere("after the first host")
	open()
	if err := h.RemoveContainer(testkit.Context(t), "owner"); err != nil {
		t.Error(err)
	}
	closeTestHost(t, h)
	nowhere("after the second host")
	if i := slices.IndexFunc(secrets, func(s string) bool { return strings.Contains(said.String(), s) }); i >= 0 {
		t.Errorf("%q was said", secrets[i])
	}
}
