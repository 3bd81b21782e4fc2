//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package stream

import "errors"

func hold(string) (release func(), err error) { return func() {}, errors.ErrUnsupported }
