package memory

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// What the features tar.xattrs and tar.sparse promise: from volume to volume, through clones, and by commands that keep all.
func TestXattrsAndHolesArePassedOn(t *testing.T) {
	w := newTestWorker(t, Options{Memory: 8 << 20})
	if s := statusOf(t, w); !s.Has(sdk.FeatureTarXattrs) || !s.Has(sdk.FeatureTarSparse) {
		t.Fatalf("features %v", s.Features)
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	must(t, tw.WriteHeader(&tar.Header{Name: "f", Mode: 0o644, Size: 1, PAXRecords: map[string]string{"SCHILY.xattr.user.x": "kept"}}))
	_, err := tw.Write([]byte("f"))
	must(t, err)
	must(t, tw.Close())
	createVolume(t, w, "a")
	must(t, w.StreamIn(t.Context(), "a", sdk.StreamIn{}, &b))

	createVolume(t, w, "other")
	create(t, w, sdk.ContainerSpec{Mounts: []sdk.Mount{{Volume: "a", Path: "/a"}, {Volume: "other", Path: "/other"}}})
	run(t, w, "c", "cd /a; cp -a f all; cp -p f some; cp -a f moved; mv moved /other; touch holes; truncate -s 64M holes; echo end >> holes")
	must(t, w.SealVolume(t.Context(), "a"))
	must(t, w.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "clone", Token: "t", Clone: "a"}))
	createVolume(t, w, "b")
	var stream bytes.Buffer
	must(t, w.StreamOut(t.Context(), "clone", sdk.StreamOut{}, &stream))
	if stream.Len() > 64<<10 {
		t.Errorf("64 MiB of holes take %d bytes", stream.Len())
	}
	must(t, w.StreamIn(t.Context(), "b", sdk.StreamIn{}, &stream)) // which has no room for zeros

	attrs := func(id sdk.VolumeID) map[string]string {
		got := map[string]string{}
		var b bytes.Buffer
		must(t, w.StreamOut(t.Context(), id, sdk.StreamOut{}, &b))
		for tr := tar.NewReader(&b); ; {
			h, err := tr.Next()
			if err == io.EOF {
				return got
			}
			must(t, err)
			got[h.Name] = h.PAXRecords["SCHILY.xattr.user.x"]
			if h.Name == "holes" && h.Size != 64<<20+4 {
				t.Errorf("holes has %d bytes", h.Size)
			}
		}
	}
	if got := attrs("b"); got["f"] != "kept" || got["all"] != "kept" || got["some"] != "" {
		t.Errorf("got %q", got)
	}
	if got := attrs("other"); got["moved"] != "kept" {
		t.Errorf("moved to another mount: %q", got)
	}
}
