//go:build !linux && !darwin

package tree

func (a attr) sys() any { return nil }
