#!/bin/bash
# What comes of pipelines, subshells and their statuses.
set -u
try() { "$@"; echo "  -> $?"; }
fails() { cat > /dev/null; return "$1"; }
echo 'statuses'
false | true; echo $?
set -o pipefail
false | true; echo $?
(exit 3) | (exit 4) | true; echo $?
true | fails 5; echo $?
yes | head -n 2; echo $?
set +o pipefail
! true; echo $?; ! false; echo $?
if ! grep -q x <<< abc; then echo 'not there'; fi
try eval 'exit_in() { return 9; }; exit_in'
echo 'subshells'
x=outer; (x=inner; echo "$x"); echo "$x"
{ x=group; }; echo "$x"
y=$(x=sub; echo "$x"; exit 6); echo "$y $? $x"
(cd /; pwd); [ "$(pwd)" != / ] && echo 'still here'
(set -e; false; echo never); echo "errexit: $?"
sh -c "trap 'echo leaving' EXIT; true"; echo after
echo 'order'
{ echo out; echo err >&2; echo again; } 2>&1 | sed 's/^/| /'
{ echo to-out; echo to-err >&2; } 2>/dev/null
{ echo swapped >&2; } 2>&1 >/dev/null | tr a-z A-Z
echo hidden > /dev/null 2>&1; echo both &> both.txt; cat both.txt
: | cat; echo "empty: $?"; printf 'no newline' | while read -r l || [ -n "$l" ]; do echo "<$l>"; done
seq 5 | while read -r n; do [ "$n" = 3 ] && break; echo "$n"; done
seq 10 | { head -n 1 > /dev/null; echo 'reader left'; }
seq 3 | tee one.txt two.txt | tail -n 1; cat one.txt two.txt | sort | uniq -c | awk '{print $1 "x" $2}' | paste -sd' ' -
echo 'jobs'
(until [ -e go ]; do sleep 0.01; done; echo later) & pid=$!; echo sooner; : > go; wait $pid; echo "waited $?"
(exit 12) & wait $!; echo $?
for i in 3 1 2; do (sleep 0.0$i; echo $i > "job$i") & done; wait; cat job1 job2 job3 | tr '\n' ' '; echo
timeout 0.05 sleep 1000; echo "timed out: $?"; timeout 1000 sh -c 'exit 7'; echo $?
# The shell may need longer than that to set its trap; then it is given more time.
for t in 0.1 1 10 100; do
  asked=$(timeout $t sh -c 'trap "echo asked; exit 3" TERM; while :; do sleep 0.01; done'); status=$?
  [ -z "$asked" ] || break
done; echo "$asked $status"
sh -c 'kill -TERM $$' 2>/dev/null; echo "killed: $?"
sh -c 'trap "" TERM; kill -TERM $$; echo survived'
echo 'functions'
fact() { if (($1 < 2)); then echo 1; else echo $(($1 * $(fact $(($1 - 1))))); fi; }; fact 10
apply() { local f=$1; shift; for a; do "$f" "$a"; done; }; double() { echo $(($1 * 2)); }; apply double 1 2 3 | paste -sd+ - | sed 's/+/ + /g'
retry() { local n=0; until "$@"; do n=$((n + 1)); [ $n -ge 3 ] && return 1; done; echo "took $n"; }
count=0; flaky() { count=$((count + 1)); [ $count -gt 2 ]; }; retry flaky; retry false; echo $?
with_default() { local v=${1-none}; echo "$v"; }; with_default; with_default ''; with_default a
nested() { inner() { echo "inner of $1"; }; inner "$1"; }; nested x; inner y
cat << EOS | sh -s -- one two
echo "script on stdin: \$# \$2"
EOS
echo 'a b  c' | xargs -n 1 | nl -ba -w 2 -s '. '; printf '%s\0' 'x y' z | xargs -0 -I{} echo '[{}]'
echo done; exit 4
