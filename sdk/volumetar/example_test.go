//go:build linux

package volumetar_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/volumetar"
)

// volumes are the volumes of a plugin: directories below one.
type volumes struct{ dir string }

func (v volumes) open(id sdk.VolumeID) (*volumetar.Root, error) {
	r, err := volumetar.Open(filepath.Join(v.dir, string(id)), volumetar.Options{DropOwners: os.Geteuid() != 0})
	if os.IsNotExist(err) {
		return nil, sdk.NewNotFound(sdk.KindVolume, string(id))
	}
	return r, err
}

// StreamIn is that of sdk.Worker; a real one refuses sealed volumes and decodes in.Encoding.
func (v volumes) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	root, err := v.open(id)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Unpack(ctx, in.Path, r)
}

// StreamOut is that of sdk.Worker.
func (v volumes) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, w io.Writer) error {
	root, err := v.open(id)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Pack(ctx, out.Path, w)
}

// A plugin whose volumes are directories streams between two of them, and reads a file.
func Example() {
	dir, err := os.MkdirTemp("", "volumes")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, id := range []string{"first", "second"} {
		if err := os.Mkdir(filepath.Join(dir, id), 0o755); err != nil {
			log.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "first", "greeting"), []byte("ahoy\n"), 0o644); err != nil {
		log.Fatal(err)
	}

	ctx, v := context.Background(), volumes{dir}
	var archive bytes.Buffer
	if err := v.StreamOut(ctx, "first", sdk.StreamOut{}, &archive); err != nil {
		log.Fatal(err)
	}
	if err := v.StreamIn(ctx, "second", sdk.StreamIn{Path: "from/first"}, &archive); err != nil {
		log.Fatal(err)
	}
	root, err := v.open("second")
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	if err := root.ReadFile(ctx, "from/first/greeting", 0, -1, os.Stdout); err != nil {
		log.Fatal(err)
	}
	_, err = v.open("third")
	fmt.Println(err)
	// Output:
	// ahoy
	// volume "third" not found
}
