#!/bin/sh
# Builds guardian, the Garden server that most installations have, for the tests that the soak runs against it. The gate does not need it.
set -eu
cd "$(dirname "$0")"
. ../once.sh

guardian() {
	echo "building guardian for the tests, once on this machine: about a minute, 40 MB in $cache"
	programs code.cloudfoundry.org/guardian/cmd/gdn code.cloudfoundry.org/guardian/cmd/dadoo
	# Process 1 of containers, and what unpacks archives in them, are in C.
	source=$(GOWORK=off $go list -m -f '{{.Dir}}' code.cloudfoundry.org/guardian)
	$cc -static -o "$new/init" "$source/cmd/init/init.c" "$source/cmd/init/ignore_sigchild.c"
	$cc -static -o "$new/nstar" "$source/rundmc/nstar/nstar.c" "$source/rundmc/nstar/pwd.c"
}

build "$cache/garden-guardian-$(key go.mod go.sum build.sh ../once.sh)" guardian
