package tools

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/klauspost/compress/gzip"
)

func gzipTool(t *tool) int {
	given, args := t.options("cdkfnNqtv123456789l", map[string]rune{"stdout": 'c', "to-stdout": 'c', "decompress": 'd', "uncompress": 'd', "keep": 'k',
		"force": 'f', "no-name": 'n', "name": 'N', "quiet": 'q', "test": 't', "verbose": 'v', "fast": '1', "best": '9', "list": 'l'}, 1)
	z := zipping{tool: t, level: gzip.DefaultCompression, suffix: ".gz", decompress: t.Name == "gunzip" || t.Name == "zcat", stdout: t.Name == "zcat"}
	for _, o := range given {
		switch o.flag {
		case 'c':
			z.stdout = true
		case 'd':
			z.decompress = true
		case 'k':
			z.keep = true
		case 'f':
			z.force = true
		case 't':
			z.test, z.decompress = true, true
		case 'l':
			z.list, z.decompress, z.test = true, true, true
		case '1', '2', '3', '4', '5', '6', '7', '8', '9':
			z.level = int(o.flag - '0')
		}
	}
	if len(args) == 0 {
		args = []string{"-"}
	}
	if z.list {
		t.printf("         compressed        uncompressed  ratio uncompressed_name\n")
	}
	for _, name := range args {
		t.check()
		if err := z.file(name); err != nil {
			t.fail(name, err)
			if errors.Is(err, errLeft) || errors.Is(err, syscall.EISDIR) {
				t.status = 2
			}
		}
	}
	return t.status
}

// errLeft is a warning: a file was left as it is, for its name.
var errLeft = errors.New("left alone")

type zipping struct {
	*tool
	level                                 int
	suffix                                string
	decompress, stdout, keep, force, test bool
	list                                  bool
}

func (z *zipping) file(name string) error {
	target := ""
	if name != "-" && !z.stdout && !z.test {
		switch {
		case !z.decompress && strings.HasSuffix(name, z.suffix):
			return fmt.Errorf("%w: it has the suffix .gz already", errLeft)
		case !z.decompress:
			target = name + z.suffix
		case strings.HasSuffix(name, ".tgz"):
			target = strings.TrimSuffix(name, ".tgz") + ".tar"
		case strings.HasSuffix(name, z.suffix):
			target = strings.TrimSuffix(name, z.suffix)
		default:
			return fmt.Errorf("%w: its suffix is not known", errLeft)
		}
	}
	r, err := z.open(name)
	if errors.Is(err, fs.ErrNotExist) && z.decompress && !strings.HasSuffix(name, z.suffix) {
		return z.file(name + z.suffix)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	if z.list {
		return z.sizes(name, r)
	}
	if target == "" {
		w := io.Writer(z.out)
		if z.test {
			w = io.Discard
		}
		return z.convert(w, r)
	}
	flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !z.force {
		flag |= os.O_EXCL
	}
	info, err := z.FS.Stat(z.Dir, name)
	if err != nil {
		return err
	}
	w, err := z.FS.Open(z.Dir, target, flag, info.Mode().Perm())
	if err != nil {
		return err
	}
	err = z.convert(w, r)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		z.FS.Remove(z.Dir, target)
		return err
	}
	if err := z.FS.Chtimes(z.Dir, target, info.ModTime()); err != nil {
		return err
	}
	if z.keep {
		return nil
	}
	return z.FS.Remove(z.Dir, name)
}

// sizes are those of a file, before and after.
func (z *zipping) sizes(name string, r io.Reader) error {
	packed, unpacked := &counted{r: r}, &counted{}
	if err := gunzip(unpacked, packed); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, packed); err != nil {
		return err
	}
	ratio := 0.0
	if unpacked.n > 0 {
		ratio = 100 - 100*float64(packed.n-18)/float64(unpacked.n) // as GNU's: without head and tail
	}
	shown := strings.TrimSuffix(name, z.suffix)
	if name == "-" {
		shown = "stdout"
	}
	z.printf("%19d %19d %5.1f%% %s\n", packed.n, unpacked.n, ratio, shown)
	return nil
}

// counted counts what is read or written.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

func (z *zipping) convert(w io.Writer, r io.Reader) error {
	if z.decompress {
		return gunzip(w, r)
	}
	zw, err := gzip.NewWriterLevel(w, z.level)
	if err != nil {
		return err
	}
	if _, err := io.CopyBuffer(zw, onlyReader{r}, make([]byte, 64<<10)); err != nil {
		return err
	}
	return zw.Close()
}

func gunzip(w io.Writer, r io.Reader) error {
	zr, err := gzip.NewReader(r)
	if err != nil {
		return errors.New("not in gzip format")
	}
	if _, err := io.CopyBuffer(onlyWriter{w}, onlyReader{zr}, make([]byte, 64<<10)); err != nil {
		if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("invalid compressed data: " + err.Error())
		}
		return err
	}
	return nil
}

// isGzip says whether content begins as a gzip stream does.
func isGzip(head []byte) bool { return bytes.HasPrefix(head, []byte{0x1f, 0x8b}) }
