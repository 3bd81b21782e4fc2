#!/bin/sh
# Runs the word count on the texts beside this file, on the memory runtime, and shows the result. $1 is the slipway binary.
set -eu
here=$(dirname "$0")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
set -x
"$1" run "$here/wordcount.hcl" -i text="$here/texts" -o report="$out/report"
cat "$out/report/report.txt"
