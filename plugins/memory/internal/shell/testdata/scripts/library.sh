#!/bin/bash
# A script with a library of functions, a configuration, locks, and temporary files.
set -Eeuo pipefail
mkdir -p lib conf.d run
cat > lib/log.sh <<'LIB'
# shellcheck shell=bash
: "${LOG_LEVEL:=info}"
_level() { case $1 in debug) echo 0 ;; info) echo 1 ;; warn) echo 2 ;; *) echo 3 ;; esac; }
log() {
	local level=$1; shift
	if [ "$(_level "$level")" -ge "$(_level "$LOG_LEVEL")" ]; then printf '%-5s %s\n' "${level^^}" "$*"; fi
}
LIB
cat > lib/lock.sh <<'LIB'
lock() { mkdir "run/$1.lock" 2>/dev/null || { log warn "$1 is locked"; return 1; }; echo $$ > "run/$1.lock/pid"; }
unlock() { rm -r "run/$1.lock"; }
LIB
for lib in lib/*.sh; do . "./$lib"; done
log debug 'not shown'; log info 'shown'; LOG_LEVEL=debug; log debug 'now shown'

cat > conf.d/10-base.conf <<'CONF'
# comment
name = base
size=10

path = /a/b c
CONF
printf 'size = 20\nextra=$(touch hacked)\n' > conf.d/20-over.conf
declare -A config=()
load() {
	local file line key value
	for file in conf.d/*.conf; do
		while IFS= read -r line || [[ -n $line ]]; do
			line=${line%%#*}
			[[ $line =~ ^[[:space:]]*([a-z]+)[[:space:]]*=[[:space:]]*(.*)$ ]] || continue
			key=${BASH_REMATCH[1]} value=${BASH_REMATCH[2]}
			config[$key]=$value
		done < "$file"
	done
}
load
for key in $(printf '%s\n' "${!config[@]}" | sort); do log info "$key -> '${config[$key]}'"; done
[ -e hacked ] && log error 'a value was executed' || log info 'values are only text'

lock job && log info locked
(lock job || log info 'refused, as it should be')
unlock job; lock job; unlock job; ls run | wc -l | tr -d ' '

tmp=$(mktemp -d "${TMPDIR:-/tmp}/lib.XXXXXX")
cleanup() { rm -rf "$tmp"; }
trap 'status=$?; cleanup; log info "leaving with $status"' EXIT
t=$(mktemp -p "$tmp"); [ -f "$t" ] && log info "temporary files: $(ls "$tmp" | wc -l | tr -d ' ')"
[ "$(stat -c %a "$t")" = 600 ] && log info 'which are private'
template() { # VAR=VALUE...
	local text kv
	text=$(cat)
	for kv; do text=${text//"{{${kv%%=*}}}"/${kv#*=}}; done
	printf '%s\n' "$text"
}
template name=world greeting='good day' <<< '{{greeting}}, {{name}}! {{unknown}}'
assert() { if ! "$@"; then log error "assertion failed: $*"; return 1; fi; }
assert test 1 -eq 1
assert [ a = b ] || log warn 'went on'
map() { while read -r item; do "$1" "$item"; done; }
shout() { echo "${1^^}!"; }
printf '%s\n' a b | map shout | paste -sd' ' -
max() { local m=$1 n; for n; do ((n > m)) && m=$n; done; echo "$m"; }
max 3 9 4
trim() { local s=$1; s=${s#"${s%%[![:space:]]*}"}; s=${s%"${s##*[![:space:]]}"}; echo "[$s]"; }
trim '  padded text  '
contains() { local needle=$1 x; shift; for x; do [[ $x == "$needle" ]] && return 0; done; return 1; }
contains b a b c && log info 'b is there'; contains z a b c || log info 'z is not'
split_path() { local IFS=/; set -- $1; echo "$# parts, last ${!#}"; }; split_path usr/local/bin
confirm() { local answer; read -r answer; case ${answer,,} in y|yes) return 0 ;; *) return 1 ;; esac; }
echo YES | confirm && log info confirmed; echo no | confirm || log info declined
id -u > /dev/null; test -n "$(id -un)"; whoami > /dev/null; uname -s
which sh > /dev/null && log info 'sh is there'; which no-such-program || log info 'the other is not'
false || log info 'a failure that is caught'
nope=$(false) || log info 'and one in a substitution'
log info 'now one that is not'
false
log error 'never here'
