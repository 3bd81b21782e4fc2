#!/bin/sh
# Builds the servers that tests of the Garden plugin run against: Baggageclaim, Houdini, and runcgarden with the process 1 of its containers.
set -eu
cd "$(dirname "$0")"
. ./once.sh
root=../../..
common='go.mod go.sum build.sh once.sh'

tools() {
	echo "building Baggageclaim and Houdini for the tests, once on this machine: about half a minute, 40 MB in $cache"
	programs github.com/concourse/baggageclaim/cmd/baggageclaim github.com/concourse/houdini/cmd/houdini
}

ours() {
	(cd $root && GOARCH=$arch CGO_ENABLED=0 $go build -trimpath -ldflags '-s -w' -o "$new/" ./plugins/garden/gardentest/runcgarden)
	$cc -O2 -Wall -Werror -static -s -o "$new/garden-init" ../gardentest/runcgarden/init/init.c
}

# The files are a list.
# shellcheck disable=SC2086
build "$cache/garden-servers-$(key $common)" tools
# shellcheck disable=SC2086
build "$cache/garden-runcgarden-$(key $common ../gardentest/runcgarden/*.go ../gardentest/runcgarden/init/init.c $root/plugins/runc/engine/*.go)" ours
