package wire

import (
	"io/fs"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// File is sdk.FileInfo with bytes where they need not be UTF-8.
type File struct {
	Name       []byte
	Mode       fs.FileMode
	Size       int64
	ModTime    time.Time
	LinkTarget []byte `json:",omitempty"`
	UID, GID   int64
}

// NewFile makes a File of what the contract says.
func NewFile(i sdk.FileInfo) File {
	return File{Name: []byte(i.Name), Mode: i.Mode, Size: i.Size, ModTime: i.ModTime, LinkTarget: []byte(i.LinkTarget), UID: i.UID, GID: i.GID}
}

// SDK checks it.
func (f File) SDK() (sdk.FileInfo, error) {
	name := string(f.Name)
	if name == "" || strings.ContainsAny(name, "/\x00") || f.Size < 0 || f.UID < 0 || f.GID < 0 {
		return sdk.FileInfo{}, broken("a file named %q", Text(name))
	}
	return sdk.FileInfo{Name: name, Mode: f.Mode, Size: f.Size, ModTime: f.ModTime, LinkTarget: string(f.LinkTarget), UID: f.UID, GID: f.GID}, nil
}
