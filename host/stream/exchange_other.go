//go:build !linux

package stream

func exchange(fresh, path, old string) error { return exchangeByTwo(fresh, path, old) }
