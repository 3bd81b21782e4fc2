//go:build linux

package claim

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"syscall"
	"testing"

	"github.com/concourse/baggageclaim"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

func TestOverlay(t *testing.T) { everything(t, "overlay") }
func TestNaive(t *testing.T)   { everything(t, "naive") }

// everything runs what depends on how the server keeps volumes.
func everything(t *testing.T, driver string) {
	b := serve(t, gardentest.Options{Driver: driver}, func(c *Config) { c.Imports = []string{"/usr/share/common-licenses/"} })
	b.sub("clones", testClones)
	b.sub("owners", testOwners)
	b.sub("privileged", testPrivileged)
	if driver == "naive" { // what happens before the server unpacks is the same for both
		b.sub("damaged", testDamaged)
		b.sub("hostile", testHostile)
	}
	b.sub("the same for both", func(b bench) {
		if driver == "naive" {
			testkit.Soak(b.T, "the naive driver differs in its copies, which are above")
		}
		b.sub("life", testLife)
		b.sub("identity", testIdentity)
		b.sub("import", testImport)
		b.sub("streams", testStreams)
		b.sub("paths", testPaths)
		b.sub("own", testOwn)
		b.sub("base", testBase)
	})
	b.sub("features", testFeatures)
	b.sub("restarted", testRestarted)
	b.sub("left", func(b bench) {
		for _, v := range b.servers.Volumes(t) {
			if v != marker && !bytes.HasPrefix([]byte(v), []byte("slipway.base.")) {
				b.Errorf("volume %s is left", v)
			}
		}
	})
}

func testLife(b bench) {
	labels := map[string]string{"a/b.c": "x y", "empty": "", sdk.LabelInstallation: "i"}
	spec := sdk.VolumeSpec{ID: newID(), Token: sdk.NewToken(), Labels: labels}
	b.ok(b.s.CreateVolume(b.ctx, spec))
	b.destroyLater(spec.ID)
	i, ok := b.info(spec.ID)
	if !ok || i.State != sdk.VolumeOpen || i.Token != spec.Token || len(i.Labels) != 3 || i.Labels["a/b.c"] != "x y" || i.Labels["empty"] != "" || i.Bytes >= 0 {
		b.Fatalf("listed %v: %+v", ok, i)
	}
	b.wantTree(b.tree(spec.ID, ""))
	count := func(f sdk.Filter) (n int) {
		b.ok(b.s.ListVolumes(b.ctx, f, func(i sdk.VolumeInfo) error {
			if i.ID == spec.ID {
				n++
			}
			return nil
		}))
		return n
	}
	for _, f := range []sdk.Filter{{}, {Labels: labels}, {Labels: map[string]string{"empty": ""}}, {ID: string(spec.ID), Labels: labels}} {
		if n := count(f); n != 1 {
			b.Errorf("filter %v lists it %d times", f, n)
		}
	}
	for _, f := range []sdk.Filter{{Labels: map[string]string{"empty": "x"}}, {Labels: map[string]string{"other": ""}}, {ID: "x"}, {ID: "no.id"}, {ID: string(spec.ID), Labels: map[string]string{"x": ""}}} {
		if n := count(f); n != 0 {
			b.Errorf("filter %v lists it %d times", f, n)
		}
	}
	stop := errors.New("enough")
	if err := b.s.ListVolumes(b.ctx, sdk.Filter{}, func(sdk.VolumeInfo) error { return stop }); err != stop {
		b.Errorf("an error of emit came back as %v", err)
	}

	busy := errors.New("busy")
	if err := b.s.SealVolume(b.ctx, spec.ID, func(context.Context) error { return busy }); err != busy {
		b.Errorf("an error of quiesce came back as %v", err)
	}
	if i, _ := b.info(spec.ID); i.State != sdk.VolumeOpen {
		b.Errorf("after quiesce failed the volume is %s", i.State)
	}
	quiet := 0
	for range 3 {
		b.ok(b.s.SealVolume(b.ctx, spec.ID, func(context.Context) error { quiet++; return nil }))
	}
	if i, _ := b.info(spec.ID); i.State != sdk.VolumeSealed || quiet != 1 {
		b.Errorf("sealed volume is %s, quiesced %d times", i.State, quiet)
	}
	b.want(b.s.StreamIn(b.ctx, spec.ID, sdk.StreamIn{}, bytes.NewReader(pack(file("a", "a")))), sdk.FailedPrecondition, sdk.ReasonSealed)
	for range 2 {
		b.ok(b.s.DestroyVolume(b.ctx, spec.ID))
		if _, ok := b.info(spec.ID); ok {
			b.Fatal("a destroyed volume is listed")
		}
	}
	b.wantNotFound(b.s.SealVolume(b.ctx, spec.ID, nil), sdk.KindVolume)
	b.wantNotFound(b.s.StreamIn(b.ctx, spec.ID, sdk.StreamIn{}, bytes.NewReader(pack())), sdk.KindVolume)
	var out bytes.Buffer
	b.wantNotFound(b.s.StreamOut(b.ctx, spec.ID, sdk.StreamOut{}, &out), sdk.KindVolume)
}

func testIdentity(b bench) {
	spec := sdk.VolumeSpec{ID: newID(), Token: sdk.NewToken()}
	b.destroyLater(spec.ID)
	b.ok(b.s.CreateVolume(b.ctx, spec))
	b.ok(b.s.StreamIn(b.ctx, spec.ID, sdk.StreamIn{}, bytes.NewReader(pack(file("kept", "kept")))))
	b.ok(b.s.CreateVolume(b.ctx, spec))
	other := spec
	other.Token = sdk.NewToken()
	b.want(b.s.CreateVolume(b.ctx, other), sdk.AlreadyExists, "")
	b.wantTree(b.tree(spec.ID, ""), file("kept", "kept"))

	// Sixteen at once: one thing comes of it.
	same := sdk.VolumeSpec{ID: newID(), Token: sdk.NewToken(), UID: 12, GID: 34}
	b.destroyLater(same.ID)
	errs := make(chan error, 16)
	for range cap(errs) {
		go func() { errs <- b.s.CreateVolume(b.ctx, same) }()
	}
	for range cap(errs) {
		b.ok(<-errs)
	}

	// What a plugin that was killed has left: first before, then after the server made it.
	half := sdk.VolumeSpec{ID: newID(), Token: sdk.NewToken(), UID: 7, GID: 8}
	b.destroyLater(half.ID)
	ctx, cancel := context.WithCancel(b.ctx)
	m := making{handle: string(half.ID), strategy: baggageclaim.EmptyStrategy{}, properties: properties(half)}
	_, err := b.s.make(ctx, m)
	b.ok(err)
	cancel()
	if i, ok := b.info(half.ID); !ok || i.State != sdk.VolumeCreating {
		b.Fatalf("a half-made volume is listed %v as %s", ok, i.State)
	}
	b.want(b.s.SealVolume(b.ctx, half.ID, nil), sdk.FailedPrecondition, sdk.ReasonCreating)
	b.want(b.s.StreamIn(b.ctx, half.ID, sdk.StreamIn{}, bytes.NewReader(pack())), sdk.FailedPrecondition, sdk.ReasonCreating)
	b.want(b.s.StreamOut(b.ctx, half.ID, sdk.StreamOut{}, new(bytes.Buffer)), sdk.FailedPrecondition, sdk.ReasonCreating)
	stranger := half
	stranger.Token = sdk.NewToken()
	b.want(b.s.CreateVolume(b.ctx, stranger), sdk.AlreadyExists, "")
	b.ok(b.s.CreateVolume(b.ctx, half))
	if i, _ := b.info(half.ID); i.State != sdk.VolumeOpen {
		b.Errorf("completed, it is %s", i.State)
	}
	if r := b.tree(half.ID, "")["."]; r.uid != 7 || r.gid != 8 || r.mode != 0o755 {
		b.Errorf("completed, its root is %+v", r)
	}

	// The result of a creation that the server still keeps is taken, not made again.
	kept := sdk.VolumeSpec{ID: newID(), Token: sdk.NewToken()}
	b.destroyLater(kept.ID)
	b.begin(kept)
	b.ok(b.s.CreateVolume(b.ctx, kept))
	if i, _ := b.info(kept.ID); i.State != sdk.VolumeOpen {
		b.Errorf("completed, it is %s", i.State)
	}
	// And destroying drops it.
	gone := sdk.VolumeSpec{ID: newID(), Token: sdk.NewToken()}
	b.begin(gone)
	b.ok(b.s.DestroyVolume(b.ctx, gone.ID))

	// Somebody else's volume is no volume of the host.
	foreign := newID()
	_, err = b.s.make(b.ctx, making{handle: string(foreign), strategy: baggageclaim.EmptyStrategy{}})
	b.ok(err)
	b.want(b.s.CreateVolume(b.ctx, sdk.VolumeSpec{ID: foreign, Token: sdk.NewToken()}), sdk.AlreadyExists, "")
	b.ok(b.s.DestroyVolume(b.ctx, foreign))
	if _, ok, err := b.s.get(b.ctx, string(foreign)); err != nil || !ok {
		b.Errorf("somebody else's volume was destroyed (%v)", err)
	}
	if _, ok := b.info(foreign); ok {
		b.Error("somebody else's volume is listed")
	}
	_, err = b.s.destroy(b.ctx, string(foreign))
	b.ok(err)
}

// begin has the server begin to make a volume, as a plugin does that is killed before it has the answer.
func (b bench) begin(spec sdk.VolumeSpec) {
	b.Helper()
	a, err := b.s.call(b.ctx, request{what: "beginning", route: baggageclaim.CreateVolumeAsync, body: baggageclaim.VolumeRequest{
		Handle: string(spec.ID), Strategy: baggageclaim.EmptyStrategy{}.Encode(), Properties: properties(spec),
	}})
	b.ok(err)
	if a.code != http.StatusCreated {
		b.Fatalf("the server answered %d %s", a.code, a.words())
	}
}

func testClones(b bench) {
	content := []entry{
		dir("bin"), file("bin/tool", "#!/bin/sh").with(0o4755), dir("empty"), file("hello", "hello"), symlink("link", "hello"), hardlink("other", "hello"),
		file("owned", "x").owned(1234, 5678).with(0o600),
	}
	parent := b.filled(content...)
	b.want(b.s.CreateVolume(b.ctx, sdk.VolumeSpec{ID: newID(), Token: sdk.NewToken(), Clone: parent}), sdk.FailedPrecondition, sdk.ReasonNotSealed)
	b.ok(b.s.SealVolume(b.ctx, parent, nil))
	b.wantNotFound(b.s.CreateVolume(b.ctx, sdk.VolumeSpec{ID: newID(), Token: sdk.NewToken(), Clone: newID()}), sdk.KindVolume)
	self := newID()
	b.wantNotFound(b.s.CreateVolume(b.ctx, sdk.VolumeSpec{ID: self, Token: sdk.NewToken(), Clone: self}), sdk.KindVolume)

	before := b.tree(parent, "")
	first, second := b.volume(clone(parent)), b.volume(clone(parent))
	if i, _ := b.info(first); i.Parent != parent || i.State != sdk.VolumeOpen {
		b.Errorf("a clone is listed as %+v", i)
	}
	for name, e := range before {
		got := b.tree(first, "")[name]
		if name == "." {
			got.mtime = e.mtime // the root is the clone's own, and as old
		}
		if got != e {
			b.Errorf("in a clone %q is %+v, want %+v", name, got, e)
		}
	}
	b.ok(b.s.StreamIn(b.ctx, first, sdk.StreamIn{}, bytes.NewReader(pack(file("hello", "changed"), file("new", "new")))))
	for _, id := range []sdk.VolumeID{parent, second} {
		if got := b.tree(id, "")["hello"]; got.data != "hello" {
			b.Errorf("a write to a clone shows elsewhere: %q", got.data)
		}
	}
	// A chain of them.
	id := parent
	for i := range 5 {
		id = b.volume(clone(id))
		b.ok(b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack(file(string(rune('a'+i)), "x")))))
		b.ok(b.s.SealVolume(b.ctx, id, nil))
	}
	b.wantTree(b.tree(id, ""), append(content, file("a", "x"), file("b", "x"), file("c", "x"), file("d", "x"), file("e", "x"))...)
}

// testRestarted: a server that is started anew leaves each volume of a chain of clones as it was.
func testRestarted(b bench) {
	change := func(id sdk.VolumeID, to string) sdk.VolumeID {
		b.Helper()
		b.ok(b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack(file("f", to), file("only-"+to, "x")))))
		b.ok(b.s.SealVolume(b.ctx, id, nil))
		return id
	}
	var chain []sdk.VolumeID
	names := []string{"first", "second", "third", "fourth"}
	for i, name := range names {
		if i == 0 {
			chain = append(chain, change(b.volume(), name))
			continue
		}
		chain = append(chain, change(b.volume(clone(chain[i-1])), name))
	}
	b.servers.StopBaggageclaim(b)
	b.servers.StartBaggageclaim(b)
	for i, id := range chain {
		tree := b.tree(id, "")
		if got := tree["f"].data; got != names[i] {
			b.Errorf("the %s volume has what is the %s's", names[i], got)
		}
		if len(tree) != i+3 { // the root, f, and what each has added
			b.Errorf("the %s volume has %d files", names[i], len(tree))
		}
	}
}

func testOwners(b bench) {
	owner := func(uid, gid int64, more ...func(*sdk.VolumeSpec)) func(*sdk.VolumeSpec) {
		return func(s *sdk.VolumeSpec) {
			s.UID, s.GID = uid, gid
			for _, m := range more {
				m(s)
			}
		}
	}
	id := b.volume(owner(1000, 2000))
	if r := b.tree(id, "")["."]; r.uid != 1000 || r.gid != 2000 || r.mode != 0o755 {
		b.Errorf("the root is %+v", r)
	}
	b.ok(b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack(file("f", "f").owned(5, 6), dir("d")))))
	b.ok(b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack(dir(".").with(0o2770).owned(1000, 2000)))))
	b.ok(b.s.SealVolume(b.ctx, id, nil))
	for range 2 { // the second time the parent's root is known
		c := b.tree(b.volume(clone(id), owner(77, 88)), "")
		if r := c["."]; r.uid != 77 || r.gid != 88 || r.mode != 0o2770 {
			b.Errorf("the root of a clone is %+v", r)
		}
		if f := c["f"]; f.uid != 5 || f.gid != 6 {
			b.Errorf("below the root of a clone a file is %+v", f)
		}
	}
	if v, _, err := b.s.get(b.ctx, string(id)); err != nil || v.root != (root{known: true, uid: 1000, gid: 2000, mode: 0o2770}) {
		b.Errorf("the parent's root is remembered as %+v (%v)", v.root, err)
	}
	same := b.tree(b.volume(clone(id), owner(1000, 2000)), "")["."]
	if same.uid != 1000 || same.gid != 2000 || same.mode != 0o2770 {
		b.Errorf("the root of a clone with the parent's owner is %+v", same)
	}
	b.ok(b.s.CreateVolume(b.ctx, sdk.VolumeSpec{ID: "big-owner", Token: "t", UID: 4294967293, GID: 4294967293}))
	b.destroyLater("big-owner")
	if r := b.tree("big-owner", "")["."]; r.uid != 4294967293 || r.gid != 4294967293 {
		b.Errorf("the root is %+v", r)
	}
}

func testPrivileged(b bench) {
	privileged := func(p bool, more ...func(*sdk.VolumeSpec)) func(*sdk.VolumeSpec) {
		return func(s *sdk.VolumeSpec) {
			s.Privileged = p
			for _, m := range more {
				m(s)
			}
		}
	}
	for _, first := range []bool{false, true} {
		id := b.volume(privileged(first))
		b.ok(b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack(file("root", "r").with(0o4755), file("user", "u").owned(1000, 1000)))))
		b.ok(b.s.SealVolume(b.ctx, id, nil))
		for _, second := range []bool{false, true} {
			c := b.volume(privileged(second, clone(id)))
			volumes, release, err := b.s.Share(b.ctx, c)
			b.ok(err)
			release()
			v := volumes[c]
			if v.Privileged != second {
				b.Errorf("a clone of %v asked to be %v is %v", first, second, v.Privileged)
			}
			want := uint32(4294967294) // root of those containers, outside
			if second {
				want = 0
			}
			for name, owner := range map[string]uint32{"root": want, "user": 1000, "": want} {
				if got := ownerOf(b.T, v.Path+"/"+name); got != owner {
					b.Errorf("in a clone of %v that is %v, %q belongs to %d outside, want %d", first, second, name, got, owner)
				}
			}
			if e := b.tree(c, "")["root"]; e.uid != 0 || e.mode != 0o4755 {
				b.Errorf("a clone of %v that is %v gives %+v", first, second, e)
			}
		}
	}
}

func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

func testImport(b bench) {
	source := "/usr/share/common-licenses"
	from := func(p string) sdk.VolumeSpec {
		return sdk.VolumeSpec{ID: newID(), Token: sdk.NewToken(), Import: p}
	}
	id := b.volume(func(s *sdk.VolumeSpec) { s.Import = source })
	if e, ok := b.tree(id, "")["GPL-3"]; !ok || len(e.data) == 0 {
		b.Error("the directory's content is not there")
	}
	for _, p := range []string{"/etc", source + "/../..", "relative", source + "x", "/usr/share", "/"} {
		b.want(b.s.CreateVolume(b.ctx, from(p)), sdk.Invalid, sdk.ReasonPath)
	}
	b.want(b.s.CreateVolume(b.ctx, from(source+"/missing")), sdk.Invalid, sdk.ReasonPath)
	b.want(b.s.CreateVolume(b.ctx, from(source+"/GPL-3")), sdk.Invalid, sdk.ReasonPath) // a file that is no archive
	none := storeOf(b.T, b.servers.Baggageclaim)
	b.want(none.CreateVolume(b.ctx, from(source)), sdk.Unsupported, "")
}
