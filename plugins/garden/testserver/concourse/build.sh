#!/bin/sh
# Builds the Garden server of a Concourse worker, for the tests that the soak runs against it: once per user and machine, into the user's cache, under
# a name that changes with its versions. The gate does not need it. gardentest finds it by the same rule.
set -eu
cd "$(dirname "$0")"
LC_ALL=C
export LC_ALL
go=${GO:-go}
cc=${CC:-cc}
arch=$($go env GOARCH)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/slipway
key=$({ echo "$arch"; cat go.mod go.sum build.sh ./*.go; } | sha256sum | cut -c1-16)
dir=$cache/garden-concourse-$key
[ ! -d "$dir" ] || exit 0
echo "building Concourse's Garden server for the tests, once on this machine: minutes, for its module names many others; 20 MB in $cache"
mkdir -p "$cache"
new=$(mktemp -d "$cache/.garden-XXXXXX")
trap 'rm -rf "$new"' EXIT
GOWORK=off GOARCH=$arch CGO_ENABLED=0 $go build -trimpath -ldflags '-s -w' -o "$new/concourse" .
# Process 1 of containers is in C.
source=$(GOWORK=off $go list -m -f '{{.Dir}}' github.com/concourse/concourse)
$cc -static -o "$new/init" "$source/cmd/init/init.c"
chmod 755 "$new"
mv -T "$new" "$dir" 2>/dev/null || [ -d "$dir" ] # another one was faster
