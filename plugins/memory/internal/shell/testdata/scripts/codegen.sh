#!/bin/bash
# Code made from tables: here-documents of all kinds, arrays, printf, quoting.
set -euo pipefail
declare -a fields=(id:int name:string "created at:time")
declare -A types=([int]=int64 [string]=string [time]=time.Time)
camel() { # words to CamelCase
	local out= word
	for word in $1; do out+=${word^}; done
	printf '%s' "$out"
}
generate() {
	local f name type
	cat <<-'HEAD'
	// Code generated; DO NOT EDIT. $HOME and `date` stay as they are.
	package model
	HEAD
	printf '\ntype %s struct {\n' "$1"
	for f in "${fields[@]}"; do
		name=${f%:*} type=${types[${f##*:}]}
		printf '\t%-12s %-10s `json:"%s"`\n' "$(camel "$name")" "$type" "${name// /_}"
	done
	cat <<TAIL
}

const ${1}Fields = ${#fields[@]} // of ${#types[@]} types
// escaped: \$HOME \`date\` "quoted" 'single' $((2 ** 8))
TAIL
}
generate Record | tee model.go
echo "-- $(grep -c json model.go) fields, $(wc -w < model.go | tr -d ' ') words"
cat <<A; cat <<"B"
first $((1 + 1))
A
second $((1 + 1))
B
cat <<EOT | while IFS=: read -r key value; do printf '%-6s=%s\n' "$key" "${value# }"; done
host: example
port: 80
path: /a:b
EOT
printf '%s\n' "it's" 'a "b"' "tab	here" 'back\slash' | sed 's/["\\]/\\&/g; s/.*/"&"/' | paste -sd, -
printf '%05d|%+d|%x|%X|%o|%e|%8.3f|%-6s|%6s|%c|%%\n' 42 7 255 255 8 12345.678 3.14159 ab cd xyz
printf '%s-%s\n' a b c; printf '%q %q\n' 'a b' "x'y"; printf '%b' 'one\ttwo\n'; printf '%3$s' 2>/dev/null || true; echo
printf -v padded '%03d' 7; echo "$padded"
printf 'bytes' | od -An -tx1 | tr -d ' \n'; echo
printf 'round trip \001\377' | base64 | tee encoded; base64 -d encoded | od -An -c
arr=(a b c d e); echo "${arr[@]:1:3}" "${arr[-1]}" "${#arr[@]}" "${arr[*]/b/B}"; arr+=(f); unset 'arr[0]'; echo "${!arr[@]}"
IFS=, read -r -a parts <<< 'x,y,,z'; echo "${#parts[@]}" "${parts[3]}"
joined=$(IFS=+; echo "${arr[*]}"); echo "$joined"
s='path/to/file.tar.gz'; echo "${s##*/}" "${s%/*}" "${s%%.*}" "${s#*.}" "${s//\//:}" "${s^^}" "${s:5:2}" "${s: -2}"
unset u; echo "${u:-default}" "${u-}" "${u:=set}" "$u" "${u:+yes}"; (: "${nope:?is needed}") 2>/dev/null || echo "status $?"
case "x86_64-linux" in *-darwin) echo mac ;; x86*|i?86-*) echo intel ;; *) echo other ;; esac
for ((i = 0, j = 10; i < j; i += 3, j--)); do printf '%d,%d ' $i $j; done; echo
echo $((5 / 2)) $((-5 / 2)) $((5 % 3)) $((1 << 10)) $((0xff & 0x0f)) $((7 > 3 && 2 < 1)) $((010)) $((2#101)) $(( (3, 4) ))
echo {a,b}{1..3} {01..03} {c..a}; echo "{no}" '{a,b}'
while getopts ':ab:c' opt -a -b value -x -c rest; do
	case $opt in a|c) echo "flag $opt" ;; b) echo "b is $OPTARG" ;; \?) echo "unknown $OPTARG" ;; :) echo "$OPTARG needs a value" ;; esac
done; echo "index $OPTIND"
