package shell

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestImports: what these packages do not import, they cannot use. Only Confine
// looks at the machine's files.
func TestImports(t *testing.T) {
	files := 0
	for _, dir := range []string{".", "../tools", "../wasi"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "landlock_") {
				continue
			}
			files++
			for _, complaint := range offences(t, name) {
				t.Errorf("%s %s", name, complaint)
			}
		}
	}
	if files < 20 {
		t.Errorf("only %d files were looked at", files)
	}
	if len(offences(t, "landlock_linux.go")) == 0 {
		t.Error("this test finds nothing where there is something")
	}
}

func offences(t *testing.T, name string) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case p == "os/exec", p == "os/user", p == "os/signal", p == "net", strings.HasPrefix(p, "net/"), p == "plugin", p == "unsafe", p == "io/ioutil",
			p == "path/filepath", strings.HasPrefix(p, "golang.org/x/sys"), strings.HasPrefix(p, "github.com/landlock-lsm/"):
			found = append(found, "imports "+p)
		}
		if spec.Name != nil && (p == "os" || p == "syscall") {
			found = append(found, "renames "+p)
		}
	}
	// Of os, only what is no look at the machine; of syscall, only names of errors.
	allowed := map[string]bool{
		"O_RDONLY": true, "O_WRONLY": true, "O_RDWR": true, "O_CREATE": true, "O_EXCL": true, "O_TRUNC": true, "O_APPEND": true,
		"File": true, "FileMode": true, "LinkError": true, "Pipe": true, "IsExist": true, "IsTimeout": true,
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		if !ok || pkg.Obj != nil {
			return true
		}
		switch {
		case pkg.Name == "os" && !allowed[sel.Sel.Name]:
			found = append(found, "uses os."+sel.Sel.Name)
		case pkg.Name == "syscall" && sel.Sel.Name != "Errno" && sel.Sel.Name != "Stat_t" && !strings.HasPrefix(sel.Sel.Name, "E"):
			found = append(found, "uses syscall."+sel.Sel.Name)
		case pkg.Name == "syscall" && sel.Sel.Name == "Exec":
			found = append(found, "uses syscall.Exec")
		case pkg.Name == "interp" && strings.HasPrefix(sel.Sel.Name, "Default"):
			found = append(found, "uses the machine's handler interp."+sel.Sel.Name)
		case pkg.Name == "time" && sel.Sel.Name == "LoadLocation":
			found = append(found, "reads the machine's time zones")
		}
		return true
	})
	return found
}
