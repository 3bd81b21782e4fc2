#!/bin/sh
# Builds the Garden server of a Concourse worker, for the tests that the soak runs against it. The gate does not need it.
set -eu
cd "$(dirname "$0")"
. ../once.sh

concourse() {
	echo "building Concourse's Garden server for the tests, once on this machine: minutes, for its module names many others; 20 MB in $cache"
	programs .
	# Process 1 of containers is in C.
	source=$(GOWORK=off $go list -m -f '{{.Dir}}' github.com/concourse/concourse)
	$cc -static -o "$new/init" "$source/cmd/init/init.c"
}

build "$cache/garden-concourse-$(key go.mod go.sum build.sh ../once.sh ./*.go)" concourse
