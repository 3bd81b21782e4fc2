#!/bin/bash
# A build without make: it does again only what is older than what it is made of.
set -euo pipefail
mkdir -p src/lib build
cat > src/main.c <<'C'
#include "lib/a.h"
#include "lib/b.h"
int main(void) { return A + B; }
C
echo '#define A 1' > src/lib/a.h
printf '#define B 2\n#include "a.h"\n' > src/lib/b.h
echo 'int a;' > src/lib/a.c
echo 'int b;' > src/lib/b.c
touch -d '2020-01-01' src/*.c src/lib/*

declare -A deps=()
scan() { # SOURCE: prints all headers that it includes, directly or not
	local file=$1 dir h
	dir=$(dirname "$file")
	sed -n 's/^#include "\(.*\)"$/\1/p' "$file" | while read -r h; do
		echo "$dir/$h"
		scan "$dir/$h"
	done
}
compiled=0
compile() {
	local src=$1 obj=$2 dep stale=
	[[ -e $obj ]] || stale="$obj is missing"
	for dep in "$src" ${deps[$src]}; do
		if [[ -z $stale && $dep -nt $obj ]]; then stale="$dep is newer"; fi
	done
	if [[ -z $stale ]]; then
		echo "  up to date: $obj"
		return
	fi
	echo "  CC $obj ($stale)"
	{ for dep in ${deps[$src]}; do cat "$dep"; done; grep -v '^#include' "$src"; } | sed 's/[[:space:]]*$//' > "$obj.tmp"
	mv "$obj.tmp" "$obj"
	compiled=$((compiled + 1))
}
build() {
	local src obj objects=()
	compiled=0
	while read -r src; do
		obj=build/$(echo "${src#src/}" | tr / _)
		obj=${obj%.c}.o
		deps[$src]=$(scan "$src" | sort -u | tr '\n' ' ')
		compile "$src" "$obj"
		objects+=("$obj")
	done <<< "$(find src -name '*.c' | sort)"
	if ((compiled > 0)) || [[ ! -e build/prog ]]; then
		echo "  LD build/prog <- ${objects[*]}"
		cat "${objects[@]}" > build/prog
		chmod 755 build/prog
	fi
	echo "$compiled compiled, $(wc -c < build/prog | tr -d ' ') bytes"
}
echo first; build
echo second; build
touch -d '2099-01-01' src/lib/a.h
echo 'third, after a change of a.h'; build
rm build/lib_b.o
echo fourth; build | grep -v 'up to date'
stat -c '%a %n' build/prog
sha256sum build/prog | cut -c1-16
