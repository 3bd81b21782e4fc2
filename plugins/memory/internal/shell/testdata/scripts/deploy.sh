#!/bin/bash
# A deployment: install, links that switch, modes, and rolling back.
set -eu
umask 022
root=target
log() { printf '[%s] %s\n' "$1" "$2"; }
die() { log fatal "$*" >&2; exit 1; }
parse() {
	local opt
	OPTIND=1
	while getopts 'nv:k:' opt "$@"; do
		case $opt in
		n) dry=1 ;;
		v) version=$OPTARG ;;
		k) keep=$OPTARG ;;
		*) return 2 ;;
		esac
	done
	shift $((OPTIND - 1))
	hosts=("$@")
}
dry=0 keep=2 version= hosts=()
parse -v 3 -k 2 alpha 'beta gamma' && echo "version $version, keep $keep, ${#hosts[@]} hosts: ${hosts[*]}"
parse -z 2>/dev/null || echo "refused: $?"

publish() {
	local v=$1 dir=$root/releases/$1
	[ -e "$dir" ] && { log skip "$v is there"; return 0; }
	install -d -m 750 "$dir"
	printf 'version=%s\n' "$v" > payload
	install -D -m 640 payload "$dir/etc/app.conf"
	printf '#!/bin/sh\n. "$(dirname "$0")/../etc/app.conf"\necho "running $version"\n' > payload
	install -m 755 payload "$dir/run"
	mkdir -p "$dir/bin" && mv "$dir/run" "$dir/bin/run"
	ln -sfn "releases/$v" "$root/current"
	log ok "$v: $(readlink "$root/current")"
}
for v in 1 2 3 3 4; do publish "$v"; done
sh "$root/current/bin/run"
find "$root" -mindepth 1 -printf '%y %m %P\n' | sort -k3
prune() { # keeps the newest
	ls -1 "$root/releases" | sort -rn | tail -n +$(($1 + 1)) | while read -r old; do
		[ "$(readlink -f "$root/current")" = "$(cd "$root/releases/$old" && pwd -P)" ] && continue
		log prune "$old"
		rm -r "${root:?}/releases/$old"
	done
}
ln -sfn releases/1 "$root/current"; log rollback "$(basename "$(realpath "$root/current")")"
prune "$keep"
ls "$root/releases" | tr '\n' ' '; echo
[ "$root/current/bin/run" -ef "$root/releases/1/bin/run" ] && echo "one file by two ways"
chmod u-w,g=r,o+x "$root/current/bin/run"; stat -c '%a %A %F' "$root/current/bin/run"
chmod -R a+rX,go-w "$root"; stat -c '%a' "$root/releases/1" "$root/current/etc/app.conf"
cp -p "$root/current/etc/app.conf" copy; cmp copy "$root/current/etc/app.conf" && [ ! copy -nt "$root/current/etc/app.conf" ] && echo "same content, same time"
ln copy hard; stat -c '%h' copy; rm hard; stat -c '%h' copy
touch -r copy -d '2001-02-03 04:05:06 UTC' stamp; TZ=UTC stat -c '%y' stamp | cut -d. -f1; date -u -r stamp +%Y%m%d
truncate -s 10 stamp; wc -c < stamp | tr -d ' '; dd if=/dev/zero bs=4 count=3 status=none | od -An -tx1 | tr -d ' '
du -b stamp | cut -f1; find . -name stamp -size 10c
rm -f payload copy stamp
die "all done, on purpose" 2>&1
