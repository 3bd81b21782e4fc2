//go:build linux

package gardentest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// unpack makes the files of a tar of this package's own below a directory.
func unpack(dir string, content []byte) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(filepath.Clean(h.Name), 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, h.Name)
		default:
			err = writeFile(root, h, r)
		}
		if err != nil {
			return err
		}
	}
}

func writeFile(root *os.Root, h *tar.Header, from io.Reader) error {
	f, err := root.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(h.Mode).Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
