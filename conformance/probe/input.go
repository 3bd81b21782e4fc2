package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

func cat(args []string) (int, error) {
	if len(args) != 0 {
		return 0, errUsage
	}
	return 0, pass(os.Stdin)
}

// pass copies by plain reads and writes: what the system could do by itself is not what is tested.
func pass(r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{os.Stdout}, struct{ io.Reader }{r}, make([]byte, 64<<10))
	return err
}

// take copies BYTES of stdin to stdout, and reads no more.
func take(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return 0, err
	}
	return 0, pass(io.LimitReader(os.Stdin, n))
}

// hash prints how many bytes stdin had, and their SHA-256.
func hash(args []string) (int, error) {
	if len(args) != 0 {
		return 0, errUsage
	}
	h := sha256.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{os.Stdin}, make([]byte, 64<<10))
	if err != nil {
		return 0, err
	}
	_, err = fmt.Printf("%d %x\n", n, h.Sum(nil))
	return 0, err
}

// gate prints BEFORE, awaits a line of stdin or its end, prints AFTER and exits with CODE.
func gate(args []string) (int, error) {
	if len(args) != 3 {
		return 0, errUsage
	}
	code, err := strconv.Atoi(args[2])
	if err != nil {
		return 0, err
	}
	if _, err := printTexts(args[:1]); err != nil {
		return 0, err
	}
	if _, err := line(); err != nil {
		return 0, err
	}
	if _, err := printTexts(args[1:2]); err != nil {
		return 0, err
	}
	os.Exit(code)
	return 0, nil
}

// aLine awaits a line of stdin or its end, and prints it between BEFORE and AFTER where they are given.
func aLine(args []string) (int, error) {
	if len(args) != 0 && len(args) != 2 {
		return 0, errUsage
	}
	text, err := line()
	if err != nil || len(args) == 0 {
		return 0, err
	}
	return printTexts([]string{args[0] + text + args[1]})
}

// line reads stdin up to a newline or its end, and not a byte more.
func line() (string, error) {
	var text []byte
	b := make([]byte, 1)
	for {
		n, err := os.Stdin.Read(b)
		if errors.Is(err, io.EOF) || n == 1 && b[0] == '\n' {
			return string(text), nil
		}
		if err != nil {
			return "", err
		}
		text = append(text, b[:n]...)
	}
}

// talk does what each line of stdin says: "o TEXT" and "e TEXT" print TEXT and a newline to stdout and stderr, "x CODE" exits.
func talk(args []string) (int, error) {
	if len(args) != 0 {
		return 0, errUsage
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		what, text, _ := strings.Cut(in.Text(), " ")
		var err error
		switch what {
		case "o":
			_, err = os.Stdout.WriteString(text + "\n")
		case "e":
			_, err = os.Stderr.WriteString(text + "\n")
		case "x":
			code, convErr := strconv.Atoi(text)
			if convErr != nil {
				return 0, convErr
			}
			os.Exit(code)
		default:
			return 0, errUsage
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, in.Err()
}
