package conformance

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// archiveCases check that trees go in and out as they are.
func archiveCases() []Case {
	fidelity := func(id, title, doc string, entries func() []Entry) Case {
		return Case{ID: id, Title: title, Promises: []string{"9l"}, Level: Must, Profile: Streaming, Doc: doc, Run: func(ctx context.Context, c *C) {
			v := c.Filled(ctx, entries()...)
			c.WantTree(c.Tree(ctx, v, ""), entries(), c.treeTimes(), "in and out")
			c.OK(c.W.SealVolume(ctx, v), "sealing")
			c.WantTree(c.Tree(ctx, v, ""), entries(), c.treeTimes(), "out again after sealing")
		}}
	}
	return []Case{
		fidelity("F01-modes", "modes come out as they went in, setuid, setgid and sticky bits included",
			"An unpacker that sets modes by open loses what the umask takes, and chown after chmod loses setuid.", modeEntries),
		fidelity("F02-symlinks", "symbolic links stay what they are, wherever they point",
			"Links are content: they are neither followed nor made safe. What points outside is harmless until somebody follows it.", symlinkEntries),
		fidelity("F03-hard-links", "hard links stay links to one file, also across directories",
			"Two copies in place of one file double the size and part at the next write.", hardlinkEntries),
		fidelity("F06-empty", "empty files and empty directories are kept",
			"A build that relies on a directory being there fails only on the second worker.", func() []Entry {
				return []Entry{Dir("d"), Dir("d/e"), Dir("d/e/f"), File("empty", ""), File("d/empty", "")}
			}),
		fidelity("F07-times", "modification times are kept, before 1970 and after 2038 too",
			"make decides by them.", timeEntries),
		fidelity("F08-owners", "owners are kept as numbers, large ones too, whatever their names say",
			"A name in an archive belongs to the machine that wrote it.", ownerEntries),
		fidelity("F09-names", "long paths, and names with spaces, quotes, newlines and other alphabets are kept",
			"The old tar header has 100 bytes for a name; what calls a shell or tar with names as arguments meets a leading dash.", nameEntries),
		{
			ID: "F05-size", Title: "a file of 5 MiB comes out with the same bytes", Promises: []string{"9s"}, Level: Must, Profile: Streaming, Run: runBigFile,
			Doc: "4 MiB is gRPC's default bound of a message: what does not cut its stream into chunks fails here.",
		},
		{
			ID: "F13-many", Title: "five thousand small files come out", Promises: []string{"9s"}, Level: Must, Profile: Streaming, Run: runManyFiles,
			Doc: "Whatever is kept for each file adds up.",
		},
		{
			ID: "F50-after-the-end", Title: "whatever comes after an archive's end mark is read to its end and thrown away, a second archive too", Promises: []string{"9z"}, Level: Must, Profile: Streaming, Run: runAfterTheEnd,
			Doc: "Catches an unpacker that goes on behind the mark: what tar -A leaves there is no part of the tree. And one that takes what it does not know for damage.",
		},
	}
}

func runAfterTheEnd(ctx context.Context, c *C) {
	archive := c.Pack([]Entry{File("a", "a")})
	for what, rest := range map[string][]byte{"a second archive": c.Pack([]Entry{File("a", "another"), File("b", "b")}), "noise": []byte(pattern(300_001)), "one byte": {1}} {
		in := &endReader{r: bytes.NewReader(slices.Concat(archive, rest))}
		id := c.Volume(ctx)
		c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{}, in), "streaming in an archive with %s after its end mark", what)
		c.WantTree(c.Tree(ctx, id, ""), []Entry{File("a", "a")}, 0, "an archive with %s after its end mark", what)
		if !in.ended {
			c.Errorf("a stream has been read to its end when the call returns nil", "of %s after the archive's end mark %d bytes were not read", what, in.r.Len())
		}
	}
}

func modeEntries() []Entry {
	var entries []Entry
	for _, mode := range []int64{0o000, 0o001, 0o007, 0o070, 0o400, 0o444, 0o600, 0o640, 0o644, 0o666, 0o700, 0o755, 0o777,
		0o4755, 0o2755, 0o6755, 0o1644, 0o7777} {
		f := File(fmt.Sprintf("f%04o", mode), "x")
		f.Mode = mode
		entries = append(entries, f)
	}
	for _, mode := range []int64{0o700, 0o755, 0o777, 0o1777, 0o2775} {
		d := Dir(fmt.Sprintf("d%04o", mode))
		d.Mode = mode
		entries = append(entries, d)
	}
	return entries
}

func symlinkEntries() []Entry {
	return []Entry{
		Dir("d"), File("target", "x"),
		Symlink("relative", "target"), Symlink("d/up", "../target"), Symlink("dangling", "no/such/file"),
		Symlink("absolute", "/etc/hostname"), Symlink("outside", "../../../etc/hostname"), Symlink("loop", "loop"),
		Symlink("to-dir", "d"), Symlink("dot", "."), Symlink("long", strings.Repeat("long/", 60)+"target"), Symlink("odd", "a b\n'\""),
	}
}

func hardlinkEntries() []Entry {
	return []Entry{
		Dir("a"), Dir("b"), File("a/file", "one file"), Hardlink("a/same", "a/file"), Hardlink("b/same", "a/file"), Hardlink("c", "a/file"),
		File("b/other", "another"), Hardlink("d", "b/other"),
	}
}

func timeEntries() []Entry {
	var entries []Entry
	for i, t := range []int64{0, 1, -1, -1_000_000_000, 951_782_400, 2_147_483_647, 2_147_483_648, 4_102_444_800} {
		f := File(fmt.Sprintf("f%d", i), "x")
		f.ModTime = t
		d := Dir(fmt.Sprintf("d%d", i))
		d.ModTime = t
		inner := File(fmt.Sprintf("d%d/f", i), "x")
		entries = append(entries, f, d, inner)
	}
	l := Symlink("link", "f0")
	l.ModTime = someTime
	return append(entries, l)
}

func ownerEntries() []Entry {
	var entries []Entry
	for i, id := range []int{0, 1, 1000, 65534, 1 << 21, 1<<31 - 2} {
		f := File(fmt.Sprintf("f%d", i), "x")
		f.UID, f.GID = id, id/2
		d := Dir(fmt.Sprintf("d%d", i))
		d.UID, d.GID = id/2, id
		l := Symlink(fmt.Sprintf("l%d", i), "f0")
		l.UID, l.GID = id, id
		entries = append(entries, f, d, l)
	}
	return entries
}

func nameEntries() []Entry {
	deep := ""
	var entries []Entry
	for i := range 30 {
		deep = path.Join(deep, fmt.Sprintf("directory-%02d", i))
		entries = append(entries, Dir(deep))
	}
	entries = append(entries, File(path.Join(deep, "deep"), "deep"))
	for _, name := range []string{
		strings.Repeat("n", 99), strings.Repeat("n", 100), strings.Repeat("n", 101), strings.Repeat("n", 255),
		"-rf", "--help", "a b", " leading", "trailing ", "trailing.", "~", "$HOME", "*", "a\nb", "a\tb", "quote'\"`", "back\\slash",
		"...", ".hidden", "ünï", "日本語", "CASE", "case", "#x", "a=b", "PaxHeaders",
	} {
		entries = append(entries, File(name, name))
	}
	return entries
}

// pattern is n bytes that repeat after a prime number of them, so that no chunk looks like its neighbour.
func pattern(n int) string {
	const period = 65521
	unit := make([]byte, period)
	x := uint32(1)
	for i := range unit {
		x = x*1664525 + 1013904223
		unit[i] = byte(x >> 24)
	}
	return string(bytes.Repeat(unit, n/period+1)[:n])
}

func runBigFile(ctx context.Context, c *C) {
	want := []Entry{File("big", pattern(5<<20+1)), File("small", "after it")}
	id := c.Filled(ctx, want...)
	c.WantTree(c.Tree(ctx, id, ""), want, 0, "in and out")
}

func runManyFiles(ctx context.Context, c *C) {
	var want []Entry
	for i := range c.Times(5000) {
		if i%100 == 0 {
			want = append(want, Dir(fmt.Sprintf("d%02d", i/100)))
		}
		want = append(want, File(fmt.Sprintf("d%02d/f%04d", i/100, i), fmt.Sprint(i)))
	}
	id := c.Filled(ctx, want...)
	c.WantTree(c.Tree(ctx, id, ""), want, c.treeTimes(), "in and out")
}
