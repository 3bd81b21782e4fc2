#!/bin/sh
# A configure script: options, checks, and files made from templates.
set -eu

prefix=/usr/local
enable_debug=no
with_zlib=auto
srcdir=.
usage() {
	cat <<-USAGE
	Usage: configure [OPTION]...
	  --prefix=PREFIX   where to install [$prefix]
	  --enable-debug    build with debugging
	  --without-zlib    do not use zlib
	USAGE
}
parse() {
	for opt do
		optarg=${opt#*=}
		case $opt in
		--prefix=*) prefix=$optarg ;;
		--enable-*=*) eval "enable_$(expr "x$opt" : 'x--enable-\([^=]*\)' | tr - _)=\$optarg" ;;
		--enable-*) eval "enable_$(printf %s "${opt#--enable-}" | sed 's/-/_/g')=yes" ;;
		--disable-*) eval "enable_$(printf %s "${opt#--disable-}" | sed 's/-/_/g')=no" ;;
		--without-zlib) with_zlib=no ;;
		--help | -h) usage; return 9 ;;
		*=*) export "${opt?}" ;;
		*) echo "configure: error: unrecognized option: \`$opt'" >&2; return 2 ;;
		esac
	done
}
parse --help || echo "help says $?"
parse --nonsense 2>&1 || echo "nonsense says $?"
parse --prefix=/opt/thing --enable-debug --disable-fancy-stuff CFLAGS="-O2 -g" --enable-level=3
echo "prefix=$prefix debug=$enable_debug fancy=$enable_fancy_stuff level=$enable_level CFLAGS=$CFLAGS"

exec 5>&- 2>/dev/null || :
: > config.log
log() { printf '%s: %s\n' configure "$*" >> config.log; }
check_prog() {
	printf 'checking for %s... ' "$1"
	if command -v "$1" >/dev/null 2>&1; then echo yes; log "found $1"; return 0; fi
	echo no; log "no $1"; return 1
}
for prog in sed awk no-such-compiler sort; do
	if check_prog "$prog"; then
		var=$(echo "HAVE_$prog" | tr 'a-z-' 'A-Z_')
		defs="${defs-}#define $var 1
"
	fi
done
printf 'checking whether ln -s works... '
if ln -s config.log conf$$.link 2>/dev/null && test -h conf$$.link; then echo yes; LN_S='ln -s'; else echo no; LN_S=cp; fi
rm -f conf$$.link
printf 'checking the size of a word... '
word=$(( (1 << 31) > 0 ? 8 : 4 )); echo "$word"

cat > Makefile.in <<'TEMPLATE'
prefix = @prefix@
bindir = $(prefix)/bin
CFLAGS = @CFLAGS@ @DEBUG@
LN_S = @LN_S@
all: @PROGRAMS@
TEMPLATE
case $enable_debug in yes) DEBUG=-DDEBUG ;; *) DEBUG= ;; esac
sed -e "s|@prefix@|$prefix|g" -e "s|@CFLAGS@|$CFLAGS|g" -e "s|@DEBUG@|$DEBUG|" -e "s|@LN_S@|$LN_S|" \
	-e 's|@PROGRAMS@|one two|' Makefile.in > Makefile
{
	echo '/* made by configure */'
	printf '%s' "$defs"
	printf '#define LEVEL %d\n#define PACKAGE "%s"\n' "$enable_level" thing
} > config.h.new
if cmp -s config.h.new config.h 2>/dev/null; then rm config.h.new; else mv config.h.new config.h; fi
cat > config.status <<STATUS
#!/bin/sh
# run by: $0
echo "prefix is $prefix"
echo "arguments: \$*"
STATUS
chmod +x config.status
sh ./config.status one "two three" | sed 's/^/  /'
grep -c . Makefile config.h
wc -l < config.log | tr -d ' '
test "$(grep -o '@[A-Za-z_]*@' Makefile || true)" = "" && echo 'no variable is left'
