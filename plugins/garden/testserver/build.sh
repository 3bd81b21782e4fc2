#!/bin/sh
# Builds the servers that tests of the Garden plugin run against, once per user and machine: Baggageclaim, Houdini, and runcgarden with the
# process 1 of its containers. They are kept in the user's cache, in directories whose names change with whatever changes the programs;
# gardentest finds them by the same rule.
set -eu
cd "$(dirname "$0")"
LC_ALL=C
export LC_ALL
go=${GO:-go}
arch=$($go env GOARCH)
root=../../..
cache=${XDG_CACHE_HOME:-$HOME/.cache}/slipway

# key prints what the name of a directory depends on: the architecture, the modules, and the files that are named.
key() {
	{
		echo "$arch"
		for file in go.mod go.sum build.sh "$@"; do
			case $file in *_test.go) continue ;; esac
			cat "$file"
		done
	} | sha256sum | cut -c1-16
}

# build DIRECTORY COMMAND... runs the command with $new being a directory, which then gets its name if that is not taken.
build() {
	dir=$1
	shift
	[ ! -d "$dir" ] || return 0
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/.garden-XXXXXX")
	trap 'rm -rf "$new"' EXIT
	"$@"
	chmod 755 "$new"
	mv -T "$new" "$dir" 2>/dev/null || [ -d "$dir" ] # another one was faster
	rm -rf "$new"
	trap - EXIT
}

tools() {
	echo "building Baggageclaim and Houdini for the tests, once on this machine: about half a minute, 40 MB in $cache"
	GOWORK=off GOARCH=$arch CGO_ENABLED=0 $go build -trimpath -ldflags '-s -w' -o "$new/" \
		github.com/concourse/baggageclaim/cmd/baggageclaim github.com/concourse/houdini/cmd/houdini
}

ours() {
	(cd $root && GOARCH=$arch CGO_ENABLED=0 $go build -trimpath -ldflags '-s -w' -o "$new/" ./plugins/garden/gardentest/runcgarden)
	${CC:-cc} -O2 -Wall -Werror -static -s -o "$new/garden-init" ../gardentest/runcgarden/init/init.c
}

build "$cache/garden-servers-$(key)" tools
build "$cache/garden-runcgarden-$(key ../gardentest/runcgarden/*.go ../gardentest/runcgarden/init/init.c $root/plugins/runc/engine/*.go)" ours
