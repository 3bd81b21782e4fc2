//go:build !linux

package stream

import (
	"fmt"
	"os"
)

func identity(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	id, _, _, _ := inodeOf(info)
	if id == (inode{}) {
		return "", nil
	}
	return fmt.Sprint(id), nil
}
