package host

import (
	"slices"
	"testing"
)

func TestMergeEnv(t *testing.T) {
	image := []string{"PATH=/bin", "A=image", "B=image"}
	container := []string{"A=container", "C=x=y"}
	process := []string{"B=", "D=one\ntwo", "D=last"}
	got := mergeEnv(image, container, process)
	want := []string{"PATH=/bin", "A=container", "B=", "C=x=y", "D=last"}
	if !slices.Equal(got, want) {
		t.Errorf("mergeEnv = %q, want %q", got, want)
	}
}
