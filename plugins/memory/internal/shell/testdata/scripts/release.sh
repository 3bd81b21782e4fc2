#!/bin/bash
# A release: version, change log, archive, checksums, and a look whether all came through.
set -euo pipefail
umask 022
mkdir -p tree/bin tree/share/doc
printf '#!/bin/sh\necho thing\n' > tree/bin/thing; chmod 755 tree/bin/thing
ln -s thing tree/bin/alias
seq 1 200 > tree/share/doc/numbers
echo 'secret' > tree/.hidden; echo junk > tree/share/doc/x.bak
: > tree/share/empty
echo 1.9.12 > VERSION

bump() { # VERSION PART
	local IFS=. major minor patch
	read -r major minor patch <<< "$1"
	case $2 in
	major) echo "$((major + 1)).0.0" ;;
	minor) echo "$major.$((minor + 1)).0" ;;
	patch) echo "$major.$minor.$((patch + 1))" ;;
	*) return 1 ;;
	esac
}
for part in patch minor major; do printf '%s -> %s (%s)\n' "$(<VERSION)" "$(bump "$(cat VERSION)" $part)" $part; done
bump 1.2.3 none || echo "no such part: $?"
version=$(bump "$(cat VERSION)" minor)
name=thing-$version

cat > CHANGES <<LOG
* fix: a thing (#12)
* feat: another thing (#7)
* fix: one more (#31)
* docs: words
LOG
awk -v version="$version" '
	BEGIN { print "# " version; print "" }
	match($0, /^\* [a-z]+:/) { kind = substr($0, 3, RLENGTH - 3); text[kind] = text[kind] "- " substr($0, RLENGTH + 2) "\n"; n[kind]++ }
	END { split("feat fix docs", order, " "); for (i = 1; i <= 3; i++) { k = order[i]; printf "## %s (%d)\n%s", k, n[k], text[k] } }
' CHANGES | tee NOTES.md

cp -a tree "$name"
tar --exclude='*.bak' --owner=0 --group=0 -czf "$name.tar.gz" "$name"
tar -tzf "$name.tar.gz" | sort
mkdir out && tar -C out -xzf "$name.tar.gz"
diff -r "$name" "out/$name" || echo "differs: $?"
rm "$name/share/doc/x.bak"
diff -r "$name" "out/$name" && echo "the same but for what was left out"
test -x "out/$name/bin/thing" && readlink "out/$name/bin/alias"
tar -xzOf "$name.tar.gz" "$name/share/doc/numbers" | tail -n 1
tar -cf - -C "$name" bin | tar -tf - | sort | paste -sd' '
mkdir stripped && tar -xzf "$name.tar.gz" -C stripped --strip-components=1 "$name/bin" && find stripped | sort

(cd out && find . -type f | LC_ALL=C sort | xargs sha256sum) > SHA256SUMS
(cd out && sha256sum -c ../SHA256SUMS)
echo tampered >> "out/$name/share/empty"
(cd out && sha256sum --quiet -c ../SHA256SUMS 2>/dev/null) || echo "tampered: $?"
gzip -dc "$name.tar.gz" | tar -tf - | wc -l | tr -d ' '
gzip -9 < tree/share/doc/numbers | gunzip | cmp - tree/share/doc/numbers && echo "gzip gives back what it got"
gzip -k NOTES.md && ls NOTES.md* && zcat NOTES.md.gz | head -n 1
rm -rf out stripped "$name.tar.gz" NOTES.md.gz
