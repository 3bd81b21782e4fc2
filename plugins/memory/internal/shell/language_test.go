package shell

import "testing"

func TestLanguage(t *testing.T) {
	for _, c := range []struct {
		name, script, out string
		code              int
	}{
		{"echo", "echo hi", "hi\n", 0},
		{"pipe", "printf 'b\\na\\n' | cat | wc -l", "2\n", 0},
		{"functions", "f() { local x=$1; echo \"$x-$#\"; return 3; }; f a b; echo $?", "a-2\n3\n", 0},
		{"shadow", "printf() { echo mine \"$@\"; }; printf a; command printf '%s\\n' b", "mine a\nb\n", 0},
		{"here-doc", "x=1; cat <<EOF\na $x\nEOF\ncat <<'EOF'\n$x\nEOF", "a 1\n$x\n", 0},
		{"errexit", "set -euo pipefail; false | true; echo no", "", 1},
		{"nounset", "set -u; echo $nope", "", 1},
		{"arrays", "a=(x 'y z'); a+=(w); echo ${#a[@]} \"${a[1]}\"; declare -A m=([k]=v); echo ${m[k]}", "3 y z\nv\n", 0},
		{"trap exit", "trap 'echo bye' EXIT; echo hi; exit 4", "hi\nbye\n", 4},
		{"trap exit status", "trap 'exit 7' EXIT; exit 4", "", 7},
		{"trap 0", "trap 'echo bye' 0", "bye\n", 0},
		{"trap self", "trap 'echo got' TERM; kill -TERM $$; echo after", "got\nafter\n", 0},
		{"background", "{ sleep 0.01; echo bg; } & wait $!; echo done", "bg\ndone\n", 0},
		{"substitution", "x=$(echo a; echo b); echo \"$x\" | head -n 1; echo `echo q`", "a\nq\n", 0},
		{"case", "case abc in x) echo 1;; a*) echo 2;; esac", "2\n", 0},
		{"arithmetic", "i=3; echo $((i*2+1)); ((i++)); echo $i; for ((j=0;j<2;j++)); do echo $j; done", "7\n4\n0\n1\n", 0},
		{"last status", "(exit 5)", "", 5},
		{"read", "printf 'a b c\\nd\\n' | while read -r x y; do echo \"$y|$x\"; done", "b c|a\n|d\n", 0},
		{"read -n", "printf abcdef | { read -n 3 x; echo $x; }", "abc\n", 0},
		{"read -d", "printf 'a b:c' | { read -d : x y; echo \"$y\"; }", "b\n", 0},
		{"getopts", "while getopts ab:c o -a -bval -c rest; do echo $o ${OPTARG-}; done; echo $OPTIND", "a\nb val\nc\n4\n", 0},
		{"getopts params", "set -- -xy -z q; while getopts xyz: o; do echo $o ${OPTARG-}; done; shift $((OPTIND-1)); echo $#", "x\ny\nz q\n0\n", 0},
		{"printf", "printf '%05.1f|%-4s|%q|%b\\n' 3.14159 ab 'a b' 'x\\ty'; printf -v v '%03d' 7; echo $v", "003.1|ab  |a\\ b|x\ty\n007\n", 0},
		{"test", "[ 1 -lt 2 ] && [ a '<' b ] && test -d /work && [ ! -e /nope ] && echo ok; [ x -eq 1 ]; echo $?", "ok\n2\n", 0},
		{"command -v", "f() { :; }; command -v f echo sed nothing; echo $?; type -t f cat cd", "f\necho\n/usr/bin/sed\n0\nfunction\nfile\nbuiltin\n", 0},
		{"set -E", "set -Eeuo pipefail; echo ok; set +E; echo $-", "ok\neu\n", 0},
		{"source", "echo 'echo in $1; y=2; return 3' > lib.sh; . ./lib.sh arg; echo $? $y", "in arg\n3 2\n", 0},
		{"redirects", "echo a > f; echo b >> f; cat < f; ls nope 2>/dev/null; echo c >&2 2>/dev/null; cat f > /dev/stdout; echo x >| f; cat f", "a\nb\na\nb\nx\n", 0},
		{"globs", "touch 'a b.txt' ä.txt c.go; for f in *.txt; do echo \"[$f]\"; done; echo nope*", "[a b.txt]\n[ä.txt]\nnope*\n", 0},
		{"eval", "x='echo $y'; y=3; eval \"$x\"", "3\n", 0},
		{"exec", "exec echo replaced; echo no", "replaced\n", 0},
		{"umask", "umask 077; echo > f; ls -l f | cut -c1-10; umask", "-rw-------\n0077\n", 0},
		{"nested", "sh -c 'echo $0 $1; exit 9' name arg; echo $?", "name arg\n9\n", 0},
		{"declare", "v='a b'; n=foo; declare \"$n=$v\"; echo \"$foo\"; export $n; sh -c 'echo \"$foo\"'", "a b\na b\n", 0},
		{"nameref", "f() { local -n r=$1; r=new; }; x=old; f x; echo $x", "new\n", 0},
		{"not found", "nonesuch; echo $?", "127\n", 0},
		{"script args", "set -- a b; echo $# $1; shift; echo $1", "2 a\nb\n", 0},
		{"cd", "mkdir -p d/e; cd d/e; pwd; cd -; ln -s d l; cd -P l; pwd", "/work/d/e\n/work\n/work/d\n", 0},
		{"heredoc pipe", "cat <<EOF | tr a-z A-Z\nabc\nEOF", "ABC\n", 0},
		{"syntax error", "if", "", 2},
		{"nobody reads", "while :; do echo x; done | head -n 1; while :; do printf y; done | head -c 1; set -o pipefail; (while :; do echo; done) | true; echo $?", "x\ny141\n", 0},
		{"echo function", "echo() { command echo mine; }; echo x; unset -f echo; echo y", "mine\ny\n", 0},
		{"kill a job", "sleep 1000 & p=$!; kill $p; wait $p; echo $?", "143\n", 0},
		{"kill a loop", "while :; do sleep 0.001; done & kill -9 $!; wait $!; echo $?; (sleep 0.01; echo other) | cat", "137\nother\n", 0},
		{"kill one job", "sleep 1000 & a=$!; { until [ -e go ]; do sleep 0.01; done; echo b; } & b=$!; kill -INT $a; wait $a; echo $?; : > go; wait $b; kill $b; kill g9; echo $?", "130\nb\n1\n", 0},
		{"jobs in places", "f() { echo f & wait; }; f; if true; then echo i & fi; wait; case x in x) echo c & ;; esac; wait; { echo b & }; wait; (echo s & wait); for i in 1 2; do echo $i & wait; done; echo a && echo o & wait\ncat <<EOF & wait\nh\nEOF", "f\ni\nc\nb\ns\n1\n2\na\no\nh\n", 0},
		{"echo flags", "echo -ne 'a\\tb\\n'; echo -n x; echo", "a\tb\nx\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := sh(t, newNamespace(t, nil), c.script)
			if got.out != c.out || got.Code != c.code {
				t.Errorf("got %q, code %d, want %q, %d; stderr %q; %s", got.out, got.Code, c.out, c.code, got.err, got.Message)
			}
		})
	}
}
