#!/bin/sh
# Makes an image of this machine's busybox, which must be a static one (Debian: busybox-static), in the directory $1.
set -eu
mkdir -p "$1/rootfs/bin" "$1/rootfs/etc" "$1/rootfs/dev" "$1/rootfs/proc" "$1/rootfs/sys" "$1/rootfs/tmp"
cp "$(command -v busybox)" "$1/rootfs/bin/busybox"
for name in sh sort uniq head id uname; do
	ln -sf busybox "$1/rootfs/bin/$name"
done
printf '%s\n' 'root:x:0:0::/:/bin/sh' 'app:x:1000:1000::/:/bin/sh' > "$1/rootfs/etc/passwd"
echo '{"env": ["PATH=/bin"]}' > "$1/metadata.json"
