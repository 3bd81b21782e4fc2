package conformance

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// namedCases check that a feature does what its name says where a worker names it: each uses one, and looks for its effect.
func namedCases() []Case {
	return []Case{
		{
			ID: "Y06-clone-live", Title: "where clone.live is named, a clone of an open volume holds what that held, and what is written to either is its own", Promises: []string{"9g"}, Level: Must, Profile: Core,
			Needs: []sdk.Feature{sdk.FeatureCloneLive}, Run: runCloneLive, Doc: "A host clones what it has not sealed yet to save a copy. A clone that is empty, or shares its blocks, is found out by the step that reads it.",
		},
		{
			ID: "Y07-network-none", Title: "where network.none is named, no route leads out of a hermetic container", Promises: []string{"14f"}, Level: Must, Profile: Isolation,
			Needs: []sdk.Feature{sdk.FeatureNetworkNone}, Run: runNetworkNone, Doc: "Whoever asks for it runs what is not trusted, or must build the same again tomorrow.",
		},
		{
			ID: "Y08-privileged", Title: "where privileged is named, a privileged container may mount, writes to its volumes, and others may not", Promises: []string{"14f"}, Level: Must, Profile: Linux,
			Needs: []sdk.Feature{sdk.FeaturePrivileged}, Run: runPrivileged, Doc: "A container in a container needs it. One that was asked for and is none fails in the midst of a build; one that was not asked for is a way out.",
		},
		{
			ID: "Y12-tar-sparse", Title: "where tar.sparse is named, holes come out of a volume as holes, and the bytes around them as they went in", Promises: []string{"14f"}, Level: Must, Profile: Streaming,
			Needs: []sdk.Feature{sdk.FeatureTarSparse}, Run: runTarSparse, Doc: "A disk image of 100 GB is mostly holes. Filled ones fill workers, networks and quotas.",
		},
		{
			ID: "Y13-tar-dir-mtimes", Title: "where tar.dir-mtimes is named, directories keep their times, also those that get files later", Promises: []string{"14f"}, Level: Must, Profile: Streaming,
			Needs: []sdk.Feature{sdk.FeatureTarDirTimes}, Run: runTarDirTimes, Doc: "Making a file in a directory changes its time: it has to be set when all is in it.",
		},
		{
			ID: "Y14-tar-devices", Title: "where tar.devices is named, device nodes come out with their numbers", Promises: []string{"14f"}, Level: Must, Profile: Streaming,
			Needs: []sdk.Feature{sdk.FeatureTarDevices}, Run: runTarDevices, Doc: "Images hold /dev/null and /dev/console. One without them does not start.",
		},
	}
}

func runCloneLive(ctx context.Context, c *C) {
	parent := c.Filled(ctx, File("before", "1"))
	clone := c.Clone(ctx, parent)
	c.Put(ctx, parent, File("parent", "2"))
	c.Put(ctx, clone, File("clone", "3"))
	c.WantTree(c.Tree(ctx, clone, ""), []Entry{File("before", "1"), File("clone", "3")}, 0, "a clone of an open volume, after both were written to")
	c.WantTree(c.Tree(ctx, parent, ""), []Entry{File("before", "1"), File("parent", "2")}, 0, "the parent of a clone, after both were written to")
}

func runNetworkNone(ctx context.Context, c *C) {
	id := c.Container(ctx, func(s *sdk.ContainerSpec) { s.Hermetic = true })
	j := c.Exec(ctx, id, c.Commands.CatFile("/proc/net/route"))
	if j.Exit.Code != 0 {
		c.NotOffered("its containers have no /proc/net/route, in which a network would be seen")
	}
	for i, line := range strings.Split(strings.TrimSpace(string(j.Stdout)), "\n") {
		if f := strings.Fields(line); i > 0 && len(f) > 0 && f[0] != "lo" {
			c.Errorf("a container that was asked for without a network has none", "in a hermetic container /proc/net/route has %q", line)
		}
	}
}

// mayMount is the number of the capability that mounting needs, CAP_SYS_ADMIN.
const mayMount = 21

func runPrivileged(ctx context.Context, c *C) {
	volume := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels(), Privileged: true}
	c.OK(c.W.CreateVolume(ctx, volume), "creating privileged volume %q", volume.ID)
	privileged := c.Container(ctx, c.Mounts(sdk.Mount{Volume: volume.ID, Path: "/v"}), func(s *sdk.ContainerSpec) { s.Privileged = true })
	if j := c.Exec(ctx, privileged, c.Commands.Append("/v/file", "text")); j.Exit.Code != 0 {
		c.Errorf("a privileged container's volumes are its own", "writing to a privileged volume in a privileged container: exit code %d, %q", j.Exit.Code, string(j.Stderr))
	}
	for id, want := range map[sdk.ContainerID]bool{privileged: true, c.Container(ctx): false} {
		may, ok := c.mayMount(ctx, id)
		if !ok {
			c.NotOffered("its containers have no /proc/self/status, in which what a process may do would be seen")
		}
		if may != want {
			c.Errorf("privileged is what was asked for, and nothing else is", "a process may mount: %v, in a container whose spec says privileged: %v", may, want)
		}
	}
}

// mayMount tells whether the processes of a container have the capability to mount; ok is false where nobody can see.
func (c *C) mayMount(ctx context.Context, id sdk.ContainerID) (may, ok bool) {
	j := c.Exec(ctx, id, c.Commands.CatFile("/proc/self/status"))
	for line := range strings.Lines(string(j.Stdout)) {
		if set, found := strings.CutPrefix(line, "CapEff:"); found && j.Exit.Code == 0 {
			n, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return n&(1<<mayMount) != 0, err == nil
		}
	}
	return false, false
}

func runTarSparse(ctx context.Context, c *C) {
	const size = 16 << 20
	id := c.Volume(ctx)
	c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(sparse("image", "in the midst", size))), "streaming a sparse file into volume %q", id)
	var out bytes.Buffer
	c.OK(c.W.StreamOut(ctx, id, sdk.StreamOut{}, &out), "streaming it out again")
	if out.Len() > size/8 {
		c.Errorf("what is a hole takes no room", "the archive of a file of %d bytes, of which %d are no hole, has %d bytes", size, 512, out.Len())
	}
	entries, err := Unpack(bytes.NewReader(out.Bytes()))
	if err != nil || len(entries) != 1 {
		c.Fatalf("what a volume gives must be an archive that others can read", "an archive with a sparse file: %d entries, %v", len(entries), err)
	}
	want := make([]byte, size)
	copy(want[size/2:], "in the midst")
	if entries[0].Data != string(want) {
		c.Errorf("holes are read as zeros, and nothing else is", "a sparse file of %d bytes came out with %d bytes, not the same", size, len(entries[0].Data))
	}
}

// sparse is an archive of one file, with a block of data in its midst, as GNU tar writes it. The standard library writes none.
func sparse(name, data string, size int64) []byte {
	const block = 512
	b := make([]byte, 4*block) // its header, its data, and the end
	copy(b, name)
	number := func(at int, n int64) { // in base 256
		b[at] = 0x80
		binary.BigEndian.PutUint64(b[at+4:], uint64(n))
	}
	copy(b[100:], "0000644\x00") // mode, owner, group
	copy(b[108:], "0000000\x00")
	copy(b[116:], "0000000\x00")
	copy(b[124:], fmt.Sprintf("%011o\x00", block)) // what of it is in the archive
	copy(b[136:], fmt.Sprintf("%011o\x00", someTime))
	b[156] = tar.TypeGNUSparse
	copy(b[257:], "ustar  \x00")
	number(386, size/2) // where its data are
	number(398, block)
	number(410, size) // nothing is at the end
	number(422, 0)
	number(483, size)
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b[:block] {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	copy(b[block:], data)
	return b
}

func runTarDirTimes(ctx context.Context, c *C) {
	outer, inner := Dir("outer"), Dir("outer/inner")
	outer.ModTime, inner.ModTime = someTime-1000, someTime-2000
	id := c.Filled(ctx, outer, inner, File("outer/inner/file", "1"), File("outer/file", "2"))
	for _, e := range c.Tree(ctx, id, "") {
		if want := map[string]int64{"outer": outer.ModTime, "outer/inner": inner.ModTime}[e.Path]; want != 0 && e.ModTime != want {
			c.Errorf("what is built again from the same tree is the same", "directory %q has the time %d, want %d", e.Path, e.ModTime, want)
		}
	}
}

func runTarDevices(ctx context.Context, c *C) {
	var in, out bytes.Buffer
	w := tar.NewWriter(&in)
	for _, h := range []*tar.Header{
		{Name: "null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 3},
		{Name: "loop", Typeflag: tar.TypeBlock, Mode: 0o660, Devmajor: 7, Devminor: 300},
	} {
		if err := w.WriteHeader(h); err != nil {
			c.Broken(err)
		}
	}
	if err := w.Close(); err != nil {
		c.Broken(err)
	}
	id := c.Volume(ctx)
	c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{}, &in), "streaming devices into volume %q", id)
	c.OK(c.W.StreamOut(ctx, id, sdk.StreamOut{}, &out), "streaming them out again")
	got := make(map[string]string)
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			c.Fatalf("what a volume gives must be an archive that others can read", "an archive with devices: %v", err)
		}
		got[cleanPath(h.Name)] = fmt.Sprintf("%c %d:%d", h.Typeflag, h.Devmajor, h.Devminor)
	}
	for name, want := range map[string]string{"null": fmt.Sprintf("%c 1:3", tar.TypeChar), "loop": fmt.Sprintf("%c 7:300", tar.TypeBlock)} {
		if got[name] != want {
			c.Errorf("a device is known by its kind and numbers", "device %q came out as %q, want %q", name, got[name], want)
		}
	}
}
