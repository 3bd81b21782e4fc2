#!/bin/sh
# soak.sh GO COUNT FLAGS PACKAGE...: the tests of each package COUNT times, with the race detector and without. A soak takes hours and may be ended at any
# moment: what has passed is written down below bin/soak, under a sum of all files and of what was asked for, so that the same soak goes on where
# it was, and one of anything else begins anew, as does one that has passed. A failure ends nothing: all packages have their turn, and those that failed are named last.
set -u
go=$1 count=$2 flags=$3
shift 3
packages=$("$go" list "$@") || exit 1
[ -n "$packages" ] || { echo "soak of nothing: $* has no package" >&2; exit 1; }
files=$(git ls-files -co --exclude-standard -z | xargs -0 -r sha256sum 2>/dev/null)
[ -n "$files" ] || { echo "no sum of the files is known: a soak needs a git checkout" >&2; exit 1; }
record=bin/soak/$(printf '%s\n' "$files" "$count" "$flags" | sha256sum | cut -c 1-12)
mkdir -p "$record" || exit 1
echo "soak of $(git describe --always --dirty): what passes is kept in $record"

failed=
soak() { # soak KIND PACKAGE CGO FLAGS...
	kind=$1 package=$2 cgo=$3
	shift 3
	kept=$record/$kind-$(echo "$package" | tr / _)
	if [ -e "$kept.ok" ]; then
		echo "$kind $(cat "$kept.ok") (kept)"
		return
	fi
	# FLAGS is a list.
	# shellcheck disable=SC2086
	if CGO_ENABLED=$cgo "$go" test "$@" -count "$count" -timeout 12h $flags "$package" >"$kept.txt" 2>&1; then
		tail -n 1 "$kept.txt" >"$kept.part" && mv "$kept.part" "$kept.ok"
		echo "$kind $(cat "$kept.ok")"
	else
		cat "$kept.txt"
		failed="$failed
  $kind $package: $kept.txt"
	fi
}

for package in $packages; do
	soak race "$package" 1 -race
	soak plain "$package" 0
done
if [ -n "$failed" ]; then
	echo "failed:$failed"
	exit 1
fi
rm "$record"/*.ok
