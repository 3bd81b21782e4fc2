package nomad

import "testing"

// TestBlockIsToldFirst: before a cluster has told its nodes the block itself is told, for a host takes nodes for gone that a snapshot leaves out.
func TestBlockIsToldFirst(t *testing.T) {
	if infos := (&pool{name: "b"}).infos(); len(infos) != 1 || infos["b"].Name != "b" {
		t.Errorf("told are %v", infos)
	}
}
