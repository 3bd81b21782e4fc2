package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

type winsize struct{ Rows, Columns, X, Y uint16 }

func ioctl(fd int, request uintptr, p unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(p)); errno != 0 {
		return errno
	}
	return nil
}

func size() (w winsize, err error) {
	return w, ioctl(0, syscall.TIOCGWINSZ, unsafe.Pointer(&w))
}

// tty prints as one JSON object which of 0, 1 and 2 are terminals, the size of stdin's, and whether there is a controlling one.
func tty([]string) (int, error) {
	var is [3]bool
	for fd := range is {
		var t syscall.Termios
		is[fd] = ioctl(fd, syscall.TCGETS, unsafe.Pointer(&t)) == nil
	}
	w, _ := size() // zeros where there is none
	own, err := syscall.Open("/dev/tty", syscall.O_RDWR, 0)
	if err == nil {
		syscall.Close(own)
	}
	return 0, json.NewEncoder(os.Stdout).Encode(map[string]any{
		"terminals": is, "columns": w.Columns, "rows": w.Rows, "controlled": err == nil,
	})
}

// resized says "ready", and the terminal's rows and columns each time that it has another size.
func resized([]string) (int, error) {
	ch := make(chan os.Signal, 16)
	signal.Notify(ch, syscall.SIGWINCH)
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return 0, err
	}
	for range ch {
		w, err := size()
		if err != nil {
			return 0, err
		}
		if _, err := fmt.Printf("%d %d\n", w.Rows, w.Columns); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// printSize prints the rows and columns of stdin's terminal.
func printSize([]string) (int, error) {
	w, err := size()
	if err != nil {
		return 0, err
	}
	_, err = fmt.Println(w.Rows, w.Columns)
	return 0, err
}

// noEcho makes stdin's terminal show nothing of what is typed.
func noEcho([]string) (int, error) {
	var t syscall.Termios
	if err := ioctl(0, syscall.TCGETS, unsafe.Pointer(&t)); err != nil {
		return 0, err
	}
	t.Lflag &^= syscall.ECHO
	return 0, ioctl(0, syscall.TCSETS, unsafe.Pointer(&t))
}

// raw makes stdin's terminal pass every byte as it is, both ways, and show none.
func raw([]string) (int, error) {
	var t syscall.Termios
	if err := ioctl(0, syscall.TCGETS, unsafe.Pointer(&t)); err != nil {
		return 0, err
	}
	t.Iflag = 0
	t.Oflag &^= syscall.OPOST
	t.Lflag &^= syscall.ECHO | syscall.ECHONL | syscall.ICANON | syscall.ISIG | syscall.IEXTEN
	t.Cflag = t.Cflag&^(syscall.CSIZE|syscall.PARENB) | syscall.CS8
	t.Cc[syscall.VMIN], t.Cc[syscall.VTIME] = 1, 0
	return 0, ioctl(0, syscall.TCSETS, unsafe.Pointer(&t))
}
