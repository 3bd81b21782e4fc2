package conformance

import (
	"archive/tar"
	"context"
	"errors"
	"slices"

	"github.com/slipway-run/slipway/sdk"
)

// givenCases check features of which only a worker's operator knows what they work on: see [Given].
func givenCases() []Case {
	return []Case{
		{
			ID: "Y09-image-ref", Title: "where image.ref is named, an image that the runtime has is the container's root, and stays as it was", Promises: []string{"14f", "9k"}, Level: Must, Profile: Core,
			Needs: []sdk.Feature{sdk.FeatureImageRef}, Env: []Requirement{EnvBare, EnvImageRef}, Run: runImageRef,
			Doc: "Catches a reference that is taken and not used: the step runs in whatever root there is, and fails far from the cause, or does not fail. Compared with a container of the target's own image, which must not hold the same file.",
		},
		{
			ID: "V13-import", Title: "where volume.import is named, a volume holds what was imported, what is written to it is its own, and other paths are Invalid", Promises: []string{"14f", "14e"}, Level: Must, Profile: Core,
			Needs: []sdk.Feature{sdk.FeatureVolumeImport}, Env: []Requirement{EnvImport}, Run: runImport,
			Doc: "Catches a volume that is empty, and one that is the operator's directory itself: the first step that writes there changes it for all others.",
		},
	}
}

func runImageRef(ctx context.Context, c *C) {
	given := c.suite.target.Given
	with := func(s *sdk.ContainerSpec) { s.Image = sdk.Image{Ref: given.ImageRef} }
	read := func(id sdk.ContainerID) Journal { return c.Exec(ctx, id, c.Commands.CatFile(given.ImageFile)) }
	first := c.Container(ctx, with)
	j := read(first)
	if j.Exit.Code != 0 {
		c.Fatalf("a feature that is named works", "in a container of image %q there is no %q: %s", given.ImageRef, given.ImageFile, exitText(j.Exit))
	}
	if c.suite.target.Image.Ref == given.ImageRef {
		c.NotObservable("every container of this run has that image: name another")
	}
	plain := c.ContainerSpec()
	err := c.W.CreateContainer(ctx, plain, nil)
	if !errors.Is(err, sdk.ReasonImage) { // else there is none without an image
		c.OK(err, "creating container %q of the target's own image", plain.ID)
		if without := read(plain.ID); without.Exit.Code == 0 && string(without.Stdout) == string(j.Stdout) {
			c.Errorf("a feature that is named works", "a container of image %q and one that did not ask for it have the same %q (if all containers have that file, name another)", given.ImageRef, given.ImageFile)
		}
	}
	c.WantExit(c.Exec(ctx, first, c.Commands.Append(given.ImageFile, ", changed")), 0, "writing to the container's root")
	c.WantOutput(read(c.Container(ctx, with)), string(j.Stdout), "", "reading a file of the image in a second container")
}

func runImport(ctx context.Context, c *C) {
	given := c.suite.target.Given
	spec := func(path string) sdk.VolumeSpec {
		return sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels(), Import: path}
	}
	first, second := spec(given.Import), spec(given.Import)
	c.OK(c.W.CreateVolume(ctx, first), "importing %q", given.Import)
	if i, ok := c.ListVolume(ctx, first.ID); !ok || i.State != sdk.VolumeOpen || i.Parent != "" {
		c.Errorf("an import is a new volume", "it is listed: %v, %s, with the parent %q; want open, without one", ok, i.State, i.Parent)
	}
	tree := c.Tree(ctx, first.ID, "")
	if len(tree) == 0 {
		c.Fatalf("a feature that is named works", "a volume that was imported from %q holds nothing (if that holds nothing itself, name another path)", given.Import)
	}
	c.Put(ctx, first.ID, File("slipway-conformance", "written to an import"))
	file := slices.IndexFunc(tree, func(e Entry) bool { return e.Type == tar.TypeReg })
	if file >= 0 {
		c.Put(ctx, first.ID, File(tree[file].Path, "changed in an import"))
	}
	c.OK(c.W.CreateVolume(ctx, second), "importing %q again", given.Import)
	c.WantTree(c.Tree(ctx, second.ID, ""), tree, IgnoreTimes, "an import, after another one of the same path was written to")
	if file >= 0 {
		id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: second.ID, Path: "/v"}))
		c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile("/v/"+tree[file].Path)), tree[file].Data, "", "reading a file of an import")
	}
	for what, path := range map[string]string{"that is not there": given.Import + "/slipway-" + string(first.Token), "that is relative": "slipway"} {
		refused := spec(path)
		c.WantReason(c.W.CreateVolume(ctx, refused), sdk.Invalid, sdk.ReasonPath, "what can never work is said to be so, and makes nothing", "importing a path %s", what)
		c.wantNoVolume(ctx, refused.ID)
	}
}
