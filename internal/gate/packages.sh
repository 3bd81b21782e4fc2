#!/bin/sh
# Installs the Debian packages that the tests need and this machine lacks, as root or by sudo. What stays lacking is said at once, with what
# that leaves out of the tests; with CI=true it is an error, because a gate that leaves something out is none. Called as `packages.sh concourse` it
# sees as well to those of a Concourse worker, which the soak alone has.
set -u
for_soak=${1:-}
export DEBIAN_FRONTEND=noninteractive

# missing_of_concourse does the same for what a Concourse worker needs beyond that.
missing_of_concourse() {
	command -v containerd-shim-runc-v2 >/dev/null || echo containerd
	command -v iptables >/dev/null || echo iptables
	command -v ip >/dev/null || echo iproute2
	[ -e /usr/lib/cni/bridge ] || echo containernetworking-plugins
}

# missing prints the packages whose file or program is not there.
missing() {
	while read -r program packages; do
		command -v "$program" >/dev/null 2>&1 || echo "$packages"
	done <<-END
		cc gcc libc6-dev
		tar tar
		bash bash
		awk mawk
		sed sed
		grep grep
		curl curl
		find findutils
		sort coreutils
		runc runc
		dockerd docker.io
		busybox busybox-static
		gzip gzip
		protoc protobuf-compiler
	END
	[ "$for_soak" != concourse ] || missing_of_concourse
	[ -e /usr/include/google/protobuf/duration.proto ] || echo libprotobuf-dev
	/usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null || echo python3-grpcio python3-protobuf
}

lacking=0
lack() {
	echo "lacking: $1" >&2
	lacking=1
}

root=$([ "$(id -u)" = 0 ] && echo yes)
[ -n "$root" ] || lack 'root: tests that make containers, mounts or users are left out (run this as root)'
packages=$(missing | tr '\n' ' ')
if [ -n "$packages" ]; then
	as=
	if [ -n "$root" ] || as=$(command -v sudo); then
		echo "installing $packages"
		# shellcheck disable=SC2086 # a list
		{ $as apt-get update -q && $as apt-get install -y -q --no-install-recommends $packages; } || true
	fi
	packages=$(missing | tr '\n' ' ')
	[ -z "$packages" ] || lack "${packages% }: tests that need them are left out (apt-get install ${packages% })"
fi
[ "$lacking" = 0 ] || [ "${CI:-}" != true ]
