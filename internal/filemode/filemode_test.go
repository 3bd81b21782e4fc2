package filemode

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestModes(t *testing.T) {
	for posix, mode := range map[uint32]fs.FileMode{
		0o100644: 0o644, 0o040755: fs.ModeDir | 0o755, 0o041777: fs.ModeDir | fs.ModeSticky | 0o777, 0o120777: fs.ModeSymlink | 0o777, 0o106755: fs.ModeSetuid | fs.ModeSetgid | 0o755,
		0o010600: fs.ModeNamedPipe | 0o600, 0o140700: fs.ModeSocket | 0o700, 0o060660: fs.ModeDevice | 0o660, 0o020666: fs.ModeDevice | fs.ModeCharDevice | 0o666,
	} {
		if got := ToPOSIX(mode); got != posix {
			t.Errorf("%v is %o, want %o", mode, got, posix)
		}
		if got := FromPOSIX(posix); got != mode {
			t.Errorf("%o is %v, want %v", posix, got, mode)
		}
		if got := Bits(mode); got != posix&0o7777 {
			t.Errorf("%v has the bits %o", mode, got)
		}
	}
	if got := FromPOSIX(0o4644); got != fs.ModeSetuid|0o644 {
		t.Errorf("without a type: %v", got)
	}
	if got := ToPOSIX(fs.ModeIrregular | 0o600); got != 0o100600 {
		t.Errorf("of a type of its own: %o", got)
	}
	info, err := os.Stat(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && FromPOSIX(uint32(sys.Mode)) != info.Mode() {
		t.Errorf("%o is %v and not %v", sys.Mode, FromPOSIX(uint32(sys.Mode)), info.Mode())
	}
}
