#!/bin/bash
# Tables without a database: join, comm, paste, cut, split, tsort, and checksums.
set -euo pipefail
export LC_ALL=C
cat > users.csv <<CSV
id,name,team
3,carol,red
1,alice,blue
2,bob,red
5,erin,
CSV
cat > hours.csv <<CSV
1,8
2,6
2,3
4,9
CSV
body() { { read -r header; printf '%s\n' "$header"; "$@"; } }
body sort -t, -k1,1n < users.csv
tail -n +2 users.csv | sort -t, -k1,1 > users.sorted; sort -t, -k1,1 hours.csv > hours.sorted
echo '-- inner'; join -t, users.sorted hours.sorted
echo '-- left'; join -t, -a 1 -e none -o 0,1.2,2.2 users.sorted hours.sorted
echo '-- without'; join -t, -v 1 users.sorted hours.sorted | cut -d, -f2
echo '-- sums'; awk -F, '{h[$1] += $2} END {for (i in h) print i "," h[i]}' hours.csv | sort -t, -k2,2nr -k1,1n
echo '-- group'; cut -d, -f3 users.sorted | sort | uniq -c | awk '{printf "%s %s\n", ($2 == "" ? "(none)" : $2), $1}'
cut -d, -f1 users.sorted > a; cut -d, -f1 hours.sorted | uniq > b
echo '-- sets'; comm -12 a b | paste -sd' ' -; comm -23 a b | paste -sd' ' -; comm -13 a b | paste -sd' ' -; sort -m a b | uniq -d | wc -l | tr -d ' '
echo '-- columns'; paste -d: a a | head -n 2
nl -w 3 -s ') ' users.sorted; tac users.sorted | rev | cut -c1-4
expand -t 4 <<< $'a\tb' ; fold -w 7 -s <<< 'the quick brown fox'; tr -s ' ' <<< 'a   b    c'
echo '-- matrix'; seq 1 6 | paste - - | tee matrix; awk '{for (i = 1; i <= NF; i++) m[i] = m[i] (NR > 1 ? " " : "") $i} END {for (i = 1; i in m; i++) print m[i]}' matrix
echo '-- pieces'; seq 1 1000 > big; split -l 300 big piece.; wc -l piece.* | awk '{print $1, $2}'; cat piece.* | cmp - big && echo whole; rm piece.*
split -b 1000 -d -a 3 big part-; ls part-* | paste -sd' ' -; cat part-* | md5sum | cut -d' ' -f1; md5sum < big | cut -d' ' -f1; rm part-*
cksum big; sha1sum big | cut -c1-12; sum=$(sha256sum < big); echo "$sum -" | grep -c '^[0-9a-f]\{64\} '
echo '-- order'; printf '%s\n' 'app lib' 'lib base' 'app log' 'log base' | tsort | tac | paste -sd' ' -
echo '-- numbers'; printf '%s\n' 10 9 2 1.5 -3 1e1 | sort -g | paste -sd' ' -; printf '%s\n' 2K 1M 512 1G | sort -h | paste -sd' ' -; printf '%s\n' v1.10 v1.9 v1.2.1 | sort -V | paste -sd' ' -
seq -w 8 11 | paste -sd, -; seq 10 -4 0 | paste -sd, -; seq -f 'n%02g' 3 | paste -sd, -; expr 7 \* 6; expr substr abcdef 2 3; expr length hello
echo '-- changes'; sed 's/red/green/' users.csv > users.new; diff users.csv users.new || true; diff -u --label old --label new users.csv users.new | tail -n +3 || true
diff -q users.csv users.new || echo "differ: $?"; diff users.csv users.csv && echo same
cmp users.csv users.new || true
grep -n -E '^(1|2),' users.csv; grep -vc red users.csv; grep -o 'r[a-z]*' users.csv | sort -u | paste -sd' ' -; grep -A1 -B1 bob users.csv
sed -n '2{p;q}' users.csv; sed '1d;$d' users.csv; sed -E 's/^([0-9]+),([a-z]+).*/\2=\1/' users.csv | tail -n 2; sed '/carol/,/bob/!d' users.csv | wc -l | tr -d ' '
