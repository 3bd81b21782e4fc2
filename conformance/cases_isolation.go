package conformance

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// isolationCases check that nothing reaches beyond what it was given. Harm is looked for on this machine, in a directory
// that a case makes for that; where the plugin runs elsewhere that shows nothing, and EnvLocal says so.
func isolationCases() []Case {
	local := []Requirement{EnvLocal}
	return []Case{
		{
			ID: "Z01-dotdot", Title: "an archive with names that leave the volume is Invalid, and nothing outside changes", Promises: []string{"9p"}, Level: Must, Profile: Isolation, Run: runDotDot, Env: local,
			Doc: "The oldest hole of unpackers.",
		},
		{
			ID: "Z02-symlink-write", Title: "an archive that writes through a symbolic link changes nothing outside the volume", Promises: []string{"9p"}, Level: Must, Profile: Isolation, Run: runSymlinkWrite, Env: local,
			Doc: "A link to a directory outside comes first, a file below it second. The link may be kept, replaced, or the archive refused; only its target may not be touched.",
		},
		{
			ID: "Z03-hard-link", Title: "an archive with a hard link to something outside is Invalid, and gives nothing of it away", Promises: []string{"9p"}, Level: Must, Profile: Isolation, Run: runHardLinkOut, Env: local,
			Doc: "A hard link to a file of the worker reads it, and writes it.",
		},
		{
			ID: "Z05-read-out", Title: "streaming out through a symbolic link gives nothing from outside the volume", Promises: []string{"9p"}, Level: Must, Profile: Isolation, Run: runReadOut, Env: local,
			Doc: "A step may leave a link to the worker's secrets where its output is expected.",
		},
		{
			ID: "Z07-other-volumes", Title: "no name of an archive reaches another volume", Promises: []string{"9p"}, Level: Must, Profile: Isolation, Run: runOtherVolumes,
			Doc: "Volumes are often neighbouring directories: ../ID/ is the next one.",
		},
		{
			ID: "Z09-own-files", Title: "what one container writes to its root, no other sees", Promises: []string{"9k"}, Level: Must, Profile: Isolation, Run: runOwnFiles,
			Doc: "Two tenants' containers may run side by side.",
		},
		{
			ID: "Z10-host-files", Title: "a process sees no file of the machine", Promises: []string{"9k"}, Level: Must, Profile: Isolation, Run: runHostFiles, Env: local,
			Doc: "Least of all the plugin's own.",
		},
	}
}

// canary makes a directory with one file on this machine and gives its path; after the case the file must be all there is,
// unchanged.
func (c *C) canary() (dir string, check func()) {
	dir, err := os.MkdirTemp("", "slipway-canary-")
	if err != nil {
		c.Broken(err)
	}
	c.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "canary"), []byte("sings"), 0o644); err != nil {
		c.Broken(err)
	}
	return dir, func() {
		b, err := os.ReadFile(filepath.Join(dir, "canary"))
		if err != nil || string(b) != "sings" {
			c.Errorf("whatever an archive says, nothing outside the volume changes", "a file of this machine is now %q (%v)", b, err)
		}
		names, err := os.ReadDir(dir)
		if err != nil || len(names) != 1 {
			c.Errorf("whatever an archive says, nothing outside the volume changes", "a directory of this machine has %d entries, want 1 (%v)", len(names), err)
		}
	}
}

// removed removes a file of this machine, and tells whether it was there.
func removed(path string) bool { return os.Remove(path) == nil }

// deeper gives a relative path that leads to an absolute one from wherever a volume may be.
func deeper(abs string) string { return strings.Repeat("../", 40) + strings.TrimPrefix(abs, "/") }

func runDotDot(ctx context.Context, c *C) {
	dir, check := c.canary()
	for _, name := range []string{"../escaped", "a/../../escaped", deeper(dir + "/escaped"), deeper(dir + "/canary"), ".."} {
		id := c.Volume(ctx)
		e := File(name, "out")
		if name == ".." {
			e = Dir(name)
		}
		err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(c.Pack([]Entry{File("first", "1"), e})))
		c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "an archive that leaves the volume is hostile or broken: none of it counts", "an archive with the name %.20q", name)
		check()
	}
	// A name from the root on is below the volume's root or refused.
	id := c.Volume(ctx)
	err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(c.Pack([]Entry{File(dir+"/canary", "out")})))
	if err != nil {
		c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "an archive is refused as such", "an archive with an absolute name")
	}
	check()
}

func runSymlinkWrite(ctx context.Context, c *C) {
	dir, check := c.canary()
	for _, target := range []string{dir, deeper(dir)} {
		for what, entries := range map[string][]Entry{
			"a file below a link to a directory":   {Symlink("l", target), File("l/canary", "out"), File("l/escaped", "out")},
			"a directory below a link":             {Symlink("l", target), Dir("l/escaped")},
			"a file over a link to a file":         {Symlink("l", target+"/canary"), File("l", "out")},
			"a link in a link":                     {Symlink("l", target), Symlink("m", "l"), File("m/escaped", "out")},
			"a directory over a link, and a file":  {Symlink("l", target), Dir("l"), File("l/escaped", "out")},
			"a hard link below a link":             {File("f", "out"), Symlink("l", target), Hardlink("l/escaped", "f")},
			"a hard link to a link, written after": {Symlink("l", target+"/canary"), Hardlink("m", "l"), File("m", "out")},
			"a mode for what a link points to":     {Symlink("l", target+"/canary"), {Path: "l", Type: tar.TypeDir, Mode: 0o777}},
		} {
			id := c.Volume(ctx)
			err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(c.Pack(entries)))
			if err != nil {
				c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "an archive is refused as such", "%s", what)
			}
			check()
		}
	}
	// In two archives, and with the link in the path of the stream.
	id := c.Filled(ctx, Symlink("l", dir))
	for _, in := range []sdk.StreamIn{{}, {Path: "l"}, {Path: "l/sub"}} {
		entries := []Entry{File("l/escaped", "out")}
		if in.Path != "" {
			entries[0].Path = "escaped"
		}
		if err := c.W.StreamIn(ctx, id, in, bytes.NewReader(c.Pack(entries))); err != nil {
			c.WantClass(err, sdk.Invalid, "what leaves the volume is refused as such", "a second archive below %q", in.Path)
		}
		check()
	}
}

func runHardLinkOut(ctx context.Context, c *C) {
	dir, check := c.canary()
	for _, target := range []string{"../outside", deeper(dir + "/canary")} {
		id := c.Volume(ctx)
		err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(c.Pack([]Entry{Hardlink("h", target), File("h", "out")})))
		c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "an archive that leaves the volume is hostile or broken: none of it counts", "a hard link to %.20q", target)
		check()
	}
	id := c.Volume(ctx)
	err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(c.Pack([]Entry{Hardlink("h", dir+"/canary")})))
	if err != nil {
		c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "an archive is refused as such", "a hard link to an absolute path")
	} else if find(c.Tree(ctx, id, ""), "h").Data == "sings" {
		c.Errorf("nothing outside the volume is in it", "a hard link to an absolute path gave a file of this machine")
	}
	check()
}

func runReadOut(ctx context.Context, c *C) {
	dir, check := c.canary()
	id := c.Filled(ctx, Symlink("l", dir), Symlink("up", deeper(dir)), Symlink("f", dir+"/canary"))
	for _, p := range []string{"l/canary", "up/canary", "l", "up", "f"} {
		var b bytes.Buffer
		err := c.W.StreamOut(ctx, id, sdk.StreamOut{Path: p}, &b)
		if bytes.Contains(b.Bytes(), []byte("sings")) {
			c.Errorf("nothing outside the volume comes out of it", "streaming %q out gave the content of a file of this machine", p)
		}
		if err != nil && !c.WantOneOf(err, sdk.NotFound, sdk.Invalid) {
			c.Errorf("what is not in the volume is not there", "streaming %q out: %s", p, describe(err))
		}
	}
	check()
}

// WantOneOf tells whether err has one of the classes.
func (c *C) WantOneOf(err error, classes ...sdk.Class) bool {
	for _, class := range classes {
		if sdk.ClassOf(err) == class {
			return true
		}
	}
	return false
}

func runOtherVolumes(ctx context.Context, c *C) {
	victim := c.Filled(ctx, File("precious", "mine"))
	want := []Entry{File("precious", "mine")}
	for _, up := range []string{"..", "../..", "../../..", "../volumes"} {
		name := up + "/" + string(victim)
		for _, entries := range [][]Entry{
			{File(name+"/precious", "yours")},
			{Symlink("l", name), File("l/precious", "yours")},
			{Hardlink("h", name+"/precious"), File("h", "yours")},
		} {
			id := c.Volume(ctx)
			if err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(c.Pack(entries))); err != nil {
				c.WantReason(err, sdk.Invalid, sdk.ReasonArchive, "an archive is refused as such", "an archive that names %q", entries[0].Path)
			}
			c.WantTree(c.Tree(ctx, victim, ""), want, 0, "another volume after an archive with %q", entries[0].Path)
		}
	}
}

func runOwnFiles(ctx context.Context, c *C) {
	first, second := c.Container(ctx), c.Container(ctx)
	path := "/slipway-" + string(c.VolumeID())
	if j := c.Exec(ctx, first, c.Commands.Append(path, "mine")); j.Exit.Code != 0 {
		c.NotObservable("containers cannot write to their root")
	}
	c.WantOutput(c.Exec(ctx, first, c.Commands.CatFile(path)), "mine", "", "its own file")
	if j := c.Exec(ctx, second, c.Commands.CatFile(path)); j.Exit.Code == 0 || len(j.Stdout) > 0 {
		c.Errorf("containers have nothing in common but the volumes that they mount", "another container reads %q", j.Stdout)
	}
}

func runHostFiles(ctx context.Context, c *C) {
	dir, check := c.canary()
	id := c.Container(ctx)
	for _, path := range []string{dir + "/canary", deeper(dir + "/canary"), "/proc/self/cwd/" + deeper(dir+"/canary")} {
		if j := c.Exec(ctx, id, c.Commands.CatFile(path)); strings.Contains(string(j.Stdout), "sings") {
			c.Errorf("a container has files of its own", "a process read a file of this machine at %.40q", path)
		}
	}
	c.Exec(ctx, id, c.Commands.Append(dir+"/canary", " out"))
	check()
}
