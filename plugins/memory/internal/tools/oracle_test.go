package tools

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// TestOracle runs each line through the machine's own tool and ours, and
// compares standard output, the exit status and the files that are left.
// Lines are split at blanks, outside of '…'. "<text" at the end is standard input.
func TestOracle(t *testing.T) {
	t.Parallel()
	for tool, lines := range map[string]string{
		"cat":      "cat abc noend abc\ncat -n abc\ncat -b abc\ncat -A tabs utf8\ncat -s abc\ncat nope abc\ncat - abc <hello\ncat dir\ncat -ns abc noend",
		"tac":      "tac abc\ntac noend",
		"head":     "head -n 2 abc\nhead -1 abc\nhead -c 5 abc\nhead -n -2 abc\nhead -c -5 abc\nhead -n 1 abc noend\nhead -q -n 1 abc noend\nhead nope\nhead -n 0 abc\nhead -n x abc\nhead -n 3 noend",
		"tail":     "tail -n 2 abc\ntail -2 abc\ntail -c 5 abc\ntail -n +3 abc\ntail -c +3 abc\ntail -n 1 abc noend\ntail -n 0 abc\ntail -n 2 noend\ntail nope\ntail +2 abc",
		"wc":       "wc abc\nwc -l abc noend\nwc -w abc\nwc -c abc\nwc -m utf8\nwc -L tabs\nwc <a b c\nwc -l <x\nwc nope abc\nwc empty\nwc -lw abc empty",
		"mkdir":    "mkdir new\nmkdir dir\nmkdir a/b\nmkdir -p a/b/c\nmkdir -p dir abc\nmkdir\nmkdir -p abc/x\nmkdir -m 700 m",
		"rmdir":    "rmdir dir\nrmdir dir/sub/emptydir\nrmdir nope\nrmdir -p dir/sub/emptydir\nrmdir abc",
		"rm":       "rm abc\nrm dir\nrm -r dir\nrm nope\nrm -f nope\nrm -rf nope dir abc\nrm -d dir/sub/emptydir\nrm\nrm -f\nrm link\nrm -r dirlink\nrm .",
		"cp":       "cp abc new\ncp abc dir\ncp abc noend dir\ncp dir new\ncp -r dir new\ncp -R dir abc\ncp nope x\ncp abc abc\ncp -a link l2\ncp link l2\ncp -n abc noend\ncp abc noend empty\ncp -rT dir newdir\ncp -t dir abc\ncp -r dir/. out\ncp abc",
		"mv":       "mv abc new\nmv abc dir\nmv dir new\nmv dir dir/sub\nmv nope x\nmv abc noend\nmv -n abc noend\nmv abc noend dir\nmv dir abc\nmv abc noend empty\nmv -t dir abc\nmv -T dir dir2\nmv abc abc",
		"ln":       "ln abc hard\nln -s abc soft\nln -s abc link\nln -sf noend link\nln -s abc dir\nln dir x\nln nope x\nln -sfn abc dirlink\nln -s x\nln abc noend",
		"touch":    "touch new\ntouch -c new\ntouch abc\ntouch nope/x\ntouch",
		"ls":       "ls\nls -a dir\nls -1 dir/sub\nls nope\nls -d dir abc\nls -F\nls -R dir\nls abc dir\nls -A\nls -p\nls -r\nls dirlink\nls -d dirlink/",
		"seq":      "seq 5\nseq 2 5\nseq 1 2 9\nseq 5 1\nseq 5 -2 1\nseq -s , 3\nseq -w 8 11\nseq 0.5 0.5 2\nseq x\nseq 1 0 2\nseq -f %03g 3\nseq -3 -1\nseq -w 1 0.5 2",
		"basename": "basename /a/b.c\nbasename /a/b.c .c\nbasename -s .c a.c b.c\nbasename -a x/y z\nbasename /\nbasename a/\nbasename .c .c\nbasename",
		"dirname":  "dirname /a/b\ndirname a\ndirname a/b/ c//d\ndirname /\ndirname /a\ndirname //a",
		"echo":     "echo a b\necho -n x\necho",
		"expr": "expr 1 + 2\nexpr 2 '*' 3 + 4\nexpr 7 / 2\nexpr 7 % 0\nexpr a = b\nexpr 10 '>' 9\nexpr abc : 'a\\(.\\)c'\nexpr abc : 'x'\nexpr abc : 'a.'\nexpr length hello\n" +
			"expr substr hello 2 3\nexpr index hello lo\nexpr '' '|' 5\nexpr 0 '&' 1\nexpr '(' 1 + 2 ')' '*' 3\nexpr 1 +\nexpr x + 1\nexpr + length = length\nexpr -5 + 3\nexpr 1 '<' 2 '&' 3",
		"test": "test a\ntest ''\ntest -f abc\ntest -d dir\ntest -e nope\ntest -L link\ntest -h abc\ntest -s empty\ntest 1 -eq 1\ntest 1 -lt 0\ntest a = a\ntest a != a\ntest ! -f nope\n" +
			"test -f abc -a -d dir\ntest -f nope -o -d dir\ntest '(' a = b ')'\ntest x -eq 1\ntest -n ''\ntest -z ''\ntest ! a = b\ntest -x dir\ntest abc -ef link\ntest a b\ntest ! '' -a b\ntest -n = -n\ntest ' 3 ' -eq 3\ntest -x abc",
		"printf": "printf '%s\\n' a b\nprintf '%d %i\\n' 3 -4\nprintf '%5d|%-5d|%05d\\n' 1 2 3\nprintf '%x %X %o %u\\n' 255 255 8 7\nprintf '%f %.2f %e %g\\n' 1.5 2.345 12345.678 0.0001\n" +
			"printf '%s %s\\n' a b c\nprintf '%c%c\\n' abc def\nprintf '%b\\n' 'a\\tb\\101'\nprintf '\\101\\x41\\n'\nprintf '%%\\n'\nprintf '%*d|%-*d|\\n' 5 1 5 2\nprintf '%.3s|\\n' abcdef\n" +
			"printf '%d\\n' 0x1f 010\nprintf '%d\\n' \\'A\nprintf '%d\\n' abc\nprintf '%+d % d\\n' 5 5\nprintf '%#x %#o\\n' 255 8\nprintf '%10.3f|\\n' 3.14159\nprintf 'x\\cy' z\nprintf '%b' 'x\\cy' z\nprintf '%s\\n'\nprintf '%5.1f|%-8s|\\n' 2.25 ab\nprintf '%G %E\\n' 1e-10 1.5\nprintf '%.0f\\n' 2.5",
		"date": "date -u -d @0\ndate -u -d @1700000000 '+%Y-%m-%d %H:%M:%S'\ndate -u -d @1700000000 +%A-%a-%B-%b-%j-%U-%V-%W-%u-%w-%y-%C\ndate -u -d @1700000000 '+%e %k %l %I %p %P %s %N %z %Z %%'\ndate -u -d '2020-02-29 12:34:56' +%s\n" +
			"date -u -d '2020-02-29 +1 day' +%F\ndate -u -d 2020-01-31T10:00:00Z +%s\ndate -u -d @0 -R\ndate -u -d @0 -Iseconds\ndate -u -d @0 '+%-d %_m %3d %^a %:z'\ndate -u -d garbage\ndate -u -d '2020-01-01 2 weeks ago' +%F\ndate -u -d @86399.5 +%T.%3N\ndate -u -d '1 Mar 2021' +%F-%D-%R-%r-%q",
		"tr":    "tr a-z A-Z <hello World\ntr -d l <hello\ntr -s l <hello\ntr -cd a-z <h3llo W\ntr -s ' ' '\\n' <a  b   c\ntr '[:lower:]' '[:upper:]' <abc\ntr -cs A-Za-z '\\n' <a-b  c\ntr abc x <aabbcc\ntr a\ntr -d a b\ntr 'a-c' '1-3' <abcd\ntr -t abc x <aabbcc\ntr '\\101' B <ABA\ntr ab '[x*]' <abc",
		"cut":   "cut -d , -f 1 csv\ncut -d , -f 1,3 csv\ncut -d , -f 2- csv\ncut -d , -f -2 csv\ncut -c 2-4 abc\ncut -f 2 tabs\ncut -s -d : -f 1 abc\ncut -d ' ' -f 3,1 words\ncut -b 1 abc noend\ncut -f 0 csv\ncut -d , --complement -f 1 csv\ncut --output-delimiter=: -d , -f 1,2 csv\ncut abc\ncut -c 1,3 --output-delimiter=- abc",
		"rev":   "rev abc\nrev utf8\nrev noend",
		"paste": "paste abc noend\npaste -s abc\npaste -d , abc noend\npaste -s -d + numbers\npaste - - <1\npaste -d ,: abc noend dup",
		"comm":  "comm sorted1 sorted2\ncomm -12 sorted1 sorted2\ncomm -23 sorted1 sorted2\ncomm -3 sorted1 sorted2\ncomm sorted1",
		"sort": "sort abc\nsort -r abc\nsort -n numbers\nsort -rn numbers\nsort -u dup\nsort -t , -k 2 csv\nsort -t , -k 2n csv\nsort -t , -k 2,2n -k 1,1r csv\nsort -k 2 words\nsort -k 2,2 words\nsort -f abc\nsort -c abc\nsort -c sorted1\nsort -o out numbers\n" +
			"sort -nu numbers\nsort -b -k 2 tabs\nsort noend abc\nsort nope\nsort -V numbers\nsort -s -k 1,1 csv\nsort -t , -k 1.1,1.1 -k 3 csv\nsort -k 1.2 abc\nsort -h <2K\nsort -d abc\nsort -m sorted1 sorted2\nsort -cu dup\nsort -g numbers\nsort -k 2nr words\nsort -C abc\nsort -t , -k3,3 -k1,1 csv",
		"uniq": "uniq dup\nuniq -c dup\nuniq -d dup\nuniq -u dup\nuniq -i abc\nuniq -f 1 words\nuniq -s 1 dup\nuniq -w 1 abc\nuniq -D dup\nuniq dup out\nuniq nope",
		"grep": "grep beta abc\ngrep -v beta abc\ngrep -c beta abc\ngrep -n beta abc noend\ngrep -l beta abc noend\ngrep -L beta abc noend\ngrep -i ALPHA abc\ngrep -q beta abc\ngrep zzz abc\ngrep -E 'a(l|m)' abc\ngrep 'a\\|m' abc\ngrep '^b' abc\ngrep 'a$' abc\ngrep -o 'a.' abc\n" +
			"grep -w beta abc\ngrep -w bet abc\ngrep -x beta abc\ngrep -F a. abc\ngrep -e beta -e delta abc\ngrep -r package dir\ngrep -rn 3 dir\ngrep -h a abc words\ngrep -H beta abc\ngrep 'a\\{2\\}' abc\ngrep -E 'm{2}' abc\ngrep '[[:digit:]]' abc\ngrep -E '[0-9]+' abc\ngrep -m 1 a abc\ngrep -A 1 beta abc\ngrep -B 1 gamma abc\ngrep -C 1 12 abc\n" +
			"grep nope nofile\ngrep -s nope nofile abc\ngrep '' abc\ngrep -c '' noend\ngrep '\\(a' abc\ngrep -E 'a+b?' abc\ngrep '*' abc\ngrep -f sorted1 dup\ngrep -on a abc\ngrep -vn a abc\ngrep -E '^(the|beta)' abc words\ngrep '\\bend\\b' abc\ngrep '\\<the' abc\ngrep 'end\\>' abc\ngrep -E '\\w+ \\w+' words\ngrep -v . abc\ngrep --include=*.txt -r 3 dir\ngrep --exclude=*.txt -r . dir\ngrep -rl . dir\ngrep -c x abc words\ngrep beta <beta\ngrep -Fx beta abc\ngrep -iw THE words\ngrep 'a*' noend\ngrep -E 'x{,2}' abc\ngrep -m1 -c a abc\ngrep -E '()' abc\ngrep -E 'a||b' abc",
		"sed": sedCases,
		"find": "find dir -name '*.txt'\nfind dir -type d\nfind dir -type f -name '*.go'\nfind dir -maxdepth 1 -type f\nfind dir -mindepth 3\nfind dir -empty\nfind . -type l\nfind dir '(' -name one.txt -o -name two.go ')' -print\nfind dir -name sub -prune -o -type f -print\nfind dir ! -name '*.txt' -type f\n" +
			"find dir -type f -exec cat {} ;\nfind dir -name '*.txt' -delete\nfind nope\nfind dir -size 0\nfind dir -path '*sub*' -type f\nfind dir -iname '*.TXT' -name 'o*'\nfind dir -name x -o -name one.txt\nfind dir -type f -size -2c\nfind dir -name sub -exec echo got {} ;\nfind dir -name one.txt -exec false ;\nfind dir -name one.txt -printf '%f %s %h\\n'\nfind dir -maxdepth 0\nfind dir -foo\nfind dir -type f -name one.txt -exec echo {} +\nfind abc dir/sub/three.txt -newer nope\nfind dir/sub -depth\nfind dir -regex '.*/t.*'\nfind dir/one.txt -print0",
		"xargs":     "xargs <a b c\nxargs -n 1 echo <a b c\nxargs -I {} echo [{}] <a b\nxargs -r echo <\nxargs <\nxargs echo x <'a b' \"c d\"\nxargs -d , echo <a,b\nxargs -n 2 <1 2 3 4 5\nxargs false <a\nxargs nonesuchcommand <a\nxargs -0 echo <a b\nxargs -n1 -t echo <x y\nxargs -I % echo %% <q\nxargs -P 1 -n 1 echo <a b",
		"env":       "env -i A=1 B=2\nenv -i A=1 printenv A\nenv -u V printenv V\nenv printenv V\nenv nonesuchcommand\nenv -i",
		"sha256sum": "sha256sum abc empty\nsha256sum nope\nsha256sum <x",
		"sha1sum":   "sha1sum abc",
		"sha512sum": "sha512sum abc",
		"readlink":  "readlink link\nreadlink abc\nreadlink -n link\nreadlink nope",
		"chmod":     "chmod 755 abc\nchmod u+x,go-r abc\nchmod -R a+rX dir\nchmod nope abc\nchmod 644 nofile\nchmod +x abc\nchmod -w abc\nchmod u=rw,g=u,o= abc",
		"stat":      "stat -c %s abc\nstat -c '%n %F' abc dir empty link\nstat -c %a abc\nstat nope\nstat -c %A dir",
		"tee":       "tee out <hello\ntee -a abc <more\ntee nope/x <hi\ntee one two <x",
		"awk":       awkCases,
		"sleep":     "sleep 0\nsleep 0.01s\nsleep x\nsleep",
		"base64":    "base64 abc\nbase64 -w 10 abc\nbase64 -w 0 noend\nbase64 -d <aGVsbG8=\nbase64 -d <aGVs*\nbase64 -di <aG-Vs\nbase64 empty\nbase64 nope\nbase64 <text that is longer than one line of seventy-six columns, so that it must be wrapped",
		"base32":    "base32 abc\nbase32 -d <NBSWY3DP",
		"md5sum":    "md5sum abc empty\nmd5sum nope\nmd5sum -c --ignore-missing <d41d8cd98f00b204e9800998ecf8427e  empty\nmd5sum -c <d41d8cd98f00b204e9800998ecf8427e  abc\nmd5sum -c --ignore-missing <d41d8cd98f00b204e9800998ecf8427e  nofile",
		"sha224sum": "sha224sum abc",
		"sha384sum": "sha384sum abc",
		"cksum":     "cksum abc empty noend\ncksum <x",
		"od":        "od abc\nod -c tabs\nod -An -tx1 noend\nod -A d -t x1 abc\nod -A x -t d1 sorted1\nod -t o1 -N 5 abc\nod -j 3 -c noend\nod -tx2 sorted1\nod -An -tu1 utf8\nod -t x4 abc\nod -t d8 noend\nod -c utf8\nod -a tabs\nod -x noend\nod -b noend\nod -tx1 -tc sorted1\nod -v -An -tx1 dup\nod -w4 -tx1 noend\nod empty\nod nope\nod -tq abc\nod -An -v -tx1 <aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nod -c <aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nod -d abc noend",
		"nl":        "nl abc\nnl -ba abc\nnl -w 3 -s : abc\nnl -v 10 -i 5 dup\nnl -n rz sorted1\nnl -n ln sorted1\nnl -b n sorted1\nnl noend",
		"fold":      "fold -w 5 abc\nfold -s -w 7 words\nfold -w 4 tabs\nfold -w 2 noend\nfold -b -w 3 abc\nfold -5 words",
		"expand":    "expand tabs\nexpand -t 4 tabs\nexpand -t 2,6 tabs\nexpand -i tabs\nexpand -t 0 tabs",
		"unexpand":  "unexpand words\nunexpand -a tabs\nunexpand <        x        y\nunexpand -a <        x       y  z",
		"split":     "split -l 2 abc\nsplit -b 5 abc part.\nsplit -l 1 -d dup n\nsplit -a 3 -l 4 abc\nsplit -l 3 noend\nsplit empty\nsplit -l 1 -a 1 sorted2\nsplit nope",
		"join":      "join sorted1 sorted2\njoin -a 1 sorted1 sorted2\njoin -v 2 sorted1 sorted2\njoin -t , csv csv\njoin -a 1 -a 2 -e x -o 0,1.1,2.1 sorted1 sorted2\njoin sorted1 dup\njoin -1 1 -2 1 sorted2 sorted1\njoin -o 1.1 sorted1 sorted1\njoin sorted1\njoin sorted1 nope",
		"tsort":     "tsort <a b b c\ntsort <a b c d b c\ntsort <x x\ntsort <a b c",
		"shuf":      "shuf -n 0 abc\nshuf empty\nshuf -i 3-3\nshuf -e one\nshuf nope",
		"strings":   "strings abc\nstrings -n 6 abc\nstrings tabs",
		"du":        "du -b abc\ndu nope\ndu -bs noend empty\ndu -bc abc noend",
		"dd":        "dd if=abc of=new status=none\ndd if=abc bs=5 count=2 status=none\ndd if=abc bs=1 skip=6 count=4 status=none\ndd if=sorted1 of=abc bs=1 seek=3 conv=notrunc status=none\ndd if=sorted1 of=abc bs=2 seek=1 status=none\ndd if=nope\ndd bs=4 count=1 status=none <abcdef\ndd nonsense\ndd if=abc of=new bs=1K count=1 status=none",
		"install":   "install abc new\ninstall -m 600 abc dir\ninstall -d a/b/c\ninstall -D abc x/y/z\ninstall -m u=rw,go=r abc noend dir\ninstall nope x\ninstall abc\ninstall -d -m 700 secret\ninstall -t dir abc noend\ninstall -Dm 644 abc deep/down",
		"link":      "link abc hard\nlink nope x\nlink abc",
		"unlink":    "unlink abc\nunlink dir\nunlink nope\nunlink link",
		"gzip":      "gzip -t abc\ngzip nope\ngzip -d abc\ngzip dir",
		"tar":       "tar -tf abc\ntar -xf nope\ntar -cf x.tar",
		"id":        "id -u nosuchuser",
		"uname":     "uname\nuname -s",
		"timeout":   "timeout 1000 true\ntimeout x true\ntimeout 5\ntimeout 1000 nonesuchcommand",
		"getopt":    "getopt -o ab:c:: -l long,value: -n me -- -a -bx -c --long --value=v op -- rest\ngetopt -o a -- -z\ngetopt -o b: -- -b\ngetopt -T\ngetopt ab: -a -b x y\ngetopt -o +a -- x -a\ngetopt -u -o a: -- -a 'b c'\ngetopt -o a -l alpha,alpine -- --al\ngetopt -o '' -l alpha -- --alp\ngetopt -q -o a -- -x",
		"truncate":  "truncate -s 3 abc\ntruncate -s +4 abc\ntruncate -s -2 abc\ntruncate -s 1K new\ntruncate -c -s 5 nope\ntruncate -s %10 abc\ntruncate -s /10 abc\ntruncate -r noend abc\ntruncate -s '<4' abc noend\ntruncate -s x abc\ntruncate abc\ntruncate -s 1KB new",
		"cmp":       "cmp abc abc\ncmp abc noend\ncmp -s abc noend\ncmp -s abc abc\ncmp dup sorted1\ncmp -l sorted1 sorted2\ncmp abc nope\ncmp empty abc\ncmp -n 1 abc dup\ncmp - abc <alpha\ncmp sorted1 sorted2 2\ncmp -i 2 sorted1 sorted1",
		"diff": "diff abc abc\ndiff sorted1 sorted2\ndiff abc noend\ndiff -q abc noend\ndiff -q abc link\ndiff -s abc link\ndiff dup sorted1\ndiff empty abc\ndiff noend empty\ndiff nope abc\ndiff --label x --label y -u abc noend\ndiff -L a -L b -u sorted1 sorted2\ndiff -L a -L b -U 0 sorted1 sorted2\n" +
			"diff -r dir dirlink\ndiff -r dir dir/sub\ndiff dir dir/sub\ndiff -rq dir dir/sub\ndiff dir/one.txt dir/sub/three.txt\ndiff -i abc words\ndiff -w tabs words\ndiff -b tabs abc\ndiff -B abc dup\ndiff - abc <alpha beta gamma\ndiff -L a -L b -u numbers sorted1\ndiff csv words\ndiff -L a -L b -u dup dup\ndiff abc\ndiff -L a -L b -U 1 csv numbers\ndiff -N nope sorted1\ndiff dir/one.txt dir\ndiff words csv\ndiff -L a -L b -u words noend",
		"true":     "true\ntrue x",
		"false":    "false",
		"mktemp":   "mktemp -q nope/xXXX\nmktemp x",
		"realpath": "realpath nope/x",
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			for line := range strings.SplitSeq(lines, "\n") {
				t.Run(line, func(t *testing.T) { compareWithMachine(t, line) })
			}
		})
	}
}

func compareWithMachine(t *testing.T, line string) {
	argv, in := split(line)
	dir := t.TempDir()
	fillDisk(t, dir)
	wantOut, wantErrs, wantStatus := machine(t, dir, argv, in)
	ns := newTree(t)
	fill(t, ns)
	out, errs, status := call(t, ns, argv, in, "LC_ALL=C.UTF-8", "TZ=UTC0", "V=value")
	if out != wantOut || status != wantStatus {
		t.Errorf("stdout %q, status %d; the machine's has %q, %d; stderr %q", out, status, wantOut, wantStatus, errs)
	}
	if wantErrs != "" && errs == "" {
		t.Errorf("no message; the machine's says %q", wantErrs)
	}
	disk := snapshot(t, os.ReadDir, func(name string) (string, error) {
		info, err := os.Lstat(name)
		if err != nil {
			return "", err
		}
		if info.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(name)
			return "->" + target, err
		}
		b, err := os.ReadFile(name)
		return fmt.Sprintf("%v %q", info.Mode(), b), err
	}, dir)
	mem := snapshot(t, func(d string) ([]os.DirEntry, error) { return ns.ReadDir("/", d) }, func(name string) (string, error) {
		info, err := ns.Lstat("/", name)
		if err != nil {
			return "", err
		}
		if info.Mode()&os.ModeSymlink != 0 {
			target, err := ns.Readlink("/", name)
			return "->" + target, err
		}
		f, err := ns.Open("/", name, os.O_RDONLY, 0)
		if err != nil {
			return "", err
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		return fmt.Sprintf("%v %q", info.Mode(), b), err
	}, "/w")
	if mem != disk {
		t.Errorf("it left\n%s\nthe machine's left\n%s", mem, disk)
	}
}

// split parts a line of a case into arguments and standard input.
func split(line string) (argv []string, in string) {
	var word strings.Builder
	started := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			word.WriteString(strings.ReplaceAll(line[i+1:i+1+end], `\n`+"\x00", "\n"))
			i += end + 1
			started = true
		case c == '<' && !started:
			if in = line[i+1:]; in != "" {
				in += "\n"
			}
			return argv, in
		case c == ' ':
			if started {
				argv = append(argv, word.String())
			}
			word.Reset()
			started = false
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			started = true
		default:
			word.WriteByte(c)
			started = true
		}
	}
	if started {
		argv = append(argv, word.String())
	}
	return argv, in
}

const sedCases = `sed s/a/X/ abc
sed s/a/X/g abc
sed s/a/X/2 abc
sed s/a/X/2g abc
sed -n s/a/X/p abc
sed s/ALPHA/x/I abc
sed 's/\(a\)\(l\)/\2\1/' abc
sed -E 's/(a)(l)/\2\1/' abc
sed 's/[aeiou]/<&>/g' abc
sed 's/beta/a\&b/' abc
sed s,a,/,g abc
sed 's|a|\||' abc
sed 2d abc
sed 2,4d abc
sed '$d' abc
sed -n 2p abc
sed -n '2,$p' abc
sed -n /beta/p abc
sed -n '/beta/,/delta/p' abc
sed /beta/d abc
sed '/beta/!d' abc
sed 2q abc
sed 2q5 abc
sed -n '$=' abc
sed = noend
sed '2i\  hello' abc
sed '2a hello' abc
sed '2c changed' abc
sed '2,3c changed' abc
sed y/abc/xyz/ abc
sed -n '1~2p' abc
sed -n '2,+1p' abc
sed -n '0,/a/p' abc
sed -n '1,/a/p' abc
sed -n '2,~4p' abc
sed N abc
sed 'N;P;D' abc
sed -n 'H;${x;s/\n/,/g;p}' abc
sed G abc
sed -n '1!G;h;$p' abc
sed '1h;2g' abc
sed 'n;d' abc
sed ':a;N;$!ba;s/\n/ /g' abc
sed ':a;s/^\(x*\)a/\1x/;ta' dup
sed -e s/a/b/ -e s/b/c/ abc
sed -n '/a/{s/a/X/;p}' abc
sed '/beta/{d;p}' abc
sed s/x*/-/g noend
sed 's/$/!/' noend
sed s/^/\>/ noend
sed p noend
sed -i s/a/X/ abc noend
sed -i.bak 1d abc
sed -s -n '$p' abc noend
sed -n '$p' abc noend
sed 's/a/\U&/' abc
sed 's/\w\+/\u&/g' words
sed -E 's/(\w+) (\w+)/\U\1\E \l\2/' words
sed 's/a\|b/X/g' abc
sed 's/a\{1,2\}/X/' abc
sed -E 's/a{2}|m+/X/g' abc
sed -E 's/^(.*)$/[\1]/' abc
sed 's/[^[:alnum:] ]//g' csv
sed 's/,.*//' csv
sed '/^$/d' abc
sed nope
sed -n
sed s/a/b nofile
sed p nofile
sed 'k' abc
sed 's/a' abc
sed '/a' abc
sed 'b x' abc
sed '{p' abc
sed 'w out' abc
sed -n '/beta/w out' abc
sed 's/a/X/w out' abc
sed 'r noend' sorted1
sed '$r nofile' sorted1
sed '1!s/a/b/' dup
sed '2,3!d' dup
sed '/a/,/c/s/^/#/' dup
sed -z 's/\n/,/g' abc
sed --expression=s/a/b/ dup
sed -n l tabs
sed '1d;3,$d' abc
sed 's/a/b/;s//c/' dup
sed '/b/s//X/' dup
sed 's/\t/TAB/' tabs
sed 's/\./x/' numbers
sed 's/.\{3\}/&-/g' words
sed 5,2p dup
sed '2{h;d};${p;x}' dup
sed -n 'x;p' dup
sed D dup
sed '$!N;s/\n/-/' dup
sed '$!N;/^\(.*\)$/P;D' sorted1
sed 'T;s/a/b/' dup
sed -E 's/a?/x/g' dup
sed 'a\' dup
sed '1a\text' dup
sed 's/[/]/x/' abc
sed 's/a\/b/x/' abc
sed '\,a,d' dup
sed 'y/a\/b/x\/y/' dup
sed Q2 dup
sed 's/b*/X/2' <abc
sed z dup
sed F dup
sed -f sedscript dup
sed -n '/start/,/end/{//!p}' words
sed 1,3s/a/b/g dup
sed '/a/I,+1d' abc
sed '2,4{/b/d}' dup
sed 's/a/x/;ta;s/$/ no/;:a' dup
sed '#comment' dup
sed 's/a/x/ # comment' dup
sed '}' dup
sed ': a;s/aa/a/;t a' dup
sed 's/\(x\)*a/[\1]/' dup
sed s/a/b/gp dup
sed -ne s/a/b/gp dup
sed --in-place=.o s/a/b/ dup
sed '3!{s/a/b/}' dup
sed 's/A-Z/x/' abc
sed 's/[a-z]*/(&)/2' words
sed 's/o\b/0/' words
sed 's/\bt/T/' words
sed -E 's/\s+/ /g;s/^ | $//g' tabs`

const awkCases = `awk '{print $1}' abc
awk -F , '{print $2}' csv
awk '{s+=$1} END {print s}' numbers
awk 'NR==2' abc
awk '/beta/{print NR": "$0}' abc
awk 'END{print NR}' abc noend
awk 'NR==FNR{a[$1]=1;next} $1 in a' sorted1 sorted2
awk '{print FILENAME, FNR}' sorted1 sorted2
awk -v x=5 'BEGIN{print x+1}'
awk 'BEGIN{printf "%d %s %.2f\n", 3, "a", 1.5}'
awk 'BEGIN{exit 3}'
awk '{print length($0)}' words
awk '{n=split($0,a," "); print n, a[1]}' words
awk 'BEGIN{print toupper("abc") substr("hello",2,3) index("abc","c")}'
awk '{gsub(/a/,"X"); print}' abc
awk 'BEGIN{OFS="-"} {$1=$1; print}' words
awk -F: '{print NF}' abc
awk 'BEGIN{print ENVIRON["V"]}'
awk '{print' abc
awk '{print x}' x=1 sorted1
awk '{print}' nofile
awk 'BEGIN{while((getline line)>0) n++; print n}' abc
awk '$2 > 2 {print $1}' FS=, csv
awk '!seen[$0]++' dup
awk '{print $NF}' words
awk 'function f(x){return x*2} {print f($1)}' numbers`
