package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

func exit(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	code, err := strconv.Atoi(args[0])
	if err == nil {
		os.Exit(code)
	}
	return 0, err
}

// printTexts writes the first argument to stdout and the second to stderr; empty ones not at all.
func printTexts(args []string) (int, error) {
	if len(args) == 0 || len(args) > 2 {
		return 0, errUsage
	}
	for i, text := range args {
		if text == "" {
			continue
		}
		if _, err := []*os.File{os.Stdout, os.Stderr}[i].WriteString(text); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func printArgs(args []string) (int, error) {
	w := bufio.NewWriter(os.Stdout)
	for _, a := range args {
		fmt.Fprintf(w, "[%s]\n", a)
	}
	return 0, w.Flush()
}

func printEnv(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	text := "unset\n"
	if value, ok := os.LookupEnv(args[0]); ok {
		text = "[" + value + "]\n"
	}
	_, err := os.Stdout.WriteString(text)
	return 0, err
}

// printDir prints where the process is. The system is asked, not the variable PWD.
func printDir([]string) (int, error) {
	dir, err := syscall.Getwd()
	if err != nil {
		return 0, err
	}
	_, err = fmt.Println(dir)
	return 0, err
}

func printPID([]string) (int, error) {
	_, err := fmt.Println(os.Getpid())
	return 0, err
}

// report prints as one JSON object what the process is, with bytes that are no UTF-8 kept by base64.
func report(args []string) (int, error) {
	dir, err := syscall.Getwd()
	if err != nil {
		return 0, err
	}
	raw := func(texts []string) [][]byte {
		all := make([][]byte, 0, len(texts))
		for _, t := range texts {
			all = append(all, []byte(t))
		}
		return all
	}
	groups, err := os.Getgroups()
	if err != nil {
		groups = nil // WASI has none
	}
	return 0, json.NewEncoder(os.Stdout).Encode(map[string]any{
		"args": raw(args), "env": raw(os.Environ()), "dir": dir, "pid": os.Getpid(),
		"uid": os.Getuid(), "gid": os.Getgid(), "euid": os.Geteuid(), "egid": os.Getegid(), "groups": groups,
	})
}

func lines(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriterSize(os.Stdout, 64<<10)
	for i := range n {
		w.WriteString(strconv.Itoa(i + 1)) // Flush tells of errors
		w.WriteByte('\n')
	}
	return 0, w.Flush()
}

// pattern writes bytes that a seed decides: SEED BYTES CHUNK [stderr]. CHUNK is how many go into one write.
func pattern(args []string) (int, error) {
	if len(args) < 3 || len(args) > 4 {
		return 0, errUsage
	}
	var n [3]int64
	for i := range n {
		v, err := strconv.ParseInt(args[i], 10, 64)
		if err != nil {
			return 0, err
		}
		n[i] = v
	}
	out := os.Stdout
	if len(args) == 4 && args[3] == "stderr" {
		out = os.Stderr
	}
	if n[2] <= 0 {
		return 0, errUsage
	}
	g := newGenerator(uint64(n[0]))
	buf := make([]byte, min(n[2], n[1]))
	for left := n[1]; left > 0; {
		chunk := buf[:min(left, int64(len(buf)))]
		g.fill(chunk)
		if _, err := out.Write(chunk); err != nil {
			return 0, err
		}
		left -= int64(len(chunk))
	}
	return 0, nil
}

// generator is an xorshift generator of bytes. The suite has the same one.
type generator struct{ x uint64 }

func newGenerator(seed uint64) *generator {
	return &generator{x: seed*2685821657736338717 + 1442695040888963407}
}

func (g *generator) fill(p []byte) {
	for i := range p {
		g.x ^= g.x << 13
		g.x ^= g.x >> 7
		g.x ^= g.x << 17
		p[i] = byte(g.x >> 32)
	}
}
