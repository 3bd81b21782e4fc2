package tools

import (
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/benhoyt/goawk/interp"
	"github.com/benhoyt/goawk/lexer"
	"github.com/benhoyt/goawk/parser"
)

// maxAwkBytes bounds a program: the parser recurses as deep as it is long.
const maxAwkBytes = 64 << 10

// awkInput yields one file after another. Each ends with io.EOF, and the next
// Read begins the next: GoAWK is told of as many inputs as there are files, and
// so counts FNR anew in each.
type awkInput struct {
	*tool
	files []string
	name  string
	r     io.ReadCloser
}

func (in *awkInput) Read(p []byte) (int, error) {
	in.check()
	if in.r == nil {
		if len(in.files) == 0 {
			return 0, io.EOF
		}
		in.name, in.files = in.files[0], in.files[1:]
		r, err := in.open(in.name)
		if err != nil {
			in.fail(in.name, err)
			in.status = 2
			return 0, io.EOF
		}
		in.r = r
	}
	n, err := in.r.Read(p)
	if err != nil {
		in.r.Close()
		in.r = nil
	}
	return n, err
}

// filenameOf is the function of the rule that is put before programs that
// mention FILENAME.
const filenameOf = "slipway_filename"

// awk runs GoAWK, confined: it opens no file, starts no command, and sees the
// environment of the call. Files are its operands. FILENAME is set by the first
// record of a file (not by getline, nor for an empty file), and ARGV, nextfile,
// print > FILE but for "-", getline < FILE, system and pipes are refused. Of
// gawk's functions there are strftime and systime.
func awk(t *tool) int {
	given, args := t.options("+F:v:f:e:", map[string]rune{"field-separator": 'F', "assign": 'v', "file": 'f', "source": 'e'}, 2)
	config := &interp.Config{
		Output: t.out, Error: sink{t, t.Stderr}, Argv0: "awk",
		NoExec: true, NoFileReads: true, NoFileWrites: true, NoArgVars: true, Environ: []string{}, Vars: []string{},
		Chars: true, NewlineOutput: interp.RawNewlineMode,
	}
	var source []string
	for _, o := range given {
		switch o.flag {
		case 'F':
			sep := t.awkText(o.value)
			if sep == "t" {
				sep = "\t"
			}
			config.Vars = append(config.Vars, "FS", sep)
		case 'v':
			name, value, ok := strings.Cut(o.value, "=")
			if !ok {
				t.die(2, "-v %s: give NAME=VALUE", o.value)
			}
			config.Vars = append(config.Vars, name, t.awkText(value))
		case 'f':
			source = append(source, t.awkFile(o.value))
		case 'e':
			source = append(source, o.value)
		}
	}
	if source == nil {
		if len(args) == 0 {
			t.die(2, "give a program")
		}
		source, args = args[:1], args[1:]
	}
	program := strings.Join(source, "\n")
	if len(program) > maxAwkBytes {
		t.die(2, "the program has %d bytes, the limit is %d", len(program), maxAwkBytes)
	}
	in := &awkInput{tool: t}
	assignment := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	for _, arg := range args {
		if assignment.MatchString(arg) {
			config.NoArgVars = false
			config.Args = append(config.Args, arg)
			continue
		}
		in.files = append(in.files, arg)
		config.Args = append(config.Args, "-")
	}
	mentions := func(word string) bool { return regexp.MustCompile(`\b` + word + `\b`).MatchString(program) }
	if len(in.files) == 0 {
		in.files = []string{"-"}
	} else {
		for _, word := range []string{"ARGV", "ARGC", "nextfile"} {
			if mentions(word) {
				t.die(2, "%s is not supported with file operands", word)
			}
		}
	}
	funcs := map[string]any{filenameOf: func() string {
		if in.name == "-" {
			return ""
		}
		return in.name
	}}
	for name, f := range t.awkFuncs() {
		if mentions(name) && !regexp.MustCompile(`\bfunc(tion)?\s+`+name+`\b`).MatchString(program) {
			funcs[name] = f
		}
	}
	compiled, err := parser.ParseProgram([]byte(program), &parser.ParserConfig{Funcs: funcs})
	if err != nil {
		t.die(2, "%v", err)
	}
	if mentions("FILENAME") && (len(compiled.Actions) > 0 || len(compiled.End) > 0) {
		rule := "FNR==1{FILENAME=" + filenameOf + "()}\n"
		if compiled, err = parser.ParseProgram([]byte(rule+program), &parser.ParserConfig{Funcs: funcs}); err != nil {
			t.die(2, "%v", err)
		}
	}
	config.Stdin, config.Funcs = in, funcs
	if t.Env.List != nil {
		for _, kv := range t.Env.List() {
			name, value, _ := strings.Cut(kv, "=")
			config.Environ = append(config.Environ, name, value)
		}
	}
	machine, err := interp.New(compiled)
	if err != nil {
		t.die(2, "%v", err)
	}
	status, err := machine.ExecuteContext(t.ctx, config)
	t.check()
	if err != nil {
		t.die(2, "%v (files other than operands, and commands, cannot be used here)", err)
	}
	if status == 0 {
		return t.status
	}
	return status
}

// awkFuncs are gawk's that scripts use as if they were everybody's.
func (t *tool) awkFuncs() map[string]any {
	return map[string]any{
		"systime": func() int { return int(time.Now().Unix()) },
		"strftime": func(args ...string) string {
			format, at := "%a %b %e %H:%M:%S %Z %Y", time.Now()
			if len(args) > 0 {
				format = args[0]
			}
			if len(args) > 1 {
				n, _ := strconv.ParseFloat(args[1], 64)
				at = time.Unix(int64(n), 0)
			}
			if len(args) > 2 && args[2] != "" && args[2] != "0" {
				return strftime(format, at.UTC())
			}
			return strftime(format, at.In(t.zone()))
		},
	}
}

func (t *tool) awkText(s string) string {
	text, err := lexer.Unescape(s)
	if err != nil {
		t.die(2, "%s: %v", quote(s), err)
	}
	return text
}

func (t *tool) awkFile(name string) string {
	r, err := t.open(name)
	if err != nil {
		t.die(2, "cannot open %s: %s", name, reason(err))
	}
	defer r.Close()
	b, err := whole(io.LimitReader(r, maxAwkBytes+1))
	if err != nil {
		t.die(2, "cannot read %s: %s", name, reason(err))
	}
	return string(b)
}
