//go:build linux

package nomadtest

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// archive writes what is below root, of root's user whoever owns it here, then /tmp and the files.
func archive(w io.Writer, root string, files map[string]string, at time.Time) error {
	out := tar.NewWriter(w)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name = strings.TrimPrefix(path, root+"/")
		h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime = 0, 0, "", "", at
		if err := out.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, f)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, ModTime: at}); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: 0o644, Size: int64(len(files[name])), ModTime: at}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.WriteString(out, files[name]); err != nil {
			return err
		}
	}
	return out.Close()
}
