package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/host/stream"
)

// fillerEnv makes the test binary a program that fills a target until its stdin ends.
const fillerEnv = "SLIPWAY_TEST_FILLER"

func filler(target string) {
	err := stream.ReplaceDir(context.Background(), target, true, func(_ context.Context, dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "x"), []byte("half"), 0o600); err != nil {
			return err
		}
		fmt.Println(dir)
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// startFiller gives the directory that is being filled.
func startFiller(t *testing.T, target string) (cmd *exec.Cmd, temp string, finish func()) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fillerEnv+"="+target)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return cmd, filepath.Dir(strings.TrimSpace(line)), func() {
		must(t, in.Close())
		must(t, cmd.Wait())
	}
}

// What a killed program left is removed by the next one for that target: not what is still being filled, nor what is another target's.
func TestReplaceSweeps(t *testing.T) {
	long := strings.Repeat("é", 120)
	for _, name := range []string{"out", "out-1", long} {
		t.Run(name[:2], func(t *testing.T) {
			parent := tempDir(t)
			target := filepath.Join(parent, name)
			dead, left, _ := startFiller(t, target)
			must(t, dead.Process.Kill())
			if err := dead.Wait(); err == nil {
				t.Fatal("it was not killed")
			}
			if base := filepath.Base(left); !strings.HasPrefix(base, ".slipway-"+name[:3]) {
				t.Errorf("%q is not named after %q", base, name)
			}
			wantThere(t, left)

			_, filled, finish := startFiller(t, target) // which sweeps too
			wantGone(t, left)
			others := filepath.Join(parent, ".slipway-"+name[:3]+"-x-ABCDEFGHIJKLMNOPQRSTUVWXYZ")
			must(t, os.Mkdir(others, 0o700))
			rescued := filepath.Join(parent, strings.Replace(filepath.Base(filled), filepath.Base(filled)[len(filepath.Base(filled))-26:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 1))
			full(t, filepath.Join(rescued, "old"))
			must(t, stream.ReplaceDir(t.Context(), target, true, fill(t, "new")))
			wantContent(t, target, "new")
			wantThere(t, filled)
			wantThere(t, others)
			wantContent(t, filepath.Join(rescued, "old"), "old") // maybe the only copy
			must(t, os.RemoveAll(filepath.Join(rescued, "old")))
			finish()
			wantContent(t, target, "half")
			must(t, stream.ReplaceDir(t.Context(), target, true, fill(t, "new")))
			wantGone(t, rescued)
			wantOnly(t, parent, filepath.Base(others), name)
		})
	}
}

func wantThere(t *testing.T, path string) {
	t.Helper()
	_, err := os.Lstat(path)
	must(t, err)
}

func wantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", path, err)
	}
}
