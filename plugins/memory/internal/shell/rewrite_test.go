package shell

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestRewritten compares what is rewritten for the interpreter with what bash does with it: standard output and the exit status.
func TestRewritten(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		testkit.Lacking(t, "bash, to compare with")
	}
	for _, script := range []string{
		// descriptors
		`exec 3>&1 >f; echo in f; echo out >&3; exec 1>&3 3>&-; cat f; echo x 2>/dev/null >&3 || echo closed`,
		`exec 7<&0 </dev/null; exec 6>&1; exec 5>log; cat >&5 <<E` + "\nto the log\nE\n" + `{ echo more; echo >&6 shown; } >&5; { echo a >&5; echo b >&6; } 2>&5; exec 5>&-; cat log`,
		`while read -r a <&3 && read -r b <&4; do echo "$a$b"; done 3< <(seq 3) 4< <(seq 4 6)`,
		`while read -ru 3 x; do read -r y; echo "$x$y"; done 3<<<$'1\n2' <<<$'a\nb'`,
		`f() { echo err >&2; echo out; }; x=$(f 3>&1 1>/dev/null 2>&3); echo "got $x"; { f 3>&1 1>&2 2>&3; } 2>/dev/null; echo y 3>nothing >&3; cat nothing`,
		`fd=4; exec 4>g; echo hi >&$fd; echo ho >&"${fd}"; exec 4>>g; echo he >&4; exec 4<g; cat <&4; exec 4<&-`,
		`exec {log}>h; echo "$((log > 9))" >&$log; cat h; exec {log}>&-; exec {other}>>h; echo other >&"$other"; cat h`,
		`g() { echo three >&3; }; g 3>&1; (exec 3>&1; g); g 2>/dev/null 3>&1; { g | cat; } 3>&1; g 3>i; cat i; sh -c 'echo child >&3' 3>&1`,
		`exec 3>/none/at/all; echo not reached`,
		`cat 3</none/at/all 2>/dev/null; echo $?; set -e; true 3>j; false 3>j; echo no`,
		`set -e; f() { false; echo no; }; f 3>&1; echo no`,
		`! true 3>k; echo $?; ! false 3>k && echo yes; if cat k 3<k; then echo read; fi`,
		`f() { return 4; } 3>&1; f; echo $?; for i in 1 2; do echo $i >&3; [ $i = 2 ] || continue; done 3>&1; x=1 3>l; echo $x; 3>&1 >m; ls m`,
		`trap 'echo end >&3' EXIT; exec 3>&1; exec >/dev/null; echo hidden`,
		`eval 'exec 5>n'; eval 'echo "from eval" >&5'; cat n; exec 3>/tmp/$$.x 4>&3; echo z >&4; cat /tmp/$$.x; rm /tmp/$$.x`,
		`echo a >& o; cat o; echo b | tee /dev/fd/3 3>p >/dev/null; cat p; echo p | xargs cat /dev/fd/3 3<p`,
		`(echo sub; exec 3>&1; (echo deep >&3)) 3>q; echo $?; { sleep 0.01; echo late >&4; } 4>&1 & wait`,
		// process substitution
		`diff <(printf 'a\nb\n') <(printf 'a\nc\n'); echo $?; paste -d, <(seq 3) <(seq 4 6); cat <(echo <(:) | wc -l)`,
		`mapfile -t l < <(seq 3); echo "${#l[@]} ${l[2]}"; n=0; while read -r x; do n=$((n + x)); done < <(seq 4); echo $n`,
		`echo abc | tee >(tr a-z A-Z >up) >/dev/null; until [ "$(cat up 2>/dev/null)" = ABC ]; do :; done; cat up; source <(echo 'v=3'); echo $v; . <(echo 'echo $v') `,
		`exec > >(sed 's/^/> /'); echo one; echo two`,
		`head -n 1 <(yes); comm -12 <(printf '%s\n' a b) <(printf '%s\n' b c); for f in <(echo 1) <(echo 2); do cat "$f"; done; cat < <((echo nested) ; echo list)`,
		`set -euo pipefail; f() { cat "$1"; return 3; }; f <(echo x) || echo $?; grep -f <(echo b) <<< $'a\nb'; x=$(cat <(echo "it's" "\"q\"")); echo "$x"`,
		`cat <(cat <<E` + "\nhere\nE\n" + `); wc -l < <(for i in 1 2; do echo $i; done) | tr -d ' '; [ -e <(:) ] && echo there; cat <(exit 3); echo $?; for i in $(seq 1100); do read -r x < <(echo $i); done; echo $x`,
		`f() { echo to out; echo to err >&2; }; f > >(sed 's/^/o /' >outs) 2> >(sed 's/^/e /' >errs); until [ -s errs ] && [ -s outs ]; do :; done; cat outs errs`,
		// PIPESTATUS
		`(exit 3) | false | true; echo "${PIPESTATUS[@]}"; true | (exit 4); echo "$? ${PIPESTATUS[0]} ${PIPESTATUS[1]}"`,
		`f() { false; echo "in f"; return 6; }; f | tee log; exit ${PIPESTATUS[0]}`,
		`set -o pipefail; set +e; (exit 5) | cat; rc=("${PIPESTATUS[@]}"); echo "${rc[*]} ${#rc[@]}"; ! false | true; echo "$? ${PIPESTATUS[*]}"; if false | true; then echo yes "${PIPESTATUS[@]}"; fi`,
		`set -e; f() { false; echo no; }; f | cat; echo "${PIPESTATUS[0]}"; set -o pipefail; f | cat; echo no`,
		`cat <<E | (cat; exit 2)` + "\ntext\nE\n" + `echo "${PIPESTATUS[@]}"; f() { echo a | (exit 7); return ${PIPESTATUS[1]}; }; f | cat; echo "${PIPESTATUS[0]}"; true |& false; echo "${PIPESTATUS[*]}"; set -u; case $- in *e*) echo e ;; *u*) echo u ;; esac`,
		// anchors
		`x=hello; echo "${x/#hell/j}|${x/#ell/j}|${x/%lo/p}|${x/%l/p}|${x/#/pre-}|${x/%/.o}|${x/#*l/L}" ${x/#[a-h]/+} ${x//l/#}; p='h*'; echo "${x/#$p/all}"; a=(one two); echo "${a[1]/%o/0}"; for f in a.c b.c; do echo ${f/%.c/.o}; done`,
		// [[ ]]
		`: >a; [[ ! -e nope || a -nt nope ]] && echo 1; [[ ! -e a || 1 == 1 ]] && echo 2; [[ ! x == y && 1 == 2 ]] || echo 3; [[ ! -f a && 1 == 2 || 3 == 3 ]] && echo 4; [[ 1 == 2 && 1 == 1 || 1 == 1 ]] && echo 5`,
		`t() { eval "[[ $* ]]"; echo -n $?; }; for x in 0 1; do for y in 0 1; do for z in 0 1; do a="-n \"\${a$x}\"" b="-n \"\${a$y}\"" c="-n \"\${a$z}\"" a1=x; t "$a || $b && ! $c"; t "! $a && $b || $c"; t "! ( $a || $b ) && $c"; t "! ! $a && ( ! $b || $c && $a ) || $b"; done; done; done`,
		`ln -s a l; : >a; : >b; [[ a -ef l && ! a -ef b ]] && echo same; x=a; [[ "$x" -ef ${x}b || $x -ef "$x" ]] && echo yes`,
		`declare -i n=5 m; n+=3; m=n*2; echo $n $m; f() { local -i k=$1; k=k+1; ((k++)); k+=$n; echo $k; }; f 4; n=010; echo $n`,
		// what scripts ask of their shell
		`f() { echo "${FUNCNAME[0]} ${FUNCNAME[1]} $FUNCNAME"; }; g() { f; }; g; f; set -u; g; echo "${FUNCNAME[0]:-none}"`,
		`echo "${BASH_VERSION:+bash} $((BASH_VERSINFO[0] >= 4)) $((SECONDS < 600))"; SECONDS=5; echo $((SECONDS >= 5))`,
		`cat > s.sh <<'E'` + "\n" + `echo "$0 ${BASH_SOURCE[0]} ${BASH_SOURCE} ${#BASH_SOURCE[@]}"; [[ "${BASH_SOURCE[0]}" == "$0" ]] && echo main; dirname "${BASH_SOURCE[0]}"` + "\nE\n" +
			`mkdir d; cp s.sh d; bash ./s.sh; echo '. d/s.sh; echo "${BASH_SOURCE[0]}"; false; . d/s.sh x; echo $?' > t.sh; bash t.sh`,
	} {
		t.Run(script, func(t *testing.T) {
			cmd := exec.Command(bash, "-c", script)
			cmd.Dir = t.TempDir()
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=/root"}
			var out bytes.Buffer
			cmd.Stdout = &out
			if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			got := run(t, newNamespace(t, nil), "bash", []string{"-c", script}, func(c *Command) { c.Env = []string{"LC_ALL=C.UTF-8", "HOME=/root"} })
			if got.out != out.String() || got.Code != cmd.ProcessState.ExitCode() || got.Cut {
				t.Errorf("got %q, %d, %v; bash has %q, %d; stderr %q; %s", got.out, got.Code, got.Cut, out.String(), cmd.ProcessState.ExitCode(), got.err, got.Message)
			}
		})
	}
}

// TestRefusedScripts is of what would end in a wrong result: it is told before anything runs.
func TestRefusedScripts(t *testing.T) {
	for script, why := range map[string]string{
		`exec 3<>f`:                   "line 2: 3<>f (<>)",
		`cat 3<<E` + "\nE\n":          "here-document",
		`exec 3>&4-`:                  "3>&4-",
		`cmd >f 3>&1`:                 "3>&1 behind another redirection of 1",
		`f() { local -u x=$1; }`:      "local -u",
		`export -f f`:                 "export -f",
		`x=${a[@]/#/pre-}`:            "of a whole array",
		`eval 'declare -l n=3'; exit`: "declare -l",
	} {
		t.Run(script, func(t *testing.T) {
			got := sh(t, newNamespace(t, nil), "set -e\n"+script)
			if got.Code == 0 || !strings.Contains(got.err, why) || !strings.Contains(got.err, "memory runtime's shell") {
				t.Errorf("ends with %d, stderr %q, and not with %q", got.Code, got.err, why)
			}
		})
	}
	if got := sh(t, newNamespace(t, nil), "(trap 'echo bye' EXIT; echo on)"); !strings.Contains(got.err, "EXIT in a subshell") {
		t.Errorf("an EXIT trap in a subshell: %q, %q", got.out, got.err)
	}
}
