//go:build linux

package gardentest

import (
	"os"
	"path/filepath"
	"testing"

	"code.cloudfoundry.org/garden"
)

func TestHoudini(t *testing.T) {
	var root string
	t.Run("test", func(t *testing.T) {
		h := StartHoudini(t)
		root = h.Root
		c, err := dial(t, h.Garden).Create(garden.ContainerSpec{Handle: "smoke", RootFSPath: "raw://" + h.Root})
		if err != nil {
			t.Fatal(err)
		}
		sh(t, c, "[ -e /proc/self/mounts ] && echo mounted >/made") // what a quick process prints may get lost: Houdini does not wait for who asks for it
		if text, err := os.ReadFile(filepath.Join(h.Root, "made")); err != nil || string(text) != "mounted\n" {
			t.Errorf("outside: %q, %v", text, err)
		}
		if inside, err := os.ReadDir(filepath.Join(h.Root, "proc")); err != nil || len(inside) > 0 {
			t.Errorf("what is mounted for the container shows outside: %v, %v", inside, err)
		}
	})
	if _, err := os.Stat(root); root == "" || !os.IsNotExist(err) {
		t.Errorf("left: %q, %v", root, err)
	}
	if _, err := os.Stat("/dev/null"); err != nil {
		t.Error(err)
	}
}
