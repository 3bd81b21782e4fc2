// Package onnomad holds proofs, as tests only: the driver and the program on allocations of a real Nomad agent, over `alloc exec`, which is a
// transport that neither belongs to this machine nor can be asked what became of a command. Each test runs on Nomad's drivers raw_exec and exec.
//
// The runtime that they drive is as small as it can be and no plugin to use: a container is a job with one allocation, whose task is the
// supervisor; its list is Nomad's list of jobs. Volumes are directories of this machine that are copied into a container when it is made, and back when
// they are sealed or it is destroyed. What the product's plugin makes of Nomad is decided there.
//
// They are skipped without root and without Nomad, and fail under CI=true instead. Tests of the driver alone, which need no
// container, are in package shim; those of the program on containers of runc in package onrunc.
package onnomad
