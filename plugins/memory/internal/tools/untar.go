package tools

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/slipway-run/slipway/internal/filemode"
)

func (a *archiving) read(names []string) error {
	r := io.Reader(a.in)
	if a.file != "" && a.file != "-" {
		f, err := a.open(a.file)
		if err != nil {
			return errors.New(a.file + ": Cannot open: " + reason(err))
		}
		defer f.Close()
		r = f
	}
	b := bufio.NewReaderSize(r, 64<<10)
	head, _ := b.Peek(4)
	unpacked := io.Reader(b)
	switch {
	case isGzip(head):
		z, err := gzip.NewReader(b)
		if err != nil {
			return err
		}
		unpacked = z
	case string(head) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return err
		}
		defer z.Close()
		unpacked = z
	}
	if a.dir != "" && !a.isDir(a.dir, false) {
		a.die(2, "%s: Cannot open: No such file or directory", a.dir)
	}
	found := make([]bool, len(names))
	for tr := tar.NewReader(unpacked); ; {
		a.check()
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return errors.New("this does not look like a tar archive: " + err.Error())
		}
		if !a.wanted(h.Name, names, found) || a.excluded(h.Name) {
			continue
		}
		if err := a.entry(tr, h); err != nil {
			a.complain("%s: %s", h.Name, reason(err))
			a.status = 2
		}
	}
	for i := len(a.times) - 1; i >= 0; i-- {
		a.FS.Chtimes(a.Dir, a.times[i].name, a.times[i].at)
	}
	for i, name := range names {
		if !found[i] {
			a.complain("%s: Not found in archive", name)
			a.status = 2
		}
	}
	return nil
}

func (a *archiving) wanted(name string, names []string, found []bool) bool {
	if len(names) == 0 {
		return true
	}
	plain := strings.TrimSuffix(name, "/")
	hit := false
	for i, want := range names {
		want = strings.TrimSuffix(want, "/")
		if plain == want || strings.HasPrefix(plain, want+"/") {
			found[i], hit = true, true
		}
	}
	return hit
}

// entry lists or unpacks one entry.
func (a *archiving) entry(tr *tar.Reader, h *tar.Header) error {
	if a.mode == 't' {
		if !a.verbose {
			a.printf("%s\n", h.Name)
			return nil
		}
		target := ""
		switch h.Typeflag {
		case tar.TypeSymlink:
			target = " -> " + h.Linkname
		case tar.TypeLink:
			target = " link to " + h.Linkname
		}
		a.printf("%s %s/%s %9d %s %s%s\n", modeString(h.FileInfo().Mode()), ownerName(uint32(h.Uid)), ownerName(uint32(h.Gid)), h.Size, h.ModTime.In(a.zone()).Format("2006-01-02 15:04"), h.Name, target)
		return nil
	}
	name, ok := stripped(h.Name, a.strip)
	if !ok {
		return nil
	}
	if slices.Contains(strings.Split(name, "/"), "..") {
		return errors.New("the name contains '..'")
	}
	if a.stdout {
		if h.Typeflag == tar.TypeReg {
			_, err := io.Copy(a.out, tr)
			return err
		}
		return nil
	}
	if a.verbose {
		a.printf("%s\n", h.Name)
	}
	return a.unpack(tr, h, a.at(name))
}

// stripped takes leading parts off a name. What has no more of them is left out.
func stripped(name string, n int) (string, bool) {
	name = strings.TrimLeft(name, "/")
	if n == 0 {
		return name, name != ""
	}
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' })
	if len(parts) <= n {
		return "", false
	}
	return strings.Join(parts[n:], "/"), true
}

func (a *archiving) unpack(tr *tar.Reader, h *tar.Header, to string) error {
	if err := a.FS.MkdirAll(a.Dir, parent(strings.TrimSuffix(to, "/")), 0o777&^a.Umask); err != nil {
		return err
	}
	mode := filemode.FromPOSIX(uint32(h.Mode & 0o7777)) // as root does, without the umask
	if h.Typeflag == tar.TypeDir {
		if err := a.FS.Mkdir(a.Dir, to, 0o700); err != nil && !a.isDir(to, false) {
			return err
		}
		a.FS.Chown(a.Dir, to, h.Uid, h.Gid)
		a.FS.Chmod(a.Dir, to, mode)
		if !a.noTime {
			a.times = append(a.times, struct {
				name string
				at   time.Time
			}{to, h.ModTime})
		}
		return nil
	}
	if err := a.FS.Remove(a.Dir, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		if err := a.FS.Symlink(a.Dir, h.Linkname, to); err != nil {
			return err
		}
		return a.FS.Lchown(a.Dir, to, h.Uid, h.Gid)
	case tar.TypeLink:
		first, ok := stripped(h.Linkname, a.strip)
		if !ok {
			return errors.New("cannot link to " + h.Linkname)
		}
		return a.FS.Link(a.Dir, a.at(first), to)
	case tar.TypeReg, tar.TypeGNUSparse:
	default:
		return errors.New("only files, directories and links can be unpacked")
	}
	w, err := a.FS.Open(a.Dir, to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(onlyWriter{w}, onlyReader{source{a.tool, tr}}, make([]byte, 64<<10))
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := a.FS.Chown(a.Dir, to, h.Uid, h.Gid); err != nil {
		return err
	}
	if err := a.FS.Chmod(a.Dir, to, mode); err != nil || a.noTime {
		return err
	}
	return a.FS.Chtimes(a.Dir, to, h.ModTime)
}
