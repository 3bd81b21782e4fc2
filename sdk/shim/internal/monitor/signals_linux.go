package monitor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is the kernel's, the same on all 64-bit machines that the program is made for.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const ignored = 1 // SIG_IGN

// heedSignals makes none ignored that this process has inherited so, for the command would inherit it, too. Go's signal package reaches all but
// those that C libraries keep for their threads (32 and 33), which make, for one, leaves ignored to what it runs.
func heedSignals() {
	for number := uintptr(1); number <= 64; number++ {
		var is sigaction
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, number, 0, uintptr(unsafe.Pointer(&is)), unsafe.Sizeof(is.mask), 0, 0); errno == 0 && is.handler == ignored {
			is = sigaction{}
			_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, number, uintptr(unsafe.Pointer(&is)), 0, unsafe.Sizeof(is.mask), 0, 0)
		}
	}
}
