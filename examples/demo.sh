#!/bin/sh
# Runs the word count on the texts beside this file, in memory, and shows the result. $1 is the slipway binary, $2 the directory
# for the result.
set -eu
here=$(dirname "$0")
echo "\$ slipway run $here/wordcount.hcl -i text=$here/texts -o report=$2 --force"
"$1" run "$here/wordcount.hcl" -i text="$here/texts" -o report="$2" --force
echo
echo "\$ cat $2/report.txt"
cat "$2/report.txt"
