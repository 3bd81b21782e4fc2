package claim

import (
	"archive/tar"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// badArchive is Invalid with [sdk.ReasonArchive].
func badArchive(format string, args ...any) error {
	return sdk.NewInvalid(sdk.ReasonArchive, format, args...)
}

// gate hands on what its reader has understood: each piece goes to out only when the reader asks for the next one, so that nothing of an
// archive goes on before it was looked at.
type gate struct {
	src  io.Reader
	out  io.Writer // nil once nothing goes on any more
	buf  []byte
	held []byte // given to the reader, not yet to out
	rest []byte // of held, not yet given to the reader
	err  error  // of out
}

func newGate(src io.Reader, out io.Writer) *gate {
	return &gate{src: src, out: out, buf: make([]byte, 64<<10)}
}

func (g *gate) Read(p []byte) (int, error) {
	for len(g.rest) == 0 {
		if err := g.flush(); err != nil {
			return 0, err
		}
		n, err := g.src.Read(g.buf)
		g.held, g.rest = g.buf[:n], g.buf[:n]
		if n == 0 && err != nil {
			return 0, err
		}
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

func (g *gate) flush() error {
	if g.err == nil && g.out != nil && len(g.held) > 0 {
		_, g.err = g.out.Write(g.held)
	}
	g.held = nil
	return g.err
}

// zeros counts the zeros at the end of what was read, to tell an archive's end from one that breaks off.
type zeros struct {
	r io.Reader
	n int
}

func (z *zeros) Read(p []byte) (int, error) {
	n, err := z.r.Read(p)
	i := n
	for i > 0 && p[i-1] == 0 {
		i--
	}
	if i > 0 {
		z.n = 0
	}
	z.n += n - i
	return n, err
}

// walk reads an archive to the end of plain and calls entry for each header. An error that is no badArchive is of plain or of entry.
func walk(plain io.Reader, entry func(*tar.Header) error) error {
	z := &zeros{r: plain}
	t := tar.NewReader(z)
	last := "its beginning"
	for {
		z.n = 0 // those of a file's content are no end
		h, err := t.Next()
		switch {
		case err == io.EOF && z.n >= 512:
			_, err = io.Copy(io.Discard, plain) // what tar programs pad with
			return err
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return badArchive("the archive breaks off after %s", last)
		case errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, tar.ErrWriteTooLong):
			return badArchive("the archive is damaged after %s: %v", last, err)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return err
		}
		last = "entry " + quote(h.Name)
		if err := entry(h); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, t); errors.Is(err, io.ErrUnexpectedEOF) {
			return badArchive("the archive breaks off in %s", last)
		} else if err != nil {
			return err
		}
	}
}

// note keeps track of the links that an archive makes or replaces below dir, and refuses what leaves the volume or goes through a link.
func (e *linkEdits) note(dir string, h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		for k := range h.PAXRecords {
			// The server's tar applies the others to all that follows, this package's reader to nothing.
			if k != "comment" {
				return badArchive("the archive has a global header for %s, which is not taken", quote(k))
			}
		}
		return nil
	}
	name, err := entryName(h.Name, h.Name)
	if err != nil {
		return err
	}
	full := path.Join(dir, name)
	if at, ok := e.passes(full); ok {
		return badArchive("archive entry %s goes through the symbolic link %s", quote(h.Name), quote(at))
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if _, ok := e.get(full); ok {
			e.vague = true // it takes the link's place; still, nothing goes through there
		}
		return nil
	case tar.TypeSymlink:
		return e.put(full, link{target: h.Linkname, uid: h.Uid, gid: h.Gid, mtime: h.ModTime.Unix()})
	case tar.TypeLink:
		to, err := entryName(h.Linkname, h.Name)
		if err != nil {
			return err
		}
		to = path.Join(dir, to)
		if at, ok := e.passes(to); ok {
			return badArchive("archive entry %s is a hard link through the symbolic link %s", quote(h.Name), quote(at))
		}
		if l, ok := e.get(to); ok {
			return e.put(full, l)
		}
		e.drop(full)
		return nil
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse, tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		e.drop(full)
		return nil
	}
	return badArchive("archive entry %s: type %q is not known", quote(h.Name), h.Typeflag)
}

// entryName cleans a name of an archive. One that begins at the root begins at the volume's, as tar has it.
func entryName(name, entry string) (string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." { // even if it stays inside: what it is relative to may be a link
			return "", badArchive("archive entry %s: %s leaves the volume", quote(entry), quote(name))
		}
	}
	if strings.Contains(name, "\x00") {
		return "", badArchive("archive entry %s contains a NUL byte", quote(entry))
	}
	return clean, nil
}
