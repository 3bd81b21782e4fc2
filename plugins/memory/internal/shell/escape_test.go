package shell

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

const secret = "canary-7f3a9"

// machineDir is a real directory with a file that must neither be read nor
// changed, nor get company.
func machineDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"secret.txt", "sh-interp-canary", "prog"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("echo "+secret+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SLIPWAY_CANARY", secret)
	t.Setenv("TMPDIR", dir)
	t.Setenv("HOME", dir)
	before := listMachine(t, dir)
	t.Cleanup(func() {
		if after := listMachine(t, dir); after != before {
			t.Errorf("the machine's files changed from %s to %s", before, after)
		}
	})
	return dir
}

func listMachine(t *testing.T, dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d %v; ", e.Name(), info.Size(), info.ModTime())
	}
	return b.String()
}

// TestWaysOut has one attack or more for each place where the interpreter
// reaches for the machine. Nothing of the machine may be read, written or shown.
func TestWaysOut(t *testing.T) {
	dir := machineDir(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	pid, ppid := strconv.Itoa(os.Getpid()), strconv.Itoa(os.Getppid())
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b` + regexp.QuoteMeta(host) + `\b`) // as a word: a short name may be in what mktemp draws
	fresh := "sh-interp-" + rand.Text()                               // nothing that another run left, or makes at the same time
	for name, script := range map[string]string{
		"1 own files read":         `cat < DIR/sh-interp-canary; . DIR/sh-interp-canary; x=$(<DIR/sh-interp-canary); echo "$x"`,
		"1 own files write":        `echo x > DIR/sh-interp-new; echo y >> DIR/sh-interp-canary; export TMPDIR=DIR; echo x > DIR/sh-interp-new2; (echo x > DIR/sh-interp-new3)`,
		"1 own files of tmp":       `echo x > /tmp/NEW; TMPDIR=/tmp; sh -c 'echo x > /tmp/NEW2'`,
		"2 process substitution":   `cat <(echo x); echo y > >(cat); eval 'cat <(echo x)'; trap 'cat <(echo x)' EXIT`,
		"2 with TMPDIR":            `TMPDIR=DIR; cat <(echo x); sh -c 'cat <(echo z)'; unset 'a[$(cat <(echo q))]'`,
		"3 type":                   `type DIR/prog; type -p prog; command -v DIR/prog; PATH=DIR; type prog; command -v prog; builtin type prog; command command -v prog; command -V DIR/prog; command -- type -P prog; hash prog`,
		"3 source":                 `. DIR/secret.txt; source DIR/prog; PATH=DIR; . prog; command . prog; builtin source prog`,
		"4 pwd -P":                 `PWD=/proc/self/cwd; pwd -P; command pwd -P; builtin pwd -P; f() { builtin pwd -P; }; f; pwd() { :; }; unset -f pwd; pwd -P`,
		"5 tilde":                  `echo ~USER ~nobody ~daemon; echo ~USER | cat; (echo ~USER) & wait; x=~USER; echo $x; echo ~USER/x | cat; eval 'echo ~USER | cat'`,
		"6 process id":             `echo $$ ${$} $PPID ${PPID}; echo $$ | cat; eval 'echo $$ $PPID'; trap 'echo $$' EXIT; sh -c 'echo $$ $PPID'; shopt -s expand_aliases; alias p='echo $$'; p`,
		"7 HOME and ids":           `echo $HOME ~; cd; pwd; echo $UID $EUID $GID; echo ~ | cat; unset HOME; echo ~`,
		"8 environment":            `env; printenv; set; export -p; echo $SLIPWAY_CANARY; awk 'BEGIN{for (k in ENVIRON) print ENVIRON[k]}'; declare -p SLIPWAY_CANARY`,
		"8 directory":              `pwd; echo $PWD $OLDPWD; ls; cd -; pwd`,
		"9 owner tests":            `[[ -O /work && -G /work ]] && echo ok; test -O /work; echo $?; [[ -O /dev/null ]]; [[ -O nope ]]`,
		"10 pipes":                 `echo a | cat; cat <<< b; cat <<EOF` + "\nc\nEOF\n" + `echo d > f; cat < f; ls /proc/self/fd /dev/fd`,
		"11 terminal":              `[ -t 0 ]; [ -t 1 ]; [[ -t 2 ]]; read -s x; echo "$x"`,
		"12 programs":              `/bin/ls DIR; DIR/prog; PATH=DIR; prog; exec DIR/prog`,
		"12 more programs":         `/bin/bash -c 'echo $BASH_VERSION'; hostname; uname -a; id; whoami; python3 -c 1; env DIR/prog; find / -name secret.txt -exec DIR/prog ';'; echo x | xargs DIR/prog`,
		"13 access":                `[ -r DIR/secret.txt ] && echo readable; [[ -w DIR/secret.txt || -x DIR/prog || -e DIR ]] && echo there; cd DIR && echo inside; test -f DIR/prog && echo file`,
		"13 files":                 `cat DIR/secret.txt; head DIR/*; ls DIR; echo DIR/*; grep -r canary DIR / ; sed p DIR/secret.txt; awk 1 DIR/secret.txt; sort DIR/secret.txt; find DIR; stat DIR/prog; cp DIR/secret.txt .; sha256sum DIR/secret.txt; read x < DIR/secret.txt; echo $x`,
		"13 awk":                   `awk 'BEGIN{while ((getline l < "DIR/secret.txt") > 0) print l}'; awk 'BEGIN{system("cat DIR/secret.txt")}'; awk 'BEGIN{"cat DIR/secret.txt" | getline l; print l}'; awk 'BEGIN{print "x" > "DIR/new"}'; awk 'BEGIN{print "x" | "cat > DIR/new"}'; awk 'BEGIN{ARGV[1]="DIR/secret.txt"; ARGC=2} {print}'; awk -f DIR/secret.txt`,
		"13 sed":                   `echo x | sed 'r DIR/secret.txt'; echo x | sed 'w DIR/new'; echo x | sed 's/x/y/w DIR/new'; sed -i s/echo/x/ DIR/secret.txt`,
		"13 write":                 `echo x > DIR/new; rm -f DIR/secret.txt; mv DIR/secret.txt DIR/gone; touch DIR/secret.txt; mkdir DIR/d; ln -s DIR/secret.txt l; cat l; chmod 0 DIR/secret.txt; mktemp -p DIR; mktemp; tee DIR/new < /dev/null; sort -o DIR/new /dev/null`,
		"links out":                `ln -s /etc e; cat e/passwd; ln -s ../../../../../../etc up; cat up/hostname; cd ../../../..; ls; cat etc/passwd proc/self/environ`,
		"devices":                  `cat /dev/fd/0 /dev/fd/3 /proc/self/environ /proc/1/cmdline; echo x > /dev/tty; exec 3<>/dev/tcp/127.0.0.1/22`,
		"14 entropy and the clock": `echo $RANDOM > /dev/null; echo $SRANDOM > /dev/null; time true; date > /dev/null`,
		"time zone":                `TZ=../../../../etc/passwd date +%Z; TZ=:/etc/passwd date > /dev/null`,
	} {
		t.Run(name, func(t *testing.T) {
			script := strings.NewReplacer("DIR", dir, "USER", me.Username, "NEW", fresh).Replace(script)
			got := sh(t, newNamespace(t, nil), script)
			all := got.out + got.err
			shown := strings.ReplaceAll(all, dir, "") // as the script wrote it
			for what, text := range map[string]string{"a secret": secret, "the working directory": cwd, "the home": me.HomeDir + "/go", "passwd": "root:x:0"} {
				if strings.Contains(shown, text) {
					t.Errorf("it shows %s: %q", what, all)
				}
			}
			if named.MatchString(shown) {
				t.Errorf("it shows the host's name: %q", all)
			}
			for _, answer := range []string{"readable\n", "there\n", "inside\n", "file\n", "/prog is", "prog\n" + dir} {
				if strings.Contains(got.out, answer) {
					t.Errorf("it knows of the machine's files: %q", all)
				}
			}
			if strings.HasPrefix(name, "6") {
				for _, w := range strings.Fields(got.out) {
					if w == pid || w == ppid && ppid != "1" {
						t.Errorf("it shows the process id: %q", got.out)
					}
				}
			}
			if name == "5 tilde" && me.Username != "root" && strings.Contains(got.out, me.HomeDir) {
				t.Errorf("it shows a home: %q", got.out)
			}
			if name == "5 tilde" && strings.Contains(got.out, "/nonexistent") || strings.Contains(got.out, "/usr/sbin\n") {
				t.Errorf("it shows a home: %q", got.out)
			}
		})
	}
	for _, name := range []string{"/tmp/" + fresh, "/tmp/" + fresh + "2"} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s was made on the machine", name)
			os.Remove(name)
		}
	}
}

// TestAnswers are what a script finds instead of the machine.
func TestAnswers(t *testing.T) {
	machineDir(t)
	ns := newNamespace(t, nil)
	got := sh(t, ns, `echo $HOME $UID $EUID $GID ~ ~root ~nobody; pwd -P; cd; pwd; env | sort; type cat; command -v sh; echo $0 $$`)
	want := "/root 0 0 0 /root /root ~nobody\n/work\n"
	if !strings.HasPrefix(got.out, want) {
		t.Errorf("got %q, want it to begin with %q", got.out, want)
	}
	for _, line := range []string{"cat is /usr/bin/cat\n", "/bin/sh\n", "sh 1\n"} {
		if !strings.Contains(got.out, line) {
			t.Errorf("%q is missing in %q", line, got.out)
		}
	}
	got = sh(t, newNamespace(t, nil), `echo $TMPDIR $A; echo $TMPDIR | cat`, func(c *Command) { c.Env = []string{"TMPDIR=/tmp", "A=b"} })
	if got.out != "/tmp b\n/tmp\n" {
		t.Errorf("its own environment is %q; %s", got.out, got.err)
	}
}

// TestPanics are scripts that end the interpreter, and with it the process
// where they run in a pipeline.
func TestPanics(t *testing.T) {
	for _, c := range []string{
		`shift -5`, `shift -1; echo x`, `builtin shift -5`, `command shift -5`, `command -- builtin shift -1`, `eval 'shift -5'`,
		`OPTIND=1; getopts ab x -ab; getopts ab x -a`, `set -- -ab; getopts ab x; set -- -a; getopts ab x; getopts ab x`, `builtin getopts ab x -ab; builtin getopts ab x -a`, `getopts é x -é; getopts é x -éé`,
		`declare -n x=; echo $x`, `local -n x=; echo $x`, `f() { local -n r=$1; echo $r; }; f ""`, `export -n x=; echo $x`, `v=; declare -n x=$v; x=1`, `f=-n; declare $f x=; echo $x`, `typeset -n x=''; echo "$x"`, `declare -gn x=; echo $x`,
		`[[ -O /work ]]`, `[[ -G /work ]]`, `test -O /work -o -G /work`, `[[ -N /work ]]`,
		`mapfile a; echo ${#a[@]}`, `read x <&-`, `cat <&-`, `printf '%999999999d' 1`, `printf '%*d' 99999999999 1`, `seq 1 0 2`, `pushd; popd; popd; dirs`, `trap -- '"' EXIT`, `trap '(' ERR; false`,
		`unset 'a[$(shift -5)]'`, `a=(1); unset 'a['`, `x='a[$(shift -1)]'; echo $((x))`, `exec <&-; read x; cat`, `break -1`, `while true; do break 99; done`, `wait -n; wait g0; wait g9`, `echo ${x:-1:-1}`, `a=(1 2); echo ${a[@]:5:1} ${a[-9]}`,
	} {
		for _, script := range []string{c, "{ " + c + "\n} | cat", "{ " + c + "\n} & wait", "(" + c + "\n)", "x=$(" + c + "\n)"} {
			got := sh(t, newNamespace(t, nil), script, stdin("some\ninput\n"))
			if strings.Contains(got.Message, "panicked") {
				t.Errorf("%s: %s", script, got.Message)
			}
		}
	}
}

// TestDeep are scripts that would overflow the stack, which nothing survives.
func TestDeep(t *testing.T) {
	// The dearest: recursion is one guard for all of them, and so is that of lists, of awk and of test.
	soak := []string{"evals", "sources", "in a pipe", "substitutions", "pipes", "awk closed", "awk minus", "test parens"}
	nest := func(open, close string, n int) string {
		return strings.Repeat(open, n) + strings.Repeat(close, n)
	}
	for name, script := range map[string]string{
		"parens":        strings.Repeat("(", 390<<10),
		"arithmetic":    strings.Repeat("$((", 300<<10),
		"substitution":  strings.Repeat("$(", 400<<10),
		"braces":        strings.Repeat("{ ", 500<<10),
		"ifs":           strings.Repeat("if ", 300<<10),
		"parameters":    strings.Repeat("${x:-", 200<<10),
		"closed":        nest("(", ")", 5000),
		"lists":         strings.Repeat("a&&", 300<<10) + "a",
		"pipes":         strings.Repeat("a|", 300<<10) + "a",
		"sums":          "echo $((" + strings.Repeat("1+", 400<<10) + "1))",
		"eval":          `eval "$(printf '%500000s' | tr ' ' '(')"`,
		"trap":          `trap "$(printf '%500000s' | tr ' ' '(')" EXIT`,
		"alias":         `alias x="$(printf '%500000s' | tr ' ' '(')"`,
		"source":        `printf '%500000s' | tr ' ' '(' > f; . ./f`,
		"subscript":     `unset "a[$(printf '%500000s' | tr ' ' '(')]"`,
		"script":        `printf '%500000s' | tr ' ' '(' > f; sh f`,
		"awk":           `awk "$(printf '%65000s' | tr ' ' '(')"`,
		"awk closed":    `awk "BEGIN{x=$(printf '%30000s' | tr ' ' '(')1$(printf '%30000s' | tr ' ' ')')}"`,
		"awk minus":     `awk "BEGIN{x=$(printf '%60000s' | sed 's/ /- /g' | cut -c 1-60000)1}"`,
		"find":          `find . $(printf '%100000s' | sed 's/ /( /g')`,
		"expr":          `expr $(printf '%100000s' | sed 's/ /( /g') 1`,
		"test":          `test $(printf '%100000s' | sed 's/ /! /g') 1`,
		"test parens":   `test $(printf '%100000s' | sed 's/ /( /g') 1`,
		"sed":           `sed "$(printf '%100000s' | tr ' ' '{')"`,
		"grep":          `grep -E "$(printf '%100000s' | tr ' ' '(')" /dev/null`,
		"recursion":     `f() { f; }; f`,
		"evals":         `e='eval "$e"'; eval "$e"`,
		"in a pipe":     `f() { f; }; f | cat`,
		"substitutions": `f() { echo $(f); }; f`,
		"sources":       `echo '. ./f' > f; . ./f`,
		"shells":        `echo 'sh f' > f; sh f`,
		"big":           ":" + strings.Repeat("#", 2<<20),
	} {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(soak, name) {
				testkit.Soak(t, "more ways into a guard that the gate has tried by another")
			}
			got := sh(t, newNamespace(t, nil), script)
			if got.Code == 0 && name != "eval" && name != "trap" && name != "alias" && name != "in a pipe" && name != "substitutions" && name != "awk closed" && name != "awk minus" {
				t.Errorf("it ran: %.100q", got.out)
			}
		})
	}
	legal := nest("(", ")", 0) + strings.Repeat("( ", 200) + "echo deep" + strings.Repeat(" )", 200)
	if got := sh(t, newNamespace(t, nil), legal); got.out != "deep\n" {
		t.Errorf("200 levels: %q %q", got.out, got.err)
	}
	if got := sh(t, newNamespace(t, nil), `f() { if [ $1 -gt 0 ]; then f $(($1-1)); else echo bottom; fi; }; f 500`); got.out != "bottom\n" {
		t.Errorf("500 calls: %q %q %s", got.out, got.err, got.Message)
	}
}

// TestMany bounds the commands that run at once.
func TestMany(t *testing.T) {
	ctx := testkit.Context(t)
	e := New(Options{MaxCommands: 20, Linger: 10 * time.Millisecond})
	ns := newNamespace(t, nil)
	x, err := e.Resolve(ns, "sh", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := e.Run(ctx, ns, x, Command{Args: []string{"-c", "while :; do sleep 100 & done"}})
	if ctx.Err() != nil || r.Code == 0 {
		t.Errorf("it ended with %+v, %v", r, ctx.Err())
	}
}

// TestNoDescriptorsLeft: redirections leave no descriptor behind.
func TestNoDescriptorsLeft(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			testkit.Lacking(t, "/proc, to count descriptors: %v", err)
		}
		return len(entries)
	}
	ns := newNamespace(t, map[string]string{"/work/big": strings.Repeat("line\n", 100_000)})
	before := count()
	for range testkit.Times(10, 50) { // one that is left by each shows
		sh(t, ns, `read x < big; head -n 1 < big; cat < /dev/null; cat <<< x; echo a | cat > f; while read y; do break; done < big; cat big | head -n 1`, stdin("x"))
	}
	if after := count(); after > before+5 {
		t.Errorf("%d descriptors became %d", before, after)
	}
}
