//go:build linux

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// places are a container's files before anything runs there: its root, and the volumes that are to be mounted, each below where the
// container will see it. Paths in them lead as they will in the container, and never out of these trees, whatever their links say.
type places struct {
	trees []place // the root first
}

type place struct {
	at    string // where the container sees it, absolute and clean
	files *os.Root
	fixed bool // nothing is made there: it is sealed, or mounted read-only
}

// maxHops is how many links of a path are followed, as Linux does.
const maxHops = 40

func newPlaces(root string) (*places, error) {
	files, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	return &places{trees: []place{{at: "/", files: files}}}, nil
}

func (p *places) close() {
	for _, t := range p.trees {
		t.files.Close()
	}
}

// mount puts the files of a directory where find has led to. Whatever was mounted there or below before is hidden.
func (p *places) mount(dir, at string, fixed bool) error {
	files, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	p.trees = append(p.trees, place{at, files, fixed})
	return nil
}

// of gives the tree that a path is in, and the path there.
func (p *places) of(at string) (place, string) {
	found := p.trees[0]
	for _, t := range p.trees[1:] {
		if at == t.at || strings.HasPrefix(at, t.at+"/") {
			if len(t.at) >= len(found.at) {
				found = t
			}
		}
	}
	below := strings.TrimPrefix(strings.TrimPrefix(at, found.at), "/")
	if below == "" {
		below = "."
	}
	return found, below
}

// find gives where a directory is, free of links, and makes it where missing. The error says what is in the way.
func (p *places) find(dir string) (string, error) {
	at, left := "/", strings.Split(dir, "/")
	for hops := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, name)
		t, below := p.of(next)
		info, err := t.files.Lstat(below)
		switch {
		case errors.Is(err, fs.ErrNotExist) && t.fixed:
			return "", fmt.Errorf("%s is missing, and cannot be made in a volume that is sealed or mounted read-only", next)
		case errors.Is(err, fs.ErrNotExist):
			if err := makeDir(t.files, below); err != nil {
				return "", err
			}
		case err != nil:
			return "", err
		case info.Mode().Type() == fs.ModeSymlink:
			if hops++; hops > maxHops {
				return "", fmt.Errorf("links at %s lead in a circle", next)
			}
			target, err := t.files.Readlink(below)
			if err != nil {
				return "", err
			}
			if path.IsAbs(target) {
				at = "/"
			}
			left = append(strings.Split(target, "/"), left...)
			continue
		case !info.IsDir():
			return "", fmt.Errorf("%s is no directory", next)
		}
		at = next
	}
	return at, nil
}

func makeDir(files *os.Root, name string) error {
	err := files.Mkdir(name, 0o755)
	if err == nil {
		err = files.Chmod(name, 0o755) // whatever the umask
	}
	return err
}

// isDiskError tells errors of a disk from what is wrong with a path.
func isDiskError(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EIO) || errors.Is(err, unix.EROFS)
}
