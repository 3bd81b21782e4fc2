#!/bin/bash
# Reports from logs: find, xargs, while read, sort, awk and printf.
set -eo pipefail
mkdir -p 'logs/web 1' logs/db
for day in 01 02 03; do
	for i in $(seq 1 $((10#$day * 4))); do
		case $((i % 5)) in
		0) level=ERROR code=500 ;;
		3) level=WARN code=404 ;;
		*) level=INFO code=200 ;;
		esac
		printf '2024-05-%sT10:%02d:00 %s code=%d ms=%d path="/p/%d"\n' "$day" "$i" $level $code $((i * 37 % 101)) $((i % 3))
	done > "logs/web 1/$day.log"
done
printf 'slow query\nok\n' > logs/db/db.log
echo '-- files'
find logs -name '*.log' -type f -print0 | sort -z | xargs -0 wc -l
find logs -type f -size +0 -exec sh -c 'for f; do echo "${f##*/} $(wc -c < "$f" | tr -d " ")"; done' sh {} + | sort
echo '-- levels'
find logs -name '[0-9]*.log' -print0 | xargs -0 cat | awk '{print $2}' | sort | uniq -c | sort -k1,1nr -k2 | sed 's/^ *//'
echo '-- by day'
find logs -name '0*.log' | sort | while IFS= read -r f; do
	day=$(basename "$f" .log)
	errors=$(grep -c ' ERROR ' "$f" || true)
	total=$(grep -c '' "$f")
	printf '%-4s %3d of %3d %6.2f%% [%-10s]\n' "$day" "$errors" "$total" "$(echo "$errors $total" | awk '{print 100*$1/$2}')" "$(printf '%*s' "$errors" '' | tr ' ' '#')"
done
echo '-- slowest'
cat logs/web\ 1/*.log | sed -n 's/.*ms=\([0-9]*\) path="\([^"]*\)".*/\1 \2/p' | sort -rn | head -n 3
echo '-- percentiles'
cat logs/web*/*.log | grep -oE 'ms=[0-9]+' | cut -d= -f2 | sort -n | awk '{v[NR]=$1} END {print "p50", v[int(NR*.5)], "p90", v[int(NR*.9)], "max", v[NR]}'
echo '-- table'
awk '{split($3, c, "="); n[$2 " " c[2]]++} END {for (k in n) print k, n[k]}' logs/*/0*.log | sort | column_free=1 awk '{printf "%-6s|%5s|%3d\n", $1, $2, $3}'
echo '-- rotate'
i=0
ls -1 logs/web*/*.log | sort -r | while read -r f; do i=$((i + 1)); mv "$f" "${f%.log}.$i.old"; done
find logs -name '*.old' | sed 's,.*/,,' | sort | paste -sd, -
grep -rl ERROR logs | wc -l | tr -d ' '
grep -rhc ERROR logs | sort -n | uniq | tr '\n' ' '; echo
find logs -name '*.old' -newer logs/db/db.log | wc -l | tr -d ' '
find . -type d -empty | wc -l | tr -d ' '
find logs -type f -name 'db*' -delete; find logs -mindepth 1 -maxdepth 1 -type d | sort
