package shell

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestAgainstBash runs scripts through the machine's bash and ours, and compares
// standard output and the exit status.
func TestAgainstBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		testkit.Lacking(t, "bash, to compare with")
	}
	for _, script := range []string{
		`set -o pipefail; yes | head -n 1; echo $?`,
		`set -e; f() { false; echo in; }; if f; then echo yes; fi; f; echo no`,
		`set -eu; x=${1:-default}; echo "$x" "${#x}" "${x%t}" "${x#de}" "${x/f/F}" "${x^^}" "${x:2:3}"`,
		`IFS=,; set -- a b c; echo "$*" "$@" $#; for i; do echo "<$i>"; done`,
		`a=(1 2 3); a[5]=x; echo "${a[@]}" "${!a[@]}" "${#a[@]}"; unset 'a[1]'; echo "${a[@]}"`,
		`declare -A m; m[a]=1; m[b]=2; for k in $(printf '%s\n' "${!m[@]}" | sort); do echo $k=${m[$k]}; done`,
		`cat <<-EOF` + "\n\tindented\n\t\ttwice\n\tEOF\n",
		`x=$(cat <<'EOF'` + "\n$HOME `x`\nEOF\n); echo \"$x\"",
		`printf '%s\n' {1..3} {a..c} x{1,2}y`,
		`case "$0" in *) echo any ;; esac; case a1 in [a-z][0-9]) echo match;; esac`,
		`[[ abc == a* && ! -e nope && 3 -lt 10 && abc =~ ^a(b)c$ ]] && echo "${BASH_REMATCH[1]}"`,
		`echo $((2**10)) $((7%3)) $((1<<4|1)) $((5>3?1:0)) $((0x1f)) $((010))`,
		`i=0; until [ $i -ge 3 ]; do i=$((i+1)); [ $i = 2 ] && continue; echo $i; done`,
		`trap 'echo exit $?' EXIT; (exit 3); false; exit 7`,
		`set -e; trap 'echo bye $?' EXIT; false`,
		`echo a > f; echo b >> f; { cat f; echo c; } > g; wc -l < g; cat f g | sort | uniq -c`,
		`mkdir -p a/b && cd a/b && pwd | sed 's,.*/a/b,OK,'; cd - > /dev/null; ls`,
		`touch 'x y' z; for f in *; do echo "$f"; done; rm -- "x y"; ls | cat; echo [xyz]`,
		`f() { local v=in; v=changed; echo $v; }; v=out; f; echo $v`,
		`f() { return 5; }; f || echo $?; ! f; echo $?`,
		`eval 'x=1; y=$x'; echo $y; unset x; echo "${x-unset}" "${x:+set}"`,
		`(echo sub; exit 3) || echo $?; { echo grp; }; echo $?`,
		`echo one two | { read a b; echo $b $a; }; echo "a:b" | (IFS=: read x y; echo $y)`,
		`printf 'b\na\n' > l; sort l > s; diff_out=$(comm -3 l s 2>/dev/null); echo "${diff_out:+differs}"`,
		`find . -name '*.none' | wc -l | tr -d ' '; seq 3 | xargs -n1 echo n; seq 3 | paste -sd+ | sed 's/+/ + /g'`,
		`export A=1; B=2 env | grep -E '^(A|B)=' | sort; sh -c 'echo $A'`,
		`test -z "" -a -n x; echo $?; [ 1 -eq 1 ] && [ a \< b ]; echo $?`,
		`echo "a\tb" 'c\td'; echo -e 'a\tb'; echo -E 'a\tb'; echo -n x; echo -en 'y\n'`,
		`x='a b'; set -- $x; echo $#; set -- "$x"; echo $#; shift; echo $#; shift 2; echo $?`,
		`sleep 0.01 & wait; echo $?; (sleep 0.01; exit 4) & wait $!; echo $?`,
		`type -t echo cat if f; f() { :; }; type -t f; command -v f`,
		`getopts ab: o -a -b val; echo $o $OPTIND; getopts ab: o -a -b val; echo $o $OPTARG $OPTIND; getopts ab: o -a -b val; echo $? $OPTIND`,
		`getopts :ab: o -x; echo $o $OPTARG; OPTIND=1; getopts :b: o -b; echo $o $OPTARG`,
		`umask 027; touch u; mkdir d; stat -c %a u d; umask`,
		`exec > out.txt; echo hidden; exec 1>&2; cat out.txt >&2; exit 2`,
		`nosuch 2>/dev/null; echo $?; ./nofile 2>/dev/null; echo $?; touch plain; ./plain 2>/dev/null; echo $?; exit`,
		`kill -l TERM >/dev/null 2>&1; trap 'echo t' TERM; kill $$; kill -s TERM $$; trap - TERM; echo end`,
		`echo $(( $(echo 3) + 1 )) "$(echo "nested $(echo deep)")"`,
		`let x=3+4; echo $x; ((x>5)) && echo big; for ((i=0;i<3;i++)) { echo $i; }`,
		`mapfile -t lines < <(:) 2>/dev/null; printf '1\n2\n' | { mapfile -t m; echo ${#m[@]} ${m[1]}; }`,
		`printf 'x' | { read y; echo "$? $y"; }; printf 'abc' | { read -n 2 y; echo "$y"; }; read -t 1000 z < /dev/null; echo $?`,
		`echo ${PWD##*/} > /dev/null; basename "$PWD" > /dev/null; dirname /a/b/c; echo ${x:=assigned} $x`,
		`false || { echo recovered; }; true && echo both; ! true; echo $?`,
		`printf '%s|' a "b c" ''; printf '\n'; printf -v out '%05.2f' 3.14159; echo $out; printf '%q\n' "it's"`,
		`source /dev/null; . /dev/null; echo 'v=5; return 3' > lib; . ./lib; echo $? $v`,
		`set -- -n; echo "$1"; echo -- x; echo "-e" 'a\nb'`,
		`trap 'rm -f tmp; echo cleaned' EXIT; echo > tmp; exit 3`,
		`IFS=, read -r a b c <<< 'x,,z'; echo "$a|$b|$c"; IFS=, read -r -a p <<< 'x,y,,z'; echo ${#p[@]} "${p[3]}"; IFS=: read a b <<< 'x:y:'; echo "$b"; read a b <<< '  one   two  three  '; echo "<$a><$b>"; IFS= read -r l <<< '  kept  '; echo "<$l>"; IFS=: read a b <<< 'x:y:z:'; echo "$b"; read -r a <<< 'x\y'; echo "$a"; IFS=', ' read a b c <<< 'p , q r'; echo "$a$b$c"`,
		`set -e; for i in 1 2; do [ $i = 3 ] && echo no; done; if true; then false && true; fi; case x in x) false && :; esac; while false; do :; done; { [ -e nope ] && ls; }; echo on; if true; then true && false; fi; echo no`,
		`set -e; f() { for x in a b; do [ $x = b ] && return 3; done; }; f || echo $?; for i in 1 2; do if [ $i = 1 ]; then [ -e nope ] && exit 9; fi; echo $i; done; (false && true) || echo sub; g() { false && true; }; g; echo no`,
		`declare -A m=([a]=1 [b]=2); echo ${#m[@]} "${#m[*]}" $((${#m[@]}+1)); declare -A e=(); echo ${#e[@]}; l=(x y z); echo ${#l[@]} ${#l}`,
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
			got := sh(t, newNamespace(t, nil), script, func(c *Command) { c.Env = []string{"LC_ALL=C.UTF-8", "HOME=/root"} })
			if got.out != out.String() || got.Code != cmd.ProcessState.ExitCode() {
				t.Errorf("got %q, %d; bash has %q, %d; stderr %q; %s", got.out, got.Code, out.String(), cmd.ProcessState.ExitCode(), got.err, got.Message)
			}
		})
	}
}
