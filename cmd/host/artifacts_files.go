package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-run/slipway/internal/filemode"
	"github.com/slipway-run/slipway/sdk"
)

func writeFiles(to *outlet, files []sdk.FileInfo) error {
	t := newTable(to, "MODE", "OWNER", "SIZE", "MODIFIED", "NAME")
	for _, f := range files {
		size, modified, name := "-", "-", f.Name
		switch {
		case f.Mode.IsRegular():
			size = strconv.FormatInt(f.Size, 10)
		case f.Mode.IsDir():
			name += "/"
		case f.LinkTarget != "":
			name += " -> " + f.LinkTarget
		}
		if !f.ModTime.IsZero() {
			modified = f.ModTime.Local().Format(time.DateTime)
		}
		t.row(strings.ToLower(f.Mode.String()), fmt.Sprintf("%d:%d", f.UID, f.GID), size, modified, name)
	}
	return t.end()
}

type fileJSON struct {
	Name     string     `json:"name"`
	Mode     string     `json:"mode"`            // octal, as st_mode: type and permissions
	Bytes    *int64     `json:"bytes,omitempty"` // of a regular file
	Modified *time.Time `json:"modified,omitempty"`
	Target   string     `json:"target,omitempty"` // of a symbolic link
	UID      int64      `json:"uid"`
	GID      int64      `json:"gid"`
}

func writeFilesJSON(to *outlet, files []sdk.FileInfo) error {
	out := make([]fileJSON, 0, len(files))
	for _, f := range files {
		j := fileJSON{Name: f.Name, Mode: fmt.Sprintf("%07o", filemode.ToPOSIX(f.Mode)), Modified: known(f.ModTime), Target: f.LinkTarget, UID: f.UID, GID: f.GID}
		if f.Mode.IsRegular() {
			j.Bytes = &f.Size
		}
		out = append(out, j)
	}
	return to.writeJSON(out)
}
