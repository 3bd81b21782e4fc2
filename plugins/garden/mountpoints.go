package garden

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// tree is the names of a root file system, and how they lead on. Names are relative and clean; the root is "".
type tree map[string]node

type node struct {
	kind kind
	link string // of a symbolic one
}

type kind uint8

const (
	isDir kind = iota + 1
	isLink
	isOther
)

// trees keeps those of sealed volumes, which never change.
type trees struct {
	mu    sync.Mutex
	of    map[string]tree
	bytes int
}

// maxTreeBytes bounds what is kept, by a reckoning of what names take: a large image has a hundred thousand, which are some fifteen MiB. Beyond it all but the newest are
// forgotten, and read again on demand.
const maxTreeBytes = 32 << 20

func (t *trees) get(key string) (tree, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.of[key]
	return found, ok
}

func (t *trees) put(key string, read tree) {
	t.mu.Lock()
	defer t.mu.Unlock()
	size := read.bytes()
	if t.of == nil || t.bytes+size > maxTreeBytes {
		t.of, t.bytes = make(map[string]tree), 0
	}
	t.of[key], t.bytes = read, t.bytes+size
}

// bytes is about what a tree takes in memory.
func (t tree) bytes() (n int) {
	const each = 100 // of the map, the node and the headers of strings
	for name, node := range t {
		n += each + len(name) + len(node.link)
	}
	return n
}

// makeMountPoints makes the directories at which a strict server mounts, in the root's own clone. It writes nothing through a link: the server that
// unpacks would follow it, out of the volume.
func (w *worker) makeMountPoints(ctx context.Context, spec sdk.ContainerSpec, own owned) error {
	if own.root.handle == "" {
		return nil // the server's image plugin sees to it
	}
	t, err := w.treeOf(ctx, own.root)
	if err != nil {
		return err
	}
	points := []string{binPath, scratchPath}
	if w.config.Certs != "" {
		points = append(points, certsPath)
	}
	for _, m := range spec.Mounts {
		points = append(points, m.Path)
	}
	missing, bad := t.missing(points)
	if bad != "" {
		return sdk.NewInvalid(sdk.ReasonPath, "container %q: nothing can be mounted at %q: in the image a part of that path is no directory, or its links lead in a circle", spec.ID, bad)
	}
	for _, point := range serverPoints() {
		more, bad := t.missing([]string{point})
		if bad != "" {
			continue // what is there in another form is between the image and the server
		}
		for _, name := range more {
			if !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return w.store.Put(ctx, own.root.handle, own.root.below, directories(missing))
}

// unmakeable finds a mount inside another one that is read-only and lacks its place: no server can make it there.
func (w *worker) unmakeable(ctx context.Context, mounts []sdk.Mount) (at string, found bool, err error) {
	for _, m := range mounts {
		var outer sdk.Mount // the innermost around it
		for _, o := range mounts {
			if strings.HasPrefix(m.Path, o.Path+"/") && len(o.Path) > len(outer.Path) {
				outer = o
			}
		}
		if !outer.ReadOnly {
			continue
		}
		there, err := w.store.IsDir(ctx, string(outer.Volume), strings.TrimPrefix(m.Path, outer.Path+"/"))
		if err != nil || !there {
			return m.Path, err == nil, err
		}
	}
	return "", false, nil
}

// serverPoints are where servers mount what is theirs, whatever a container asks for: the kernel's file systems, and their own program (guardian's
// /tmp/garden-init, Concourse's /tmp/gdn-init) and files of names (/etc/hosts, /etc/resolv.conf). The files a server makes itself, in a directory that is there.
func serverPoints() []string { return []string{"/proc", "/sys", "/dev", "/tmp", "/etc"} }

// directories makes an archive of directories that are not there yet.
func directories(names []string) io.Reader {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, name := range names {
		h := tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}
		if name == "tmp" {
			h.Mode = 0o1777 // what processes find has to be of use to them, too
		}
		_ = tw.WriteHeader(&h) // a bytes.Buffer takes all
	}
	_ = tw.Close()
	return &b
}

// treeOf gives the names of a root. Of many containers that are made of one image at once, one reads them.
func (w *worker) treeOf(ctx context.Context, r root) (tree, error) {
	unlock, err := w.locks.Lock(ctx, "tree of "+r.tree)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if t, ok := w.trees.get(r.tree); ok {
		return t, nil
	}
	t, err := w.readTree(ctx, r)
	if err == nil {
		w.trees.put(r.tree, t)
	}
	return t, err
}

// readTree reads the names of a root. All of it has to be read, once for an image: that a name is not there is only known at the end.
func (w *worker) readTree(ctx context.Context, r root) (tree, error) {
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := w.store.Out(ctx, r.handle, r.below, pw)
		pw.CloseWithError(err)
		done <- err
	}()
	t, err := parseTree(pr)
	pr.CloseWithError(io.ErrClosedPipe)
	if streamed := <-done; streamed != nil && !errors.Is(streamed, io.ErrClosedPipe) {
		return nil, streamed
	}
	return t, err
}

func parseTree(archive io.Reader) (tree, error) {
	t := tree{"": {kind: isDir}}
	tr := tar.NewReader(archive)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			_, err := io.Copy(io.Discard, archive)
			return t, err
		}
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		switch {
		case name == "":
		case h.Typeflag == tar.TypeDir:
			t[name] = node{kind: isDir}
		case h.Typeflag == tar.TypeSymlink:
			t[name] = node{kind: isLink, link: h.Linkname}
		default:
			t[name] = node{kind: isOther}
		}
	}
}

// missing tells which directories have to be made so that all points are there, outer ones first and free of links. Bad is a point that cannot be.
func (t tree) missing(points []string) (missing []string, bad string) {
	made := make(map[string]bool)
	points = slices.Clone(points)
	slices.Sort(points)
	var below []string // points that are there or will be: what lies below one is made in what is mounted, not here
	for _, point := range points {
		if slices.ContainsFunc(below, func(outer string) bool { return strings.HasPrefix(point, outer+"/") }) {
			// A point in a mounted volume: the server makes it there, or the volume has it.
			continue
		}
		below = append(below, point)
		at, left := "", strings.Split(strings.TrimPrefix(point, "/"), "/")
		for hops := 0; len(left) > 0; {
			name := left[0]
			left = left[1:]
			switch name {
			case "", ".":
				continue
			case "..":
				if at = path.Dir(at); at == "." {
					at = ""
				}
				continue
			}
			next := path.Join(at, name)
			n, there := t[next]
			switch {
			case !there && !made[next]:
				made[next] = true
				missing = append(missing, next)
				at = next
			case !there || n.kind == isDir:
				at = next
			case n.kind == isLink && hops < maxHops:
				hops++
				left = append(strings.Split(n.link, "/"), left...)
				if path.IsAbs(n.link) {
					at = "" // of the container's root
				}
			default:
				return nil, point
			}
		}
	}
	return missing, ""
}

// maxHops is how many links of a path are followed, as Linux does.
const maxHops = 40
