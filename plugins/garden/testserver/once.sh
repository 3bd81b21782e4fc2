# What the scripts share that build the servers of the Garden plugin's tests: each once per user and machine, in the user's cache, in a directory whose name
# changes with whatever changes the programs. gardentest finds it by the same rule.
LC_ALL=C
export LC_ALL
go=${GO:-go}
cc=${CC:-cc}
arch=$($go env GOARCH)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/slipway

# key FILES prints what the name of a directory depends on: the architecture, and the files.
key() {
	{
		echo "$arch"
		for file in "$@"; do
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

# programs PACKAGE... builds programs of the module that the script is in.
programs() {
	GOWORK=off GOARCH=$arch CGO_ENABLED=0 $go build -trimpath -ldflags '-s -w' -o "$new/" "$@"
}
