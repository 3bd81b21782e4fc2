package claim

import (
	"path"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// The server follows symbolic links in paths, and so does tar when it unpacks below one that is there already: both as root of the server.
// So before a path is used, and while an archive passes, this package looks whether a link is in the way. It has to know the links of the
// volume for that, and reads the volume's headers where it does not.

// links are the symbolic links of one volume, by path. They are shared and never changed; nil is not known.
type links struct {
	at   map[string]link
	size int // about, in bytes
}

type link struct {
	target   string
	uid, gid int
	mtime    int64 // seconds of 1970
}

const (
	maxLinks     = 40       // in one path, as kernels have it
	maxLinkBytes = 32 << 20 // in memory for one volume
)

// linkEdits collects what an archive does to the links of a volume.
type linkEdits struct {
	base  *links
	at    map[string]link
	gone  map[string]bool
	size  int
	vague bool // what came of it is not known exactly
}

func edit(base *links) *linkEdits {
	return &linkEdits{base: base, at: make(map[string]link), gone: make(map[string]bool)}
}

func (e *linkEdits) get(p string) (link, bool) {
	if l, ok := e.at[p]; ok {
		return l, true
	}
	if e.gone[p] || e.base == nil {
		return link{}, false
	}
	l, ok := e.base.at[p]
	return l, ok
}

func (e *linkEdits) put(p string, l link) error {
	e.size += len(p) + len(l.target) + 100
	if e.size > maxLinkBytes {
		return sdk.NewInvalid(sdk.ReasonTooLarge, "there are more symbolic links in it than this plugin keeps track of (%d bytes)", maxLinkBytes)
	}
	e.at[p] = l
	delete(e.gone, p)
	return nil
}

func (e *linkEdits) drop(p string) {
	if _, ok := e.get(p); ok {
		delete(e.at, p)
		e.gone[p] = true
	}
}

// passes gives the first symbolic link on the way to p, p itself left out.
func (e *linkEdits) passes(p string) (string, bool) {
	if len(e.at) == 0 && (e.base == nil || len(e.base.at) == 0) {
		return "", false
	}
	for i := range len(p) {
		if p[i] != '/' {
			continue
		}
		if _, ok := e.get(p[:i]); ok {
			return p[:i], true
		}
	}
	return "", false
}

// links are what comes of the edits.
func (e *linkEdits) links() *links {
	if e.vague {
		return nil
	}
	if len(e.at) == 0 && len(e.gone) == 0 && e.base != nil {
		return e.base
	}
	all := &links{at: make(map[string]link), size: e.size}
	if e.base != nil {
		all.size += e.base.size
		for p, l := range e.base.at {
			if !e.gone[p] {
				all.at[p] = l
			}
		}
	}
	for p, l := range e.at {
		all.at[p] = l
	}
	return all
}

// resolve follows the links in a path, as if the volume were all there is, but for the last component.
func (l *links) resolve(p string) (string, error) {
	todo := split(p)
	var at []string
	for followed := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = at[:max(len(at)-1, 0)]
			continue
		}
		at = append(at, name)
		if len(todo) == 0 {
			break
		}
		to, ok := l.at[strings.Join(at, "/")]
		if !ok {
			continue
		}
		if followed++; followed > maxLinks {
			return "", sdk.NewInvalid(sdk.ReasonPath, "path %s: too many symbolic links", quote(p))
		}
		at = at[:len(at)-1]
		if path.IsAbs(to.target) {
			at = nil
		}
		todo = append(strings.Split(to.target, "/"), todo...)
	}
	return strings.Join(at, "/"), nil
}

func split(p string) []string {
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

// insidePath cleans a path of a volume; the root is empty.
func insidePath(p string) (string, error) {
	const most = 16 << 10
	if len(p) > most || strings.Contains(p, "\x00") {
		return "", sdk.NewInvalid(sdk.ReasonPath, "path %s is too long or contains a NUL byte", quote(p))
	}
	if path.IsAbs(p) {
		return "", sdk.NewInvalid(sdk.ReasonPath, "path %s is absolute; paths in a volume are relative to its root", quote(p))
	}
	clean := path.Clean(p)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", sdk.NewInvalid(sdk.ReasonPath, "path %s leaves the volume", quote(p))
	}
	if clean == "." {
		return "", nil
	}
	return clean, nil
}

// memo remembers the links of volumes: of those that only archives have written, and of sealed ones that somebody had to look through.
// What it forgets is looked up again.
type memo struct {
	mu    sync.Mutex
	known map[string]memory
	size  int
}

// memory is what is known of one volume: its links, or that it is as it was cloned.
type memory struct {
	links  *links
	parent string
}

const (
	maxMemo      = 20_000   // volumes
	maxMemoBytes = 32 << 20 // of links, a quarter of it of one volume: some 50,000
)

func (m *memo) init() { m.known = make(map[string]memory) }

func (m *memo) get(handle string) (known *links, parent string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.known[handle]
	return k.links, k.parent
}

func (m *memo) put(handle string, l *links) { m.add(handle, memory{links: l}) }

// clone says that a volume is as its parent is.
func (m *memo) clone(handle, parent string) { m.add(handle, memory{parent: parent}) }

func (m *memo) add(handle string, k memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(handle)
	if k.bytes() > maxMemoBytes/4 {
		return
	}
	for other := range m.known { // whichever comes first
		if len(m.known) < maxMemo && m.size+k.bytes() <= maxMemoBytes {
			break
		}
		m.remove(other)
	}
	m.known[handle] = k
	m.size += k.bytes()
}

func (m *memo) drop(handle string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(handle)
}

func (m *memo) remove(handle string) {
	m.size -= m.known[handle].bytes()
	delete(m.known, handle)
}

func (k memory) bytes() int {
	if k.links == nil {
		return 0
	}
	return k.links.size
}
