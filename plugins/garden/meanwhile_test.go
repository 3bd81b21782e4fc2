package garden

import (
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// testMadeMeanwhile has another plugin, such as one that was thought dead, make a container whole while this one makes it. Whatever this call comes to, the container stays, and what it runs
// goes on; who asks again is answered by it.
func testMadeMeanwhile(t *testing.T, x *world) {
	other := x.with(t, func(*Config) {})
	other.statusOf(t) // what is made once is made
	ctx := testkit.Context(t)
	for name, c := range map[string]struct {
		phase string
		token sdk.Token
		class sdk.Class
	}{
		"before its volumes are made":                       {"copying", token, sdk.Unavailable},
		"before the server is asked":                        {"starting", token, sdk.Unavailable},
		"with another token":                                {"copying", "other", sdk.AlreadyExists},
		"with another token, once only the server is asked": {"starting", "other", sdk.AlreadyExists},
	} {
		t.Run(name, func(t *testing.T) {
			made := sdk.ContainerSpec{ID: "meanwhile", Token: c.token, Image: sdk.Image{Volume: "image"}}
			asked := made
			asked.Token = token
			t.Cleanup(func() { x.drop(t, made.ID) })
			meanwhile := func(p sdk.Progress) {
				if p.Phase != c.phase {
					return
				}
				if c.phase == "starting" && c.token != token { // nothing of this one is in its way
					if err := x.store.Remove(ctx, rootVolume(made.ID), slipwayVolume(made.ID)); err != nil {
						t.Error(err)
					}
				}
				if err := other.CreateContainer(ctx, made, nil); err != nil {
					t.Errorf("the other: %v", err)
				}
			}
			want(t, x.CreateContainer(ctx, asked, meanwhile), c.class, "", `"meanwhile"`)
			if out := other.sh(t, made.ID, "p", "echo there"); out != "there\n" {
				t.Errorf("in the container: %q", out)
			}
			if err := x.CreateContainer(ctx, made, nil); err != nil {
				t.Errorf("asked again: %v", err)
			}
		})
	}
}
