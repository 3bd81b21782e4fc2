package conformance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// dialectCases check archives as different programs write them.
func dialectCases() []Case {
	must := func(id, title, doc string, run func(context.Context, *C), promises ...string) Case {
		return Case{ID: id, Title: title, Doc: doc, Promises: promises, Level: Must, Profile: Streaming, Run: run}
	}
	xattrs := must("F04-xattrs", "where tar.xattrs is named, extended attributes come out as they went in",
		"Catches archives that lose them: capabilities of a program, and what SELinux goes by.", runXattrs, "14f", "9l")
	xattrs.Needs = []sdk.Feature{sdk.FeatureTarXattrs}
	return []Case{
		xattrs,
		must("F10-name-bytes", "names are bytes: those that are no UTF-8, and twins in another normal form, are kept apart",
			"Catches names that go through a string type that mends them: two files become one.", runNameBytes, "9l"),
		must("F11-special", "a named pipe comes out as one, or its archive is Invalid or Unsupported; it never becomes a file",
			"Catches unpackers that make an empty file of whatever they do not know.", runSpecial, "9m"),
		must("F12-dialects", "archives in the formats v7, ustar, GNU and PAX are all taken",
			"Catches a reader that knows what its own writer writes.", runDialects, "9n"),
		must("F21-round", "what came out goes in again and comes out the same, three times", "Catches what is lost a little each time: a leading slash, a rounded time, a mode.", runRound, "9l"),
		must("F25-padding", "zeros after an archive's end are part of it, and are read to their end",
			"Catches a stream that returns at the end mark: its source then fails to write what is left, as tar does, who fills up to 10 KiB.", runPadding, "9n"),
		must("F26-nothing", "an archive without entries changes nothing; no bytes at all are a damaged archive",
			"Catches a connection that was lost before its first byte and counts as an empty input.", runNoEntries, "9o"),
		must("F28-twice", "of two entries with one name the later one counts", "Catches unpackers that refuse an updated archive, or keep the old file.", runTwice, "9n"),
		must("F29-parents", "directories that an archive does not name are made", "Catches archives of single files, which many tools write, that fail.", runParents, "9n"),
		must("F30-dot-names", "names that begin with ./ and an entry for the root itself are taken",
			"Catches what tar -C dir . writes: its first entry is the root, and every name begins with a dot.", runDotNames, "9n"),
		must("F32-link-missing", "a hard link to a file that the archive has not named is Invalid with the reason archive, unless it is in the volume",
			"Catches links that become empty files.", runLinkMissing, "9o"),
		must("F34-long-stream", "an archive comes through whole whatever the size of its pieces", "Catches readers that take a short read for the end.", runPieces, "9s"),
		must("F37-gzip-members", "where gzip is named, several members after each other are one stream",
			"Catches a reader that stops after the first: pigz and appended archives lose their rest without an error.", runGzipMembers, "9u"),
		must("F40-corrupt", "a byte that was changed on the way in an encoded stream is found",
			"Catches a decoder that skips the checksum.", runCorrupt, "9o"),
		must("F46-many-readers", "one sealed volume streams out to eight readers at once, one of them slow", "Catches one place in a file that they share, and a lock that the slow one holds.", runManyReaders, "9s"),
		must("Z12-header-lies", "headers that contradict themselves are Invalid, and what a PAX record says is held against the same rules as a name",
			"Catches a check of the short name while the long one is used, and sizes below zero.", runHeaderLies, "9o"),
		must("F48-trees-merge", "a second archive adds to a tree and leaves the rest, directories' own files included", "Catches an unpacker that empties a directory which comes again.", runMerge, "9q"),
	}
}

// packRaw makes an archive of headers as they are, each with its data.
func (c *C) packRaw(format tar.Format, entries ...rawEntry) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.header.Size, e.header.Format = int64(len(e.data)), format
		if e.header.ModTime.IsZero() {
			e.header.ModTime = time.Unix(someTime, 0)
		}
		if err := w.WriteHeader(&e.header); err != nil {
			c.Broken(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			c.Broken(err)
		}
	}
	if err := w.Close(); err != nil {
		c.Broken(err)
	}
	return b.Bytes()
}

type rawEntry struct {
	header tar.Header
	data   string
}

func rawFile(name, data string) rawEntry {
	return rawEntry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, data}
}

func (c *C) putRaw(ctx context.Context, archive []byte, what string) sdk.VolumeID {
	id := c.Volume(ctx)
	c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(archive)), "streaming in %s", what)
	return id
}

func runXattrs(ctx context.Context, c *C) {
	want := map[string]string{"user.plain": "value", "user.odd": "\xff\n= ", "user.long": strings.Repeat("v", 1000)}
	e := rawFile("f", "with attributes")
	e.header.PAXRecords = make(map[string]string)
	for k, v := range want {
		e.header.PAXRecords["SCHILY.xattr."+k] = v
	}
	id := c.putRaw(ctx, c.packRaw(tar.FormatPAX, e, rawFile("plain", "")), "extended attributes")
	for range 2 { // and of a clone
		var b bytes.Buffer
		c.OK(c.W.StreamOut(ctx, id, sdk.StreamOut{}, &b), "streaming out")
		got := make(map[string]string)
		r := tar.NewReader(&b)
		for {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			c.OK(err, "reading what came out")
			for k, v := range h.PAXRecords {
				if name, ok := strings.CutPrefix(k, "SCHILY.xattr.user."); ok {
					got[cleanPath(h.Name)+" user."+name] = v
				}
			}
		}
		for k, v := range want {
			if got["f "+k] != v {
				c.Errorf("a feature that is named works", "attribute %q is %.20q, want %.20q", k, got["f "+k], v)
			}
		}
		if len(got) != len(want) {
			c.Errorf("attributes stay with their file", "%d attributes came out, want %d", len(got), len(want))
		}
		c.OK(c.W.SealVolume(ctx, id), "sealing")
		id = c.Clone(ctx, id)
	}
}

func runNameBytes(ctx context.Context, c *C) {
	want := []Entry{File("latin-\xfc", "1"), File("\xff\xfe", "2"), File("caf\u00e9", "composed"), File("cafe\u0301", "decomposed"), Symlink("l", "latin-\xfc")}
	id := c.Filled(ctx, want...)
	c.WantTree(c.Tree(ctx, id, ""), want, 0, "names that are bytes")
}

func runSpecial(ctx context.Context, c *C) {
	archive := c.packRaw(tar.FormatPAX, rawFile("before", "1"), rawEntry{tar.Header{Name: "pipe", Typeflag: tar.TypeFifo, Mode: 0o600}, ""}, rawFile("last", "2"))
	id := c.Volume(ctx)
	err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(archive))
	if err != nil {
		if !c.WantOneOf(err, sdk.Invalid, sdk.Unsupported) {
			c.Errorf("what cannot be kept is refused as such", "an archive with a named pipe: %s", describe(err))
		}
		return
	}
	tree := c.Tree(ctx, id, "")
	if p := find(tree, "pipe"); p.Type != tar.TypeFifo {
		c.Errorf("what is taken is kept as it is", "a named pipe came out as %v", p)
	}
	if find(tree, "before").Data != "1" || find(tree, "last").Data != "2" {
		c.Errorf("what is taken is kept as it is", "the files around a named pipe came out as %v", tree)
	}
}

func runDialects(ctx context.Context, c *C) {
	long := strings.Repeat("directory/", 15) + "file"
	for what, archive := range map[string][]byte{
		"ustar":             c.packRaw(tar.FormatUSTAR, rawFile("f", "data"), rawFile(long, "deep")),
		"GNU":               c.packRaw(tar.FormatGNU, rawFile("f", "data"), rawFile(long, "deep")),
		"PAX":               c.packRaw(tar.FormatPAX, rawFile("f", "data"), rawFile(long, "deep")),
		"v7":                v7(c.packRaw(tar.FormatUSTAR, rawFile("f", "data")), c.packRaw(tar.FormatGNU, rawFile(long, "deep"))),
		"PAX, with globals": append(globals(), c.packRaw(tar.FormatPAX, rawFile("f", "data"), rawFile(long, "deep"))...),
	} {
		tree := c.Tree(ctx, c.putRaw(ctx, archive, what), "")
		if find(tree, "f").Data != "data" || find(tree, long).Data != "deep" {
			c.Errorf("tar is what all of these write", "%s: the tree is %v", what, tree)
		}
	}
}

// v7 makes the first archive, of one entry, one of the oldest format, which has no magic, and puts the second after it.
func v7(first, second []byte) []byte {
	head := slices.Clone(first[:512])
	clear(head[257:])
	sum(head)
	return append(append(head, first[512:1024]...), second...)
}

// sum sets the checksum of a header.
func sum(head []byte) {
	copy(head[148:156], "        ")
	n := 0
	for _, b := range head[:512] {
		n += int(b)
	}
	copy(head[148:156], fmt.Sprintf("%06o\x00 ", n))
}

// globals is a PAX header for all entries after it, as git archive writes it.
func globals() []byte {
	record := "52 comment=0123456789abcdef0123456789abcdef01234567\n"
	head := make([]byte, 1024)
	copy(head, "pax_global_header")
	copy(head[100:], "0000666\x000000000\x000000000\x00")
	copy(head[124:], fmt.Sprintf("%011o\x0000000000000\x00", len(record)))
	head[156] = 'g'
	copy(head[257:], "ustar\x0000")
	sum(head)
	copy(head[512:], record)
	return head
}

func runRound(ctx context.Context, c *C) {
	want := slices.Concat(someTree(), symlinkEntries()[4:6], nameEntries()[31:40])
	id := c.Filled(ctx, want...)
	for i := range 3 {
		c.WantTree(c.Tree(ctx, id, ""), want, c.treeTimes(), "out, time %d", i+1)
		var b bytes.Buffer
		c.OK(c.W.StreamOut(ctx, id, sdk.StreamOut{}, &b), "streaming out")
		id = c.Volume(ctx)
		c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{}, &b), "streaming in what came out")
	}
	c.WantTree(c.Tree(ctx, id, ""), want, c.treeTimes(), "after three rounds")
}

func runPadding(ctx context.Context, c *C) {
	for _, n := range []int{512, 10240, 1 << 20} {
		archive := c.Pack([]Entry{File("a", "a")})
		in := &endReader{r: bytes.NewReader(append(archive, make([]byte, n)...))}
		id := c.Volume(ctx)
		c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{}, in), "streaming in an archive with %d zeros after it", n)
		c.WantTree(c.Tree(ctx, id, ""), []Entry{File("a", "a")}, 0, "with %d zeros after it", n)
		if !in.ended {
			c.Errorf("a stream has been read to its end when the call returns nil", "with %d zeros after the archive %d bytes were not read", n, in.r.Len())
		}
	}
}

// endReader tells whether its end was seen.
type endReader struct {
	r     *bytes.Reader
	ended bool
}

func (e *endReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.ended = e.ended || errors.Is(err, io.EOF)
	return n, err
}

func runNoEntries(ctx context.Context, c *C) {
	id := c.Filled(ctx, File("kept", "kept"))
	c.Put(ctx, id)
	c.WantTree(c.Tree(ctx, id, ""), []Entry{File("kept", "kept")}, 0, "after an archive without entries")
	err := c.W.StreamIn(ctx, c.Volume(ctx), sdk.StreamIn{}, strings.NewReader(""))
	c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "an archive without its end is damaged", "no bytes at all")
}

func runTwice(ctx context.Context, c *C) {
	id := c.Filled(ctx, File("f", "old and longer"), Symlink("l", "f"), File("f", "new"), File("l", "no link"))
	c.WantTree(c.Tree(ctx, id, ""), []Entry{File("f", "new"), File("l", "no link")}, 0, "names that come twice")
}

func runParents(ctx context.Context, c *C) {
	id := c.Filled(ctx, File("a/b/c/f", "deep"), Symlink("x/y/l", "../f"), Dir("d/e"))
	want := []Entry{Dir("a"), Dir("a/b"), Dir("a/b/c"), File("a/b/c/f", "deep"), Dir("x"), Dir("x/y"), Symlink("x/y/l", "../f"), Dir("d"), Dir("d/e")}
	c.WantTree(c.Tree(ctx, id, ""), want, IgnoreTimes|IgnoreModes, "an archive without its directories")
}

func runDotNames(ctx context.Context, c *C) {
	dir := func(name string) rawEntry {
		return rawEntry{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}, ""}
	}
	archive := c.packRaw(tar.FormatGNU, dir("./"), rawFile("./f", "1"), dir("./d/"), rawFile("./d/./g", "2"), rawEntry{tar.Header{Name: "./h", Typeflag: tar.TypeLink, Linkname: "./f"}, ""})
	want := []Entry{File("f", "1"), Dir("d"), File("d/g", "2"), Hardlink("h", "f")}
	c.WantTree(c.Tree(ctx, c.putRaw(ctx, archive, "names with dots"), ""), want, IgnoreTimes, "names with dots")
}

func runLinkMissing(ctx context.Context, c *C) {
	archive := c.Pack([]Entry{File("a", "a"), Hardlink("h", "none")})
	err := c.W.StreamIn(ctx, c.Volume(ctx), sdk.StreamIn{}, bytes.NewReader(archive))
	c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "a link without its file is damage", "a hard link to what is not there")
	id := c.Filled(ctx, File("none", "it is"))
	c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(archive)), "streaming in a hard link to what is there already")
	c.WantTree(c.Tree(ctx, id, ""), []Entry{File("a", "a"), File("h", "it is"), Hardlink("none", "h")}, 0, "a hard link to what was there")
}

func runPieces(ctx context.Context, c *C) {
	small := []Entry{Dir("d"), File("d/b", pattern(1)), File("d/c", pattern(513))}
	for _, n := range []int{1, 511, 512, 513, 4097} {
		want := small
		if n > 1 { // a byte at a time takes its time
			want = append([]Entry{File("a", pattern(70_000))}, small...)
		}
		id := c.Volume(ctx)
		c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{}, &piecewise{c.Pack(want), n}), "streaming in by pieces of %d bytes", n)
		c.WantTree(c.Tree(ctx, id, ""), want, c.treeTimes(), "in by pieces of %d bytes", n)
	}
}

// piecewise gives so many bytes at a time, and the end together with the last ones.
type piecewise struct {
	data []byte
	n    int
}

func (r *piecewise) Read(p []byte) (int, error) {
	n := copy(p, r.data[:min(r.n, len(r.data))])
	r.data = r.data[n:]
	if len(r.data) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func runGzipMembers(ctx context.Context, c *C) {
	if !slices.Contains(c.Status.Encodings, "gzip") {
		c.Unsupported("gzip")
	}
	want := []Entry{File("a", pattern(100_000)), File("b", "b")}
	archive := c.Pack(want)
	var b bytes.Buffer
	for _, part := range [][]byte{archive[:1], archive[1:50_000], nil, archive[50_000:]} {
		z := gzip.NewWriter(&b)
		_, err := z.Write(part)
		if err := errors.Join(err, z.Close()); err != nil {
			c.Broken(err)
		}
	}
	id := c.Volume(ctx)
	c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{Encoding: "gzip"}, &b), "streaming in four members")
	c.WantTree(c.Tree(ctx, id, ""), want, 0, "four members")
}

func runCorrupt(ctx context.Context, c *C) {
	tried := 0
	for _, encoding := range c.Status.Encodings {
		codec, ok := codecs()[encoding]
		if !ok || encoding != "gzip" { // others need not have a checksum
			continue
		}
		tried++
		var b bytes.Buffer
		if err := codec.encode(&b, c.Pack([]Entry{File("a", noise(100_000))})); err != nil {
			c.Broken(err)
		}
		encoded := b.Bytes()
		encoded[len(encoded)/2] ^= 1
		err := c.W.StreamIn(ctx, c.Volume(ctx), sdk.StreamIn{Encoding: encoding}, bytes.NewReader(encoded))
		c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "what is not whole must not count as done", "a changed byte in %q", encoding)
	}
	if tried == 0 {
		c.Unsupported("gzip")
	}
}

// noise is n bytes that nothing makes shorter.
func noise(n int) string {
	b := make([]byte, n)
	g := newGenerator(uint64(n))
	g.fill(b)
	return string(b)
}

func runManyReaders(ctx context.Context, c *C) {
	data := pattern(400_000)
	id := c.Sealed(ctx, File("a", data))
	release := make(chan struct{})
	first := make(chan struct{})
	slow := make(chan error, 1)
	c.Go(func(ctx context.Context) {
		told := false
		slow <- c.W.StreamOut(ctx, id, sdk.StreamOut{}, writerFunc(func(p []byte) (int, error) {
			if !told {
				told = true
				close(first)
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return len(p), nil
		}))
	})
	c.Await(ctx, first, "the slow reader's first bytes")
	c.Each(ctx, 7, 7, func(ctx context.Context, i int) {
		c.WantTree(c.Tree(ctx, id, ""), []Entry{File("a", data)}, 0, "reader %d beside one that is slow", i)
	})
	close(release)
	c.OK(c.AwaitError(ctx, slow, "the end of the slow reader"), "the slow reader")
}

func runHeaderLies(ctx context.Context, c *C) {
	victim := c.Filled(ctx, File("precious", "mine"))
	negative := c.packRaw(tar.FormatUSTAR, rawFile("f", "data"))
	copy(negative[124:], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") // -1 in base 256
	sum(negative)
	huge := c.packRaw(tar.FormatUSTAR, rawFile("f", "data"))
	copy(huge[124:], "77777777777\x00")
	sum(huge)
	for what, archive := range map[string][]byte{
		"a long name that leaves the volume":    paxPath("innocent", "../../"+string(victim)+"/precious"),
		"a long name with .. in the middle":     paxPath("innocent", "a/../../escaped"),
		"a size below zero":                     negative,
		"a size that the archive does not have": huge,
		"a record that is longer than it says":  paxRecord("9 path=escaped-and-longer\n"),
		"a record without a number":             paxRecord("path=escaped\n"),
	} {
		err := c.W.StreamIn(ctx, c.Volume(ctx), sdk.StreamIn{}, bytes.NewReader(archive))
		c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "an archive that contradicts itself is hostile or broken: none of it counts", "%s", what)
		c.WantTree(c.Tree(ctx, victim, ""), []Entry{File("precious", "mine")}, 0, "another volume after %s", what)
	}
}

// paxPath is an archive of one file whose header has one name and whose PAX record another.
func paxPath(short, long string) []byte {
	record := " path=" + long + "\n"
	n := len(record) + 2
	if n >= 100 {
		n++
	}
	return paxRecord(strconv.Itoa(n)+record, short)
}

// paxRecord is an archive of one file with a PAX header that holds the text.
func paxRecord(text string, names ...string) []byte {
	block := func(name string, kind byte, data string) []byte {
		head := make([]byte, 512+(len(data)+511)/512*512)
		copy(head, name)
		copy(head[100:], "0000644\x000000000\x000000000\x00")
		copy(head[124:], fmt.Sprintf("%011o\x0000000000000\x00", len(data)))
		head[156] = kind
		copy(head[257:], "ustar\x0000")
		sum(head)
		copy(head[512:], data)
		return head
	}
	name := "f"
	if len(names) > 0 {
		name = names[0]
	}
	return slices.Concat(block("PaxHeaders.0/x", 'x', text), block(name, '0', "data"), make([]byte, 1024))
}

func runMerge(ctx context.Context, c *C) {
	id := c.Filled(ctx, Dir("d"), File("d/old", "1"), Dir("d/sub"), File("d/sub/deep", "2"), File("top", "3"))
	c.Put(ctx, id, Dir("d"), File("d/new", "4"), Dir("d/sub"))
	want := []Entry{Dir("d"), File("d/old", "1"), File("d/new", "4"), Dir("d/sub"), File("d/sub/deep", "2"), File("top", "3")}
	c.WantTree(c.Tree(ctx, id, ""), want, IgnoreTimes, "two archives")
}
