//go:build linux

package engine

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func awaitPID(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return awaitEnd(ctx, fd)
}
