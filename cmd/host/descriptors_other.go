//go:build !unix

package main

// keepDescriptors: nothing is inherited here that was not named.
func keepDescriptors() {}
