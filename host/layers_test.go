package host

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/slipway-run/slipway"

// layers says which packages of this module each package may import, beside itself. "x/..." stands for x and all below it. Tests may
// import more: those of a package that is not listed under testLayers only what the package may.
var layers = map[string][]string{
	"internal/testkit":                     {},
	"internal/hostproof":                   {"internal/testkit"},
	"internal/filemode":                    {},
	"internal/printable":                   {},
	"sdk":                                  {},
	"sdk/proto":                            {},
	"sdk/internal/pb":                      {},
	"sdk/keeper":                           {"sdk"},
	"sdk/internal/source":                  {},
	"sdk/rpc":                              {"sdk", "sdk/internal/...", "internal/filemode"},
	"sdk/rpc/rpctest":                      {"sdk", "sdk/rpc"},
	"sdk/rpc/internal/...":                 {"sdk", "sdk/rpc", "sdk/rpc/internal/..."},
	"sdk/shim":                             {"sdk/..."},
	"sdk/shim/cmd":                         {"sdk", "sdk/shim/internal/..."},
	"sdk/shim/internal/...":                {"sdk", "sdk/keeper", "sdk/volumetar", "sdk/shim/internal/..."},
	"sdk/shim/internal/onrunc":             {"plugins/runc/engine"},                                              // in its tests: the shim's proof on real containers
	"sdk/shim/internal/onnomad":            {"sdk/...", "host/launch", "conformance", "plugins/nomad/nomadtest"}, // in its tests: the same on Nomad
	"sdk/keylock":                          {},
	"sdk/volumetar":                        {"sdk", "internal/filemode"},
	"sdk/shelf":                            {},
	"sdk/volumedir":                        {"sdk", "sdk/shelf", "sdk/volumetar"},
	"sdk/machine":                          {"sdk", "sdk/shelf", "sdk/shim", "sdk/volumedir"},
	"sdk/guide":                            {"conformance"}, // in its tests: what it tells is done
	"conformance":                          {"sdk/...", "host/launch", "conformance/internal/wire", "internal/printable"},
	"conformance/internal/wire":            {"sdk/rpc"}, // for the messages that it knows by name
	"conformance/...":                      {"sdk/...", "host/launch", "conformance/...", "internal/printable"},
	"plugins/memory":                       {"sdk/...", "plugins/memory/internal/..."},
	"plugins/memory/cmd":                   {"sdk/...", "plugins/memory", "plugins/memory/internal/..."},
	"plugins/memory/internal/...":          {"sdk", "plugins/memory/internal/...", "internal/filemode"},
	"plugins/nomad":                        {"sdk", "sdk/keylock", "sdk/shim", "plugins/nomad/internal/storenet", "conformance"}, // the last in its tests
	"plugins/nomad/cmd":                    {"sdk/...", "plugins/nomad"},
	"plugins/nomad/nomadtest":              {"internal/testkit"},
	"plugins/nomad/store":                  {"sdk/...", "plugins/nomad/internal/..."},
	"plugins/nomad/store/cmd":              {"plugins/nomad/store"},
	"plugins/nomad/internal/...":           {"sdk", "sdk/rpc"},
	"plugins/garden":                       {"sdk", "sdk/keylock", "sdk/shim", "plugins/garden/internal/...", "conformance"}, // the last in its tests
	"plugins/garden/cmd":                   {"sdk/...", "plugins/garden"},
	"plugins/garden/internal/...":          {"sdk"},
	"plugins/garden/gardentest":            {"internal/testkit"},
	"plugins/runc":                         {"sdk/...", "plugins/runc/engine", "conformance"}, // the last in its tests
	"plugins/runc/cmd":                     {"sdk/rpc", "plugins/runc"},
	"plugins/runc/engine":                  {},
	"plugins/garden/gardentest/runcgarden": {"plugins/runc/engine"},
	"host":                                 {"sdk/...", "host/config", "host/job", "host/launch", "host/pool", "host/stream", "host/spool", "host/store", "host/reap", "host/lifecycle"},
	"host/api":                             {"sdk", "host", "host/...", "internal/filemode"},
	"host/api/proto":                       {},
	"host/api/internal/pb":                 {},
	"host/config":                          {"sdk", "internal/printable"},
	"host/job":                             {"sdk"},
	"host/launch":                          {"sdk", "sdk/rpc", "internal/printable"},
	"host/launch/testdata/...":             {"sdk", "sdk/rpc"},
	"host/pool":                            {"sdk"},
	"host/lifecycle":                       {},
	"host/reap":                            {"sdk"},
	"host/spool":                           {"sdk"},
	"host/store":                           {},
	"host/stream":                          {"sdk", "internal/filemode"},
	"cmd/host":                             {"sdk/...", "host/...", "conformance/...", "internal/filemode", "internal/printable"},
	"cmd/host/internal/hostile":            {"sdk", "sdk/rpc", "plugins/memory", "internal/testkit"}, // a plugin of its tests
	"examples/...":                         {"sdk/...", "host"},
	"examples/chroot":                      {"sdk/...", "conformance"},
	"examples/node":                        {"sdk", "conformance"}, // in its tests: a plugin that is no Go
	"examples/python":                      {"sdk", "conformance"}, // so is this one
	"plugins/nomad/internal/onnomad": { // in its tests: the plugin under hosts
		"sdk/...", "host", "host/config", "host/job", "conformance", "plugins/nomad",
	},
	"plugins/garden/internal/ongarden": { // in its tests: the program under hosts
		"sdk/...", "host", "host/...", "conformance", "plugins/garden", "plugins/memory",
	},
}

// testLayers says what tests may import beside that.
var testLayers = []string{"plugins/memory", "plugins/nomad/nomadtest", "plugins/garden/gardentest", "sdk/...", "host/launch", "internal/testkit", "internal/hostproof"}

// TestLayers holds the import table: a star around sdk and host, never a mesh.
func TestLayers(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Fatal("the go command is needed to list the packages: ", err)
	}
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		allowed, ok := rule(name)
		if !ok {
			t.Errorf("%s: no line in the table of layers", name)
			continue
		}
		check(t, name, "imports", p.Imports, allowed)
		tests := append(slices.Clone(testLayers), allowed...)
		check(t, name, "in its tests imports", append(p.TestImports, p.XTestImports...), tests)
		if name == "sdk" {
			for _, i := range p.Imports {
				if strings.Contains(strings.Split(i, "/")[0], ".") {
					t.Errorf("sdk imports %s: it may import the standard library only", i)
				}
			}
		}
	}
}

// rule finds the line for a package: its own, or else the longest that covers it.
func rule(name string) ([]string, bool) {
	if r, ok := layers[name]; ok {
		return r, true
	}
	best, found := "", false
	for pattern := range layers {
		if covers(pattern, name) && len(pattern) >= len(best) {
			best, found = pattern, true
		}
	}
	return layers[best], found
}

func covers(pattern, name string) bool {
	tree, ok := strings.CutSuffix(pattern, "/...")
	if !ok {
		return pattern == name
	}
	return name == tree || strings.HasPrefix(name, tree+"/")
}

func check(t *testing.T, name, how string, imports, allowed []string) {
	t.Helper()
	for _, i := range imports {
		other, ours := strings.CutPrefix(i, module+"/")
		if !ours || other == name {
			continue
		}
		if !slices.ContainsFunc(allowed, func(p string) bool { return covers(p, other) }) {
			t.Errorf("%s %s %s, which the table of layers does not allow", name, how, other)
		}
	}
}

// TestStatesAreMovedInOnePlace: no file of this package but move.go writes or deletes a row that has a state.
func TestStatesAreMovedInOnePlace(t *testing.T) {
	usedOnlyIn(t, "move.go", "name the event to life.move, which reads the row again",
		"PutContainer", "DeleteContainer", "PutVolume", "DeleteVolume", "PutProcess", "DeleteProcess", "PutRun", "DeleteRun")
}

// TestOneDestroyer: no file of this package but the reconciler's has a worker destroy anything.
func TestOneDestroyer(t *testing.T) {
	usedOnlyIn(t, "reconcile_pay.go", "note in its row that it goes, and its worker's reconciler destroys it", "DestroyContainer", "DestroyVolume")
}

// usedOnlyIn fails if a file of this package names one of the methods and is not the given one, or if that does not use each of them once.
func usedOnlyIn(t *testing.T, where, instead string, methods ...string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	uses := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(methods, s.Sel.Name) {
				if uses++; name != where {
					t.Errorf("%s: %s: %s", fset.Position(n.Pos()), s.Sel.Name, instead)
				}
			}
			return true
		})
	}
	if uses != len(methods) {
		t.Errorf("%d uses of %q, want one each: does this test still see them?", uses, methods)
	}
}
