//go:build unix

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestBadInput runs slipway on what is wrong, and expects to be told where and what to do, once.
func TestBadInput(t *testing.T) {
	zeros := strings.Repeat("0", 64)
	copies := `job "copies" {
  input "text" {}
  step "copy" {
    inputs  = { text = input.text }
    outputs = ["copy"]
    run {
      path = "cp"
      args = ["-r", "text", "copy"]
    }
  }
  output "copy" { from = step.copy.copy }
}
`
	step := func(name, inputs string) string {
		return `  step "` + name + `" {
    inputs  = { ` + inputs + ` }
    outputs = ["o"]
    run { path = "true" }
  }
`
	}
	for name, c := range map[string]struct {
		files   map[string]string
		prepare func(t *testing.T, p *place)
		args    []string
		code    int
		says    []string
	}{
		"unknown key of a worker": {
			files: map[string]string{"c.hcl": "plugin \"memory\" { command = \"slipway-memory\" }\nworker \"w\" {\n  plugin = \"memory\"\n  platfrom = \"linux\"\n}\n"},
			args:  []string{"-c", "c.hcl", "exec", "--", "true"}, code: codeUsage,
			says: []string{"on c.hcl line 4", `platfrom = "linux"`, `Did you mean "platform"?`},
		},
		"unknown key of a plugin's own": {
			files: map[string]string{"c.hcl": onMemory("config {\n    memmory = \"1MiB\"\n  }")},
			args:  []string{"-c", "c.hcl", "exec", "--", "true"}, code: codeUsage,
			says: []string{"on c.hcl line 4", `memmory = "1MiB"`, `Did you mean "memory"?`},
		},
		"no configuration": {
			args: []string{"-c", "none.hcl", "exec", "--", "true"}, code: codeUsage,
			says: []string{"Cannot read the configuration", "none.hcl: no such file"},
		},
		"missing plugin": {
			files: map[string]string{"c.hcl": "plugin \"g\" { command = \"slipway-garden\" }\nworker \"w\" { plugin = \"g\" }\n"},
			prepare: func(_ *testing.T, p *place) {
				p.env = append(p.env, "PATH=/no/where:/else/where:/no/where")
			},
			args: []string{"-c", "c.hcl", "exec", "--", "true"}, code: codeExecFailed,
			says: []string{`slipway: plugin "g": no program "slipway-garden"; looked at`, "/bin/slipway-garden (not there), /no/where/slipway-garden (not there), " +
				"/else/where/slipway-garden (not there); install it there"},
		},
		"missing plugin with a path": {
			files: map[string]string{"conf/c.hcl": "plugin \"g\" { command = \"./lib/garden\" }\nworker \"w\" { plugin = \"g\" }\n", "j.hcl": oneStep("true")},
			args:  []string{"-c", "conf/c.hcl", "run", "j.hcl"}, code: codeInternal,
			says: []string{`plugin "g"`, "conf/lib/garden (not there)"},
		},
		"plugin that is no program": {
			files: map[string]string{"c.hcl": "plugin \"g\" { command = \"./c.hcl\" }\nworker \"w\" { plugin = \"g\" }\n"},
			args:  []string{"-c", "c.hcl", "exec", "--", "true"}, code: codeExecFailed,
			says: []string{`plugin "g"`, "not executable, chmod +x it"},
		},
		"wrong checksum": {
			files: map[string]string{"c.hcl": onMemory(`sha256 = "` + zeros + `"`)},
			args:  []string{"-c", "c.hcl", "exec", "--", "true"}, code: codeExecFailed,
			says: []string{`plugin "memory"`, "/bin/slipway-memory has another SHA-256", sumOfPlugin(t), zeros},
		},
		"plugin of another version": {
			files:   map[string]string{"c.hcl": "plugin \"g\" { command = \"./old\" }\nworker \"w\" { plugin = \"g\" }\n"},
			prepare: script("old", "echo '1|99|unix|/no/where|grpc|'\nexec sleep 600"),
			args:    []string{"-c", "c.hcl", "exec", "--", "true"}, code: codeExecFailed,
			says: []string{`plugin "g"`, "version", "99"},
		},
		"plugin that says something else": {
			files:   map[string]string{"c.hcl": "plugin \"g\" { command = \"./chatty\" }\nworker \"w\" { plugin = \"g\" }\n"},
			prepare: script("chatty", "echo hello, is anybody there\nexec sleep 600"),
			args:    []string{"-c", "c.hcl", "exec", "--", "true"}, code: codeExecFailed,
			says: []string{`plugin "g"`, "hello, is anybody there"},
		},
		"plugin that dies at its start": {
			files:   map[string]string{"c.hcl": "plugin \"g\" { command = \"./dies\" }\nworker \"w\" { plugin = \"g\" }\n", "j.hcl": oneStep("true")},
			prepare: script("dies", "echo cannot open the table >&2\nexit 7"),
			args:    []string{"-c", "c.hcl", "run", "j.hcl"}, code: codeInternal,
			says: []string{`plugin "g"`, "exit code 7", "cannot open the table"},
		},
		"one plugin of two does not run, and the step needs it": {
			files: map[string]string{
				"c.hcl": onMemory("") + "plugin \"g\" { command = \"./none\" }\nworker \"w\" { plugin = \"g\" }\n",
				"j.hcl": strings.Replace(oneStep("true"), "outputs", "runtime = \"g\"\n    outputs", 1),
			},
			args: []string{"-c", "c.hcl", "run", "j.hcl"}, code: codeInternal,
			says: []string{`slipway: plugin "g": no program "./none"; looked at /`, "only - errored", `runtime "g"`, `w: its plugin "g" does not run`},
		},
		"platform that nobody has": {
			args: []string{"exec", "--platform", "vax", "--", "true"}, code: codeExecFailed,
			says: []string{"slipway: container of exec: no compatible worker", `platform "vax"`, `"memory", not "vax"`},
		},
		"job with a cycle": {
			files: map[string]string{"j.hcl": "job \"j\" {\n" + step("a", "x = step.b.o") + step("b", "x = step.a.o") + "}\n"},
			args:  []string{"run", "j.hcl"}, code: codeUsage,
			says: []string{"Cycle", "on j.hcl line 3", "a -> b -> a"},
		},
		"job with an unknown input": {
			files: map[string]string{"j.hcl": "job \"j\" {\n  input \"text\" {}\n" + step("a", "x = input.txet") + "}\n"},
			args:  []string{"run", "j.hcl"}, code: codeUsage,
			says: []string{"on j.hcl line 4", "input.txet", `Did you mean`, "text"},
		},
		"no job": {
			args: []string{"run", "none.hcl"}, code: codeUsage, says: []string{"Cannot read the job", "none.hcl: no such file"},
		},
		"input not given, another one given": {
			files: map[string]string{"j.hcl": copies},
			args:  []string{"run", "j.hcl", "-i", "txt=."}, code: codeUsage,
			says: []string{`slipway: j.hcl:2`, `input "text" needs a directory: give -i text=DIR`, "\n", `slipway: the job has no input "txt": its inputs are ["text"]`},
		},
		"input that is not there": {
			files: map[string]string{"j.hcl": copies},
			args:  []string{"run", "j.hcl", "-i", "text=none"}, code: codeUsage,
			says: []string{`slipway: input "text"`, "none: no such file or directory"},
		},
		"input with something that cannot be read": {
			files:   map[string]string{"j.hcl": copies, "text/a": "a"},
			prepare: unreadable("text/secret"),
			args:    []string{"run", "j.hcl", "-i", "text=text", "-o", "copy=copy"}, code: codeInternal,
			says: []string{"copy - errored", "input/text", `secret`, "; leave it out", "output copy was not written"},
		},
		"input larger than all memory": {
			files: map[string]string{"j.hcl": copies, "c.hcl": onMemory(`config { memory = "1MiB" }`), "text/big": strings.Repeat("x", 2<<20)},
			args:  []string{"-c", "c.hcl", "run", "j.hcl", "-i", "text=text"}, code: codeInternal,
			says: []string{"copy - errored", "input/text from local to m", "1048576", `raise "memory"`},
		},
		"unknown output": {
			files: map[string]string{"j.hcl": copies, "text/a": "a"},
			args:  []string{"run", "j.hcl", "-i", "text=text", "-o", "cpy=out"}, code: codeUsage,
			says: []string{`slipway: the job has no output "cpy": its outputs are ["copy"]`},
		},
		"target that is not empty": {
			files: map[string]string{"j.hcl": copies, "text/a": "a", "out/precious": "p"},
			args:  []string{"run", "j.hcl", "-i", "text=text", "-o", "copy=out"}, code: codeUsage,
			says: []string{`slipway: output "copy"`, `"out"`, "is not empty; --force replaces it"},
		},
		"target that is a file": {
			files: map[string]string{"j.hcl": copies, "text/a": "a", "out": "p"},
			args:  []string{"run", "j.hcl", "-i", "text=text", "-o", "copy=out", "--force"}, code: codeUsage,
			says: []string{`slipway: output "copy"`, `"out"`, "is not a directory"},
		},
		"target below nothing": {
			files: map[string]string{"j.hcl": copies, "text/a": "a"},
			args:  []string{"run", "j.hcl", "-i", "text=text", "-o", "copy=no/where/out"}, code: codeUsage,
			says: []string{`slipway: output "copy"`, "no/where", "does not exist; make that first"},
		},
		"target that cannot be written": {
			files: map[string]string{"j.hcl": copies, "text/a": "a"},
			args:  []string{"run", "j.hcl", "-i", "text=text", "-o", "copy=/proc/out"}, code: codeUsage,
			says: []string{`slipway: output "copy"`, "/proc"},
		},
		"command that is not there": {
			files: map[string]string{"j.hcl": strings.Replace(oneStep("x"), `"sh"`, `"frobnicate"`, 1)},
			args:  []string{"run", "j.hcl", "-o", "out=out"}, code: codeInternal,
			says: []string{"only - errored", "worker memory", `"frobnicate"`, "output out was not written"},
		},
		"output that the step did not make well": {
			files: map[string]string{"j.hcl": oneStep("echo half > out/half; exit 3")},
			args:  []string{"run", "j.hcl", "-o", "out=out"}, code: codeStepFailed,
			says: []string{"only - failed: exit code 3", "output out was not written"},
		},
		"state that is a file": {
			files: map[string]string{"state": "x"},
			args:  []string{"--state", "state", "exec", "--", "true"}, code: codeExecFailed, says: []string{"slipway: ", "state"},
		},
		"unknown command":    {args: []string{"rnu"}, code: codeUsage, says: []string{`there is no command "rnu"`, "run"}},
		"unknown flag":       {args: []string{"run", "--forse"}, code: codeUsage, says: []string{"--forse", `see "slipway run --help"`}},
		"no job file":        {args: []string{"run"}, code: codeUsage, says: []string{`run needs a job file: slipway run JOB.hcl; see "slipway run --help"`}},
		"two job files":      {args: []string{"run", "a.hcl", "b.hcl"}, code: codeUsage, says: []string{"run takes one job file, not 2"}},
		"no run":             {args: []string{"logs"}, code: codeUsage, says: []string{"logs needs a run: slipway logs --state DIR RUN"}},
		"empty state":        {args: []string{"exec", "--state", "", "--", "true"}, code: codeUsage, says: []string{"--state is empty: give a value"}},
		"empty config":       {args: []string{"-c", "", "plugins"}, code: codeUsage, says: []string{"--config is empty"}},
		"empty id":           {args: []string{"run", "--state", "state", "--id=", "j.hcl"}, code: codeUsage, says: []string{"--id is empty"}},
		"id without a state": {args: []string{"run", "--id", "x", "j.hcl"}, code: codeUsage, says: []string{"--id x needs --state DIR"}},
		"id that leads out":  {args: []string{"run", "--state", "state", "--id", "../x", "j.hcl"}, files: map[string]string{"j.hcl": oneStep("true")}, code: codeUsage, says: []string{`"../x"`, "letters"}},
		"id with a space":    {args: []string{"run", "--state", "state", "--id", "a b", "j.hcl"}, files: map[string]string{"j.hcl": oneStep("true")}, code: codeUsage, says: []string{`"a b"`, "letters"}},
		"two formats":        {args: []string{"run", "-o", "json", "-o", "text", "j.hcl"}, code: codeUsage, says: []string{"-o json and -o text: choose one"}},
		"exec, input with something that cannot be read": {
			files: map[string]string{"in/a": "a"}, prepare: unreadable("in/secret"),
			args: []string{"exec", "-i", "in=in", "--", "true"}, code: codeUsage, says: []string{"input/in", "in/secret", "; leave it out of the input"},
		},
		"exec, input with a socket": {
			prepare: func(_ *testing.T, p *place) {
				p.must(os.Mkdir(filepath.Join(p.work, "in"), 0o755))
				p.must(syscall.Mknod(filepath.Join(p.work, "in/sock"), syscall.S_IFSOCK|0o600, 0))
				p.t.Cleanup(func() { p.must(os.Remove(filepath.Join(p.work, "in/sock"))) })
			},
			args: []string{"exec", "-i", "in=in", "--", "true"}, code: codeUsage, says: []string{"in/sock", "neither a file", "; leave it out of the input"},
		},
		"exec, input that is a named pipe": {
			prepare: func(_ *testing.T, p *place) { p.must(syscall.Mkfifo(filepath.Join(p.work, "pipe"), 0o600)) },
			args:    []string{"exec", "-i", "in=pipe", "--", "true"}, code: codeUsage, says: []string{`input "in"`, "neither a directory nor a file"},
		},
		"exec, input outside": {
			args: []string{"exec", "-i", "../x=.", "--", "true"}, code: codeUsage, says: []string{`"../x" leaves /work; name inputs and outputs by paths below`},
		},
		"exec, output outside": {
			args: []string{"exec", "-o", "../x=out", "--", "true"}, code: codeUsage, says: []string{`"../x" leaves /work; name inputs`},
		},
		"temporary directory that is not there": {
			prepare: func(_ *testing.T, p *place) { p.env = append(p.env, "TMPDIR="+p.work+"/none") },
			args:    []string{"exec", "--", "true"}, code: codeExecFailed, says: []string{"/none", "set TMPDIR to a directory that can be written"},
		},
		"temporary directory that is not there, relative": {
			prepare: func(_ *testing.T, p *place) { p.env = append(p.env, "TMPDIR=none") },
			args:    []string{"workers"}, code: codeInternal, says: []string{"none/", "set TMPDIR to a directory that can be written"},
		},
		"temporary directory that cannot be written": {
			prepare: func(_ *testing.T, p *place) { p.env = append(p.env, "TMPDIR=/proc") },
			args:    []string{"plugins"}, code: codeInternal, says: []string{"/proc/", "set TMPDIR to a directory that can be written"},
		},
		"unknown format":     {args: []string{"workers", "-o", "yaml"}, code: codeUsage, says: []string{"the formats are text and json"}},
		"unknown level":      {args: []string{"--log-level", "loud", "exec", "true"}, code: codeUsage, says: []string{"the levels are debug"}},
		"input without name": {args: []string{"exec", "-i", "x", "true"}, code: codeUsage, says: []string{"-i x: want NAME=DIR"}},
		"input twice":        {args: []string{"exec", "-i", "x=.", "-i", "x=.", "true"}, code: codeUsage, says: []string{"-i x is given twice"}},
		"environment without a name": {args: []string{"exec", "-e", "x", "true"}, code: codeUsage,
			says: []string{"-e x: want NAME=VALUE"}},
		"relative dir":     {args: []string{"exec", "--dir", "x", "true"}, code: codeUsage, says: []string{"want an absolute path, such as /work/x"}},
		"logs of no state": {args: []string{"logs", "r"}, code: codeUsage, says: []string{"logs needs --state DIR"}},
		"logs of nothing": {args: []string{"logs", "r", "--state", "none"}, code: codeUsage,
			says: []string{"none is no state directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t).write(c.files)
			if c.prepare != nil {
				c.prepare(t, p)
			}
			before := list(t, p.work)
			r := p.run(c.args...).wants(c.code).says(c.says...).once()
			if strings.Contains(r.out, "slipway") {
				t.Errorf("stdout has %q", r.out)
			}
			if after := list(t, p.work); after != before && !strings.HasPrefix(name, "state") {
				t.Errorf("the working directory had\n%s\nand now has\n%s", before, after)
			}
		})
	}
}

// script prepares a program, in place of a plugin.
func script(name, text string) func(*testing.T, *place) {
	return func(t *testing.T, p *place) {
		p.must(os.WriteFile(filepath.Join(p.work, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
}

// unreadable prepares something that not even root can read as a file.
func unreadable(name string) func(*testing.T, *place) {
	return func(t *testing.T, p *place) {
		file := filepath.Join(p.work, name)
		if os.Getuid() != 0 {
			p.must(os.WriteFile(file, []byte("x"), 0o000))
			return
		}
		p.must(syscall.Mkfifo(file, 0o600))
	}
}

func sumOfPlugin(t *testing.T) string {
	b, err := os.ReadFile(filepath.Join(built, "slipway-memory"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// list gives the files below a directory, with their sizes.
func list(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b.WriteString(path + " " + info.Mode().String())
		if info.Mode().IsRegular() {
			b.WriteString(" " + info.ModTime().String())
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
