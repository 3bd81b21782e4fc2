package main

import (
	"os"
	"strconv"
	"time"
)

// alloc takes memory, BYTES, writes to each page of it, and says "held".
func alloc(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 0, err
	}
	held := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		held[i] = byte(i>>12) | 1
	}
	if n > 0 && held[0] == 0 { // or the compiler might do without it
		return codeFailed, nil
	}
	_, err = os.Stdout.WriteString("held\n")
	return 0, err
}

// sleep says that it is there and waits for an hour.
func sleep([]string) (int, error) {
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return 0, err
	}
	time.Sleep(time.Hour)
	return 0, nil
}

// nap waits without a word: MILLISECONDS.
func nap(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 0, err
	}
	time.Sleep(time.Duration(n) * time.Millisecond)
	return 0, nil
}
