//go:build !linux

package volumetar

import (
	"context"
	"io"
	"runtime"

	"github.com/slipway-run/slipway/sdk"
)

// Root is an opened directory. There are none on this system.
type Root struct{}

// Open answers Unsupported: directories are volumes on Linux only.
func Open(dir string, o Options) (*Root, error) { return nil, unsupported() }

// Close does nothing.
func (r *Root) Close() error { return nil }

// Unpack answers Unsupported.
func (r *Root) Unpack(ctx context.Context, path string, src io.Reader) error { return unsupported() }

// Pack answers Unsupported.
func (r *Root) Pack(ctx context.Context, path string, w io.Writer) error { return unsupported() }

// Stat answers Unsupported.
func (r *Root) Stat(ctx context.Context, path string) (sdk.FileInfo, error) {
	return sdk.FileInfo{}, unsupported()
}

// List answers Unsupported.
func (r *Root) List(ctx context.Context, dir string, emit func(sdk.FileInfo) error) error {
	return unsupported()
}

// ReadFile answers Unsupported.
func (r *Root) ReadFile(ctx context.Context, path string, offset, length int64, w io.Writer) error {
	return unsupported()
}

// Features answers Unsupported.
func (r *Root) Features() ([]sdk.Feature, error) { return nil, unsupported() }

func unsupported() error {
	return &sdk.Error{Class: sdk.Unsupported, Message: "directories as volumes need Linux; this is " + runtime.GOOS}
}
