package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestHelp wants the exit codes explained in the root's help, each once, in the order in which they apply, and nowhere else.
func TestHelp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	help := p.run("--help").wants(0)
	line := regexp.MustCompile(`(?m)^ +(\d+)  \S`)
	var codes []string
	for _, m := range line.FindAllStringSubmatch(help.out, -1) {
		codes = append(codes, m[1])
	}
	var want []string
	for _, c := range []int{codeClosed, codeUsage, codeInterrupted, codeLost, codeInternal, codeTimedOut, codeStepFailed, 0,
		codeExecFailed, codeExecNotExecutable, codeExecNotFound} {
		want = append(want, strconv.Itoa(c))
	}
	if got, want := strings.Join(codes, " "), strings.Join(want, " "); got != want {
		t.Errorf("the help explains the codes %s, want %s\n%s", got, want, help.out)
	}
	p.run().wants(0).prints(help.out)
	for _, command := range []string{"run", "exec", "logs", "ps", "gc", "volumes", "explain", "plugins", "workers", "validate", "version"} {
		r := p.run(command, "--help").wants(0)
		if line.MatchString(r.out) || strings.Contains(r.out, "Exit codes") {
			t.Errorf("%s --help explains codes too:\n%s", command, r.out)
		}
		if !strings.Contains(help.out, "  "+command+" ") {
			t.Errorf("the help does not name %s", command)
		}
	}
	if r := p.run("help", "exec"); !strings.Contains(r.wants(0).out, "slipway exec [flags] [--] COMMAND [ARG...]") {
		t.Errorf("help exec prints %s", r.out)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	script := p.run("completion", "bash").wants(0).out
	bash, err := exec.LookPath("bash")
	if err != nil {
		testkit.Lacking(t, "bash, to read the script")
	}
	c := exec.Command(bash, "-n")
	c.Stdin = strings.NewReader(script)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(script, "slipway") {
		t.Errorf("bash does not read the script: %v %s", err, out)
	}
	p.write(map[string]string{"script": script, "j.hcl": oneStep("true")})
	p.run("run", "j.hcl", "--state", "state", "--id", "night:1").wants(0)
	for _, with := range []string{"", "source /usr/share/bash-completion/bash_completion; "} {
		if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); with != "" && err != nil {
			continue
		}
		for line, want := range map[string]string{
			"slipway wor":                          "workers",
			"slipway --log-level de":               "debug",
			"slipway --log-level = de":             "debug", // as bash parts --log-level=de
			"slipway logs --state state ni":        "night:1",
			"slipway logs --state = state ni":      "night:1",
			"slipway workers -o j":                 "json",
			"slipway run -o te":                    "text",
			"slipway conformance run --only S11-s": "S11-signalled",
			"slipway conformance run --skip S11-s": "S11-signalled",
			"slipway conformance explain S11-s":    "S11-signalled",
		} {
			words := strings.Fields(line)
			c := p.program(bash, "--norc", "-c", with+`source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_LINE="${COMP_LINE// = /=}"; COMP_POINT=${#COMP_LINE}
compopt() { :; } # there is no completion under way here
__start_slipway; printf '%s\n' "${COMPREPLY[@]}"`, "bash")
			c.Args = append(c.Args, words...)
			c.Env = append(c.Env, "PATH="+p.bin+":"+os.Getenv("PATH"))
			if r := p.runWith(c).wants(0); strings.TrimSpace(r.out) != want || r.err != "" {
				t.Errorf("%q is completed to %q, want %q; %s", line, r.out, want, r.err)
			}
		}
	}
	if got := p.run("__complete", "wor").wants(0).out; !strings.HasPrefix(got, "workers\t") {
		t.Errorf(`"wor" is completed to %q`, got)
	}
	if got := p.run("__complete", "run", "--fo").wants(0).out; !strings.HasPrefix(got, "--force") {
		t.Errorf(`"run --fo" is completed to %q`, got)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	newPlace(t).run("version").wants(0).prints("slipway dev (sdk " + sdk.Version + ")\n")
}

func TestValidate(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{
		"good.hcl": onMemory(`config { memory = "1MiB" }`), "bad.hcl": onMemory("config {\n    memory = \"lots\"\n  }"),
		"none.hcl": "plugin \"g\" { command = \"./none\" }\nworker \"w\" { plugin = \"g\" }\n",
		"j.hcl":    oneStep("true"), "b.hcl": "job \"b\" {\n  setp \"x\" {}\n}\n",
	})
	p.run("validate").wants(0).prints("valid\n")
	p.run("-c", "good.hcl", "validate", "j.hcl").wants(0).prints("valid\n")
	p.run("-c", "bad.hcl", "validate", "j.hcl").wants(codeUsage).prints("").says("on bad.hcl line 4", `memory = "lots"`).once()
	p.run("-c", "bad.hcl", "validate", "b.hcl").wants(codeUsage).prints("").says("on b.hcl line 2", `Did you mean "step"?`, "on bad.hcl line 4").once()
	p.run("-c", "good.hcl", "validate", "b.hcl").wants(codeUsage).prints("").says("on b.hcl line 2").once()
	p.run("-c", "none.hcl", "validate").wants(codeInternal).prints("").says(`slipway: plugin "g"`, "none (not there)").once()
}
