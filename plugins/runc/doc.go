//go:build linux

// Package runc is a whole plugin for the machine that it runs on: containers by runc, volumes as directories, processes by the shim.
//
// It is what package sdk/machine makes of three functions: plugin.go is what the operator sets, driver.go the functions. How runc is driven,
// package engine knows.
//
// All that it knows is below one directory, so a plugin that was killed loses nothing, and two plugins may serve one directory at
// once. It touches nothing outside, but for cgroups of its containers.
//
// # What it is not
//
// Root in a container is root on the machine, with docker's capabilities and without a seccomp profile; a container that is not
// hermetic uses the machine's network. A volume is copied when it is cloned, by reflink where the file system can.
package runc
