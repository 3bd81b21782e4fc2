package tree

import (
	"archive/tar"
	"context"
	"io"
	"io/fs"
	"syscall"

	"github.com/slipway-run/slipway/internal/filemode"
)

// maxTarName is the longest path in an archive, four times what a kernel takes
// at once. It bounds the work for a hostile tree, which is quadratic in depth.
const maxTarName = 16 << 10

// WriteTar writes what path names as a tar stream, in PAX format where ustar
// does not do, with extended attributes, and with the holes of files that have
// some in GNU tar's sparse format 1.0, sorted by name, with numeric owners and nothing in it that
// depends on anything but the tree's content.
//
// A directory gives an entry "./" for itself and its content below that; the
// volume itself is path "" or ".". Anything else gives exactly one entry with
// its base name; a symlink at the end of path is not followed. Hard links
// are kept among the entries of one stream.
//
// The stream shows the tree as it was when WriteTar was called, however much
// it is written meanwhile, and holds no lock while w is written to. The error
// of w comes back unchanged, as does that of ctx, which is looked at between
// writes.
func (t *Tree) WriteTar(ctx context.Context, w io.Writer, name string) error {
	snap := t.Clone()
	defer snap.Release()
	n, p, err := snap.alone("tar", name)
	if err != nil {
		return err
	}
	s, err := n.find("/", p, followSlash)
	if err != nil {
		return pathError("tar", name, err)
	}
	out := &sink{ctx: ctx, w: w}
	tw := &tarWriter{tree: snap, out: out, tw: tar.NewWriter(out), links: make(map[uint64]string)}
	err = tw.top(s)
	if err == nil {
		err = tw.tw.Close()
	}
	if out.err != nil {
		return out.err
	}
	return err
}

// sink keeps the first error of a writer as it was.
type sink struct {
	ctx context.Context
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	s.err = err
	return n, err
}

// tarWriter writes a tree that nobody else uses, so it needs no lock.
type tarWriter struct {
	tree  *Tree
	out   io.Writer // beneath tw
	tw    *tar.Writer
	links map[uint64]string // where a node with several names was written
	zeros []byte
}

func (w *tarWriter) top(s *search) error {
	ino := s.node.ino()
	if s.node.attr.mode.IsDir() {
		return w.dir("", ino)
	}
	return w.node(s.name, ino)
}

// dir writes a directory, whose name is empty or ends in a slash, and its
// content.
func (w *tarWriter) dir(name string, ino uint64) error {
	if len(name) > maxTarName {
		return tooLong(name)
	}
	in := w.tree.find(ino)
	h := header(in)
	h.Typeflag = tar.TypeDir
	h.Name = name
	if name == "" {
		h.Name = "./"
	}
	if err := w.tw.WriteHeader(h); err != nil {
		return err
	}
	type child struct {
		key string
		ino uint64
	}
	var children []child
	in.names.each(func(key string, ino uint64) { children = append(children, child{key, ino}) })
	for _, c := range children {
		var err error
		if w.tree.find(c.ino).mode.IsDir() {
			err = w.dir(name+c.key+"/", c.ino)
		} else {
			err = w.node(name+c.key, c.ino)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// node writes a file or a symlink.
func (w *tarWriter) node(name string, ino uint64) error {
	if len(name) > maxTarName {
		return tooLong(name)
	}
	in := w.tree.find(ino)
	h := header(in)
	h.Name = name
	if first, ok := w.links[ino]; ok {
		h.Typeflag, h.Linkname, h.PAXRecords = tar.TypeLink, first, nil
		return w.tw.WriteHeader(h)
	}
	if in.nlink > 1 {
		w.links[ino] = name
	}
	if in.mode.Type() == fs.ModeSymlink {
		h.Typeflag, h.Linkname = tar.TypeSymlink, in.target
		return w.tw.WriteHeader(h)
	}
	h.Typeflag, h.Size = tar.TypeReg, in.size
	if parts, holes := in.parts(); holes >= minHoles {
		return w.sparse(h, in, parts)
	}
	if err := w.tw.WriteHeader(h); err != nil {
		return err
	}
	return w.content(in)
}

func tooLong(name string) error {
	return &fs.PathError{Op: "tar", Path: name[:maxName] + "...", Err: syscall.ENAMETOOLONG}
}

func (w *tarWriter) content(in *inode) error {
	for off := int64(0); off < in.size; off += chunkSize {
		want := int(min(chunkSize, in.size-off))
		var have []byte
		if c := in.data.get(uint64(off / chunkSize)); c != nil {
			have = c.buf[:min(len(c.buf), want)]
		}
		if _, err := w.tw.Write(have); err != nil {
			return err
		}
		if len(have) == want {
			continue
		}
		if w.zeros == nil {
			w.zeros = make([]byte, chunkSize)
		}
		if _, err := w.tw.Write(w.zeros[:want-len(have)]); err != nil {
			return err
		}
	}
	return nil
}

func header(in *inode) *tar.Header {
	return &tar.Header{
		Format: tar.FormatPAX, Mode: int64(filemode.Bits(in.mode)),
		Uid: int(in.uid), Gid: int(in.gid), ModTime: in.mtime, PAXRecords: in.xattrs.records(),
	}
}
