//go:build linux

package store

import (
	"context"
	"io"

	"github.com/slipway-run/slipway/sdk"
)

func errNotHere() error {
	return &sdk.Error{Class: sdk.Unsupported, Message: "a store does not do that on this connection"}
}

// noContainers is the half of a worker that a store is not.
type noContainers struct{}

func (noContainers) CreateContainer(context.Context, sdk.ContainerSpec, func(sdk.Progress)) error {
	return errNotHere()
}
func (noContainers) ListContainers(context.Context, sdk.Filter, func(sdk.ContainerInfo) error) error {
	return errNotHere()
}
func (noContainers) DestroyContainer(context.Context, sdk.ContainerID) error { return errNotHere() }
func (noContainers) StartProcess(context.Context, sdk.ContainerID, sdk.ProcessSpec) error {
	return errNotHere()
}
func (noContainers) ListProcesses(context.Context, sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	return nil, errNotHere()
}
func (noContainers) FollowProcess(context.Context, sdk.ContainerID, sdk.ProcessID, sdk.Position, sdk.Follow) error {
	return errNotHere()
}
func (noContainers) SignalProcess(context.Context, sdk.ContainerID, sdk.ProcessID, sdk.Signal) error {
	return errNotHere()
}
func (noContainers) Close() error { return nil }

// noVolumes is the other half but for StreamIn, which a peer may not use either.
type noVolumes struct{}

func (noVolumes) Status(context.Context) (sdk.Status, error)         { return sdk.Status{}, errNotHere() }
func (noVolumes) CreateVolume(context.Context, sdk.VolumeSpec) error { return errNotHere() }
func (noVolumes) SealVolume(context.Context, sdk.VolumeID) error     { return errNotHere() }
func (noVolumes) ListVolumes(context.Context, sdk.Filter, func(sdk.VolumeInfo) error) error {
	return errNotHere()
}
func (noVolumes) DestroyVolume(context.Context, sdk.VolumeID) error { return errNotHere() }
func (noVolumes) StreamOut(context.Context, sdk.VolumeID, sdk.StreamOut, io.Writer) error {
	return errNotHere()
}
