#!/bin/sh
# Builds the Nomad agent that tests run against, once per user and machine: it is kept in the user's cache, under a name that changes with whatever
# changes it, and the link bin/nomad at the top of this checkout leads there. nomadtest finds it by the same rule.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")"
go=${GO:-go}
arch=$($go env GOARCH)
key=$({ cat go.mod go.sum build.sh clouds/*/*; echo "$arch"; } | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/slipway
program=$cache/nomad-v1.9.4-$key
link=../../../bin/nomad

if [ ! -x "$program" ]; then
	echo "building Nomad for the tests, once on this machine: 2 to 5 minutes, 80 MB in $cache"
	mkdir -p "$cache"
	new=$(mktemp "$cache/.nomad-XXXXXX")
	trap 'rm -f "$new"' EXIT
	# Its exec driver needs C. Without the tag ui the pages of its web interface stay out. Unoptimised it is built in two thirds of the time, and it waits more than it computes.
	GOWORK=off GOARCH=$arch CGO_ENABLED=1 $go build -trimpath -tags osusergo,netgo -gcflags='all=-N -l' \
		-ldflags '-s -w -linkmode external -extldflags=-static' -o "$new" github.com/hashicorp/nomad
	chmod 755 "$new"
	mv "$new" "$program"
fi
if [ "$(readlink "$link" || true)" != "$program" ]; then
	mkdir -p ../../../bin
	ln -sfn "$program" "$link"
fi
