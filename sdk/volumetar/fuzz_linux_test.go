package volumetar

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// FuzzUnpack takes any bytes for an archive. Nothing beside the tree may change, and what was taken must come out again.
func FuzzUnpack(f *testing.F) {
	canary := "/no/such/canary"
	f.Add(archive(f, folder("d"), reg("d/f", "text"), sym("l", "../canary"), hard("h", "d/f"), reg("l/x", "y")))
	f.Add(archive(f, sym("l", canary), folder("l"), reg("l/f", "text")))
	f.Add(archive(f, hard("h", "../canary"), reg("h", "x")))
	zooDir := f.TempDir()
	must(f, os.WriteFile(filepath.Join(zooDir, "holes"), []byte("x"), 0o600))
	must(f, os.Truncate(filepath.Join(zooDir, "holes"), 1<<20))
	f.Add(pack(f, open(f, zooDir, Options{}), ""))
	f.Fuzz(func(t *testing.T, data []byte) {
		above := t.TempDir()
		dir := filepath.Join(above, "tree")
		must(t, os.Mkdir(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(above, "canary"), []byte("sings"), 0o640))
		look := func() map[string]look {
			all := lookAt(t, above)
			for name := range all {
				if name != "canary" {
					delete(all, name)
				}
			}
			return all
		}
		before := look()
		r := open(t, dir, Options{DropOwners: true, NoDevices: true, MaxBytes: 16 << 20, MaxEntries: 1000})
		r.byHand = len(data)%2 == 0
		err := unpack(r, data, "")
		sameTree(t, look(), before)
		names, listErr := os.ReadDir(above)
		must(t, listErr)
		if len(names) != 2 {
			t.Fatalf("beside the tree there are now %v", names)
		}
		if err != nil {
			if class := sdk.ClassOf(err); class != sdk.Invalid && class != sdk.Unsupported && class != sdk.Exhausted {
				t.Fatalf("%s: %v", class, err)
			}
			return
		}
		var b bytes.Buffer
		if err := r.Pack(t.Context(), "", io.Writer(&b)); err != nil {
			t.Fatal(err)
		}
	})
}
