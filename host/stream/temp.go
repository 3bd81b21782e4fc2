package stream

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	tempPrefix = ".slipway-"
	randomSize = 26    // of rand.Text
	keptOld    = "old" // in a temp, for an instant: the target's old content, and no other
)

// temp is a directory beside a place that only this user can enter, held for as long as it is used.
type temp struct {
	path    string
	release func() // to be called when it was removed, or may be
}

// tempName is how the names of a place's temps begin. Two places have the same only if their names are very long, and alike.
func (p place) tempName() string {
	const most = 255 - len(tempPrefix) - len("-") - randomSize // of most file systems
	base := filepath.Base(p.path)
	if len(base) > most {
		cut := most
		for cut > most-utf8.UTFMax && !utf8.RuneStart(base[cut]) {
			cut--
		}
		base = base[:cut]
	}
	return tempPrefix + base + "-"
}

// isTemp tells a name that makeTemp gives for the place.
func (p place) isTemp(name string) bool {
	random, ok := strings.CutPrefix(name, p.tempName())
	return ok && len(random) == randomSize && strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// makeTemp makes a temp and holds it.
func (p place) makeTemp() (temp, error) {
	for {
		path := filepath.Join(filepath.Dir(p.path), p.tempName()+rand.Text())
		if err := os.Mkdir(path, 0o700); err != nil {
			return temp{}, fmt.Errorf("nothing can be made in %q: %w", filepath.Dir(path), bare(err))
		}
		release, err := hold(path)
		if err == nil || errors.Is(err, errors.ErrUnsupported) {
			return temp{path, release}, nil
		}
		// Somebody who sweeps took it before it was held, and removes it.
		if !errors.Is(err, errHeld) && !errors.Is(err, fs.ErrNotExist) {
			return temp{}, errors.Join(err, os.Remove(path))
		}
	}
}

// sweep removes what killed programs left beside the place. What cannot be removed now is left to the next one, and so is what
// has the target's old content in it: that is for people to look at.
func (p place) sweep() {
	entries, err := os.ReadDir(filepath.Dir(p.path))
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() && p.isTemp(e.Name()) {
			removeUnheld(filepath.Join(filepath.Dir(p.path), e.Name()))
		}
	}
}

func removeUnheld(path string) {
	release, err := hold(path)
	if err != nil {
		return
	}
	defer release()
	if _, err := os.Lstat(filepath.Join(path, keptOld)); errors.Is(err, fs.ErrNotExist) {
		_ = removeTree(path) // see sweep
	}
}
