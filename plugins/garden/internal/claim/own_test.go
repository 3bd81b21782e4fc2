//go:build linux

package claim

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/concourse/baggageclaim"

	"github.com/slipway-run/slipway/sdk"
)

func (b bench) get(handle string) (Volume, bool) {
	b.Helper()
	v, ok, err := b.s.Lookup(b.ctx, handle)
	b.ok(err)
	return v, ok
}

func (b bench) out(handle, path string) map[string]entry {
	b.Helper()
	var out bytes.Buffer
	b.ok(b.s.Out(b.ctx, handle, path, &out))
	return b.unpack(&out)
}

func testOwn(b bench) {
	image := b.sealed(dir("rootfs"), dir("rootfs/etc"), file("rootfs/etc/passwd", "root:x:0"), file("metadata.json", "{}"), symlink("rootfs/var", "etc"))
	container := string(newID())
	own := Own{Handle: container + ".root", Clone: string(image), UID: 0, GID: 0, Properties: map[string]string{"label": "x", "slipway:token": "t"}}
	v, err := b.s.Make(b.ctx, own)
	b.ok(err)
	if v.State != sdk.VolumeOpen || v.Path == "" || v.Labels["label"] != "x" || v.Properties[OwnProperty] != container {
		b.Errorf("made %+v", v)
	}
	scratch := Own{Handle: container + ".scratch", UID: 5, GID: 6, Mode: 0o700}
	_, err = b.s.Make(b.ctx, scratch)
	b.ok(err)
	if r := b.out(scratch.Handle, "")["."]; r.uid != 5 || r.gid != 6 || r.mode != 0o700 {
		b.Errorf("the root is %+v", r)
	}
	b.ok(b.s.Put(b.ctx, own.Handle, "rootfs", bytes.NewReader(pack(file("made", "made")))))
	again, err := b.s.Make(b.ctx, own)
	b.ok(err)
	if again.Path != v.Path || again.State != sdk.VolumeOpen {
		b.Errorf("made again %+v", again)
	}
	b.wantTree(b.out(own.Handle, "rootfs"), dir("etc"), file("etc/passwd", "root:x:0"), symlink("var", "etc"), file("made", "made"))
	b.wantTree(b.out(own.Handle, "rootfs/var/passwd"), file("passwd", "root:x:0"))
	b.ok(b.s.SetProperty(b.ctx, own.Handle, "slipway:made", "1"))
	if v, _ := b.get(own.Handle); v.Properties["slipway:made"] != "1" {
		b.Errorf("the property is not there: %v", v.Properties)
	}

	// No host sees them.
	for _, f := range []sdk.Filter{{}, {Labels: map[string]string{"label": "x"}}, {ID: own.Handle}} {
		b.ok(b.s.ListVolumes(b.ctx, f, func(i sdk.VolumeInfo) error {
			if strings.Contains(string(i.ID), ".") {
				b.Errorf("%s is listed", i.ID)
			}
			return nil
		}))
	}
	handles, err := b.s.OwnOf(b.ctx, sdk.ContainerID(container))
	b.ok(err)
	slices.Sort(handles)
	if !slices.Equal(handles, []string{own.Handle, scratch.Handle}) {
		b.Errorf("own of %s: %v", container, handles)
	}
	owned, err := b.s.Owned(b.ctx, map[string]string{"label": "x"})
	b.ok(err)
	if len(owned) != 1 || owned[0].ID != own.Handle {
		b.Errorf("owned: %v", owned)
	}
	b.ok(b.s.Remove(b.ctx, append(handles, container+".never")...))
	for _, h := range handles {
		if _, ok := b.get(h); ok {
			b.Errorf("%s is still there", h)
		}
	}
	b.ok(b.s.Remove(b.ctx, handles...))
	b.ok(b.s.Remove(b.ctx))

	// What is left half made is completed.
	half := Own{Handle: container + ".half", UID: 9, GID: 9}
	_, err = b.s.make(b.ctx, making{handle: half.Handle, strategy: baggageclaim.EmptyStrategy{}, properties: baggageclaim.VolumeProperties{OwnProperty: container, propState: stateMaking}})
	b.ok(err)
	_, err = b.s.Make(b.ctx, half)
	b.ok(err)
	if r := b.out(half.Handle, "")["."]; r.uid != 9 {
		b.Errorf("completed, its root is %+v", r)
	}
	b.ok(b.s.Remove(b.ctx, half.Handle))
	_, err = b.s.Make(b.ctx, Own{Handle: container + ".orphan", Clone: string(newID())})
	b.wantNotFound(err, sdk.KindVolume)
	open := b.volume()
	_, err = b.s.Make(b.ctx, Own{Handle: container + ".early", Clone: string(open)})
	b.want(err, sdk.FailedPrecondition, sdk.ReasonNotSealed)
	_, _, err = b.s.Share(b.ctx, open, newID())
	b.wantNotFound(err, sdk.KindVolume)
	volumes, release, err := b.s.Share(b.ctx, image, open, image)
	b.ok(err)
	if len(volumes) != 2 || volumes[image].State != sdk.VolumeSealed || volumes[open].State != sdk.VolumeOpen {
		b.Errorf("shared %v", volumes)
	}
	done := make(chan error)
	go func() { done <- b.s.SealVolume(b.ctx, open, nil) }()
	ended := false
	go func() { b.s.locks.waitFor(string(open)); ended = true; release() }()
	b.ok(<-done)
	if !ended {
		b.Error("a shared volume was sealed")
	}

	// Who has shared a volume can clone it while somebody waits for it.
	_, release, err = b.s.Share(b.ctx, image)
	b.ok(err)
	go func() { done <- b.s.SealVolume(b.ctx, image, nil) }()
	b.s.locks.waitFor(string(image))
	_, err = b.s.Make(b.ctx, Own{Handle: container + ".late", Clone: string(image), Shared: true})
	release()
	b.ok(err)
	b.ok(<-done)
	b.ok(b.s.Remove(b.ctx, container+".late"))
}

// waitFor returns once somebody waits for a name exclusively.
func (l *locks) waitFor(name string) {
	for {
		l.mu.Lock()
		k := l.names[name]
		waiting := k != nil && k.writers > 0
		l.mu.Unlock()
		if waiting {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func testBase(b bench) {
	key := "test/" + string(newID())
	var mu sync.Mutex
	filled := 0
	base := Base{Key: key, Fill: func(put func(io.Reader) error) error {
		mu.Lock()
		filled++
		mu.Unlock()
		return errors.Join(put(bytes.NewReader(pack(dir("bin"), file("bin/shim", "program").with(0o755)))), put(bytes.NewReader(pack(dir("scratch").with(0o700)))))
	}}
	first, err := b.s.Base(b.ctx, base)
	b.ok(err)
	second, err := b.s.Base(b.ctx, base)
	b.ok(err)
	if first.ID != second.ID || first.State != sdk.VolumeSealed || filled != 1 {
		b.Errorf("made %s and %s, filled %d times", first.ID, second.ID, filled)
	}
	b.wantTree(b.out(first.ID, ""), dir("bin"), file("bin/shim", "program"), dir("scratch"))
	// Another process finds it.
	other := storeOf(b.T, b.servers.Baggageclaim)
	third, err := other.Base(b.ctx, base)
	b.ok(err)
	if third.ID != first.ID || filled != 1 {
		b.Errorf("another process got %s, filled %d times", third.ID, filled)
	}
	// The privileged one is another.
	base.Privileged = true
	fourth, err := b.s.Base(b.ctx, base)
	b.ok(err)
	if fourth.ID == first.ID || !fourth.Privileged {
		b.Errorf("the privileged one is %+v", fourth)
	}
	base.Privileged = false
	// Two processes at once agree.
	base.Key += "/race"
	var got [4]Volume
	var errs [4]error
	var wg sync.WaitGroup
	for i := range got {
		store := storeOf(b.T, b.servers.Baggageclaim)
		wg.Go(func() { got[i], errs[i] = store.Base(b.ctx, base) })
	}
	wg.Wait()
	b.ok(errors.Join(errs[:]...))
	agreed, err := storeOf(b.T, b.servers.Baggageclaim).Base(b.ctx, base)
	b.ok(err)
	for _, v := range got {
		if v.State != sdk.VolumeSealed || v.ID < agreed.ID {
			b.Errorf("one got %s, later ones get %s", v.ID, agreed.ID)
		}
	}
	// One whose filling fails leaves nothing.
	failing := Base{Key: key + "/fail", Fill: func(func(io.Reader) error) error { return errOwn }}
	if _, err := b.s.Base(b.ctx, failing); err != errOwn {
		b.Errorf("an error of Fill came back as %v", err)
	}
	// What was left long ago goes, what was begun just now stays.
	begun := func(kind string, age time.Duration) string {
		h := "slipway." + kind + ".left-" + string(newID())
		_, err := b.s.make(b.ctx, making{handle: h, strategy: baggageclaim.EmptyStrategy{}, properties: baggageclaim.VolumeProperties{
			OwnProperty: ownShared, propBase: key + "/left", propState: stateMaking, propMade: strconv.FormatInt(time.Now().Add(-age).Unix(), 10),
		}})
		b.ok(err)
		return h
	}
	for _, kind := range []string{"base", "scratch"} {
		old, young := begun(kind, 2*time.Hour), begun(kind, 0)
		_, err = storeOf(b.T, b.servers.Baggageclaim).Features(b.ctx)
		b.ok(err)
		if _, ok := b.get(old); ok {
			b.Errorf("a half-made %s of two hours ago is still there", kind)
		}
		if _, ok := b.get(young); !ok {
			b.Errorf("a half-made %s of just now is gone", kind)
		}
		b.ok(b.s.Remove(b.ctx, young))
	}
	if v, ok := b.get(first.ID); !ok || v.State != sdk.VolumeSealed {
		b.Error("a whole one is gone")
	}
	imported, err := b.s.Base(b.ctx, Base{Key: key + "/import", Import: "/usr/share/common-licenses"})
	b.ok(err)
	if _, ok := b.out(imported.ID, "")["GPL-3"]; !ok {
		b.Error("nothing was imported")
	}
	if isDir, err := b.s.IsDir(b.ctx, imported.ID, ""); err != nil || !isDir {
		b.Errorf("its root is no directory (%v)", err)
	}
}

func testFeatures(b bench) {
	features, err := b.s.Features(b.ctx)
	b.ok(err)
	b.Log(features)
	again, err := b.s.Features(b.ctx)
	if err != nil || !slices.Equal(features, again) {
		b.Errorf("asked again: %v (%v)", again, err)
	}
	has := func(f sdk.Feature) bool { return slices.Contains(features, f) }
	if !has(sdk.FeatureVolumeImport) || has(sdk.FeaturePeerStream) {
		b.Errorf("features are %v: imports are allowed, there is no zone", features)
	}
	// What is named works, and what is not does not.
	id := b.filled(dir("d"), file("e", "e"), file("d/f", "f"))
	if got := b.tree(id, "")["d"].mtime == someTime; got != has(sdk.FeatureTarDirTimes) {
		b.Errorf("directories' times: %v, named %v", got, has(sdk.FeatureTarDirTimes))
	}
	for _, device := range []entry{{name: "null", kind: tar.TypeChar, major: 1, minor: 3}, {name: "whiteout", kind: tar.TypeChar}, {name: "sda", kind: tar.TypeBlock, major: 8}} {
		id := b.volume()
		err := b.s.StreamIn(b.ctx, id, sdk.StreamIn{}, bytes.NewReader(pack(device)))
		if e, ok := errors.AsType[*sdk.Error](err); (err == nil) != has(sdk.FeatureTarDevices) || ok && (e.Class != sdk.Unsupported || e.Feature != sdk.FeatureTarDevices) {
			b.Errorf("device %s: %v; the feature is named: %v", device.name, err, has(sdk.FeatureTarDevices))
		}
		if _, there := b.tree(id, "")[device.name]; there != has(sdk.FeatureTarDevices) {
			b.Errorf("device %s is there: %v", device.name, there)
		}
	}
	one, err := b.s.Incarnation(b.ctx)
	b.ok(err)
	two, err := storeOf(b.T, b.servers.Baggageclaim).Incarnation(b.ctx)
	b.ok(err)
	if one == "" || one != two {
		b.Errorf("the store is %q, and for another process %q", one, two)
	}
	_, err = b.s.destroy(b.ctx, marker)
	b.ok(err)
	if three, err := b.s.Incarnation(b.ctx); err != nil || three == one || three == "" {
		b.Errorf("a store without its marker is %q (%v)", three, err)
	}
	b.ok(b.s.Ping(b.ctx))
}
