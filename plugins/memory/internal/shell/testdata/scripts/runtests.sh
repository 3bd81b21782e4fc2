#!/bin/bash
# A test runner: each test in a subshell with a directory of its own, that goes away whatever happens.
set -u
work=$(mktemp -d)
passed=0 failed=0 skipped=0
finish() {
	local status=$?
	rm -rf "$work"
	trap - EXIT
	[ -d "$work" ] && echo "left behind"
	echo "# exit $status"
	exit "$status"
}
trap finish EXIT
trap 'echo "# interrupted"; exit 130' INT TERM

fail() { echo "not: $*"; exit 1; }
assert_equal() { [ "$1" = "$2" ] || fail "got '$1', want '$2'"; }
assert_matches() { [[ $1 =~ $2 ]] || fail "'$1' does not match $2"; }
skip() { echo "$*"; exit 77; }

test_arithmetic() { assert_equal "$((6 * 7))" 42; }
test_strings() {
	local s="Hello, World"
	assert_equal "${s,,}" "hello, world"
	assert_equal "${s%%,*}" Hello
	assert_equal "${#s}" 12
	assert_equal "${s/World/$(echo there)}" "Hello, there"
}
test_files() {
	echo one > f; echo two >> f
	assert_equal "$(cat f | tail -n 1)" two
	assert_equal "$(ls)" f
}
test_isolated() { [ -e f ] && fail "sees a file of another test"; x=changed; }
test_fails() { assert_equal "$(echo a)" b; echo "never here"; }
test_regex() { assert_matches "v1.20.3" '^v([0-9]+)\.([0-9]+)'; assert_equal "${BASH_REMATCH[2]}" 20; }
test_skipped() { skip "no network"; }
test_errexit() { set -e; false; echo "never here"; }
test_unset() { set -u; (: "${nosuchvariable:?must be set}") 2>/dev/null; echo "status $?"; return 3; }
test_cleans_up() { (trap 'echo cleaned > ../trace' 0; exit 0); [ -e ../trace ] || true; }

tests=$(printf 'test_%s\n' arithmetic strings files isolated fails regex skipped errexit unset cleans_up)
n=0
echo "1..$(echo "$tests" | wc -l | tr -d ' ')"
x=original
for t in $tests; do
	n=$((n + 1))
	mkdir "$work/$t"
	output=$(cd "$work/$t" && "$t" 2>&1)
	status=$?
	case $status in
	0) echo "ok $n - ${t#test_}"; passed=$((passed + 1)) ;;
	77) echo "ok $n - ${t#test_} # SKIP $output"; skipped=$((skipped + 1)) ;;
	*)
		echo "not ok $n - ${t#test_} # status $status"
		printf '%s\n' "$output" | grep -v '^$' | sed 's/^/#   /'
		failed=$((failed + 1)) ;;
	esac
done
echo "# x is $x"
printf '# %-8s %3d\n' passed $passed failed $failed skipped $skipped
kill -TERM $$
echo "not reached"
