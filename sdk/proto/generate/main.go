// Command generate compiles the .proto files of the contract into sdk/internal/pb, and those of the daemon into
// host/api/internal/pb. It needs nothing but Go: the compiler is a library, and the code generators are tools of this module,
// pinned by its go.mod.
//
// Run it in its own folder, through go generate in sdk/proto or host/api/proto. With -check it writes nothing and fails if what is there
// differs from what it would write, or if the contract breaks what is released of it (sdk/proto/released.txt): it names each break, and what to do.
// With -release the wire of today becomes what is released.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// target is one set of .proto files, which lie below slipway/ in their root, and where what is generated from them goes.
type target struct {
	root  string
	out   string
	pkg   string            // the Go package of out
	tools map[string]string // a code generator, and its options

	released string // the file with what older programs rely on; empty: nothing is released yet
}

// targets are all that there are.
func targets() []target {
	return []target{
		{root: "..", out: "../../internal/pb", pkg: "github.com/slipway-run/slipway/sdk/internal/pb", released: "../released.txt",
			tools: map[string]string{"protoc-gen-go": "", "protoc-gen-go-grpc": ""}},
		{root: "../../../host/api/proto", out: "../../../host/api/internal/pb", pkg: "github.com/slipway-run/slipway/host/api/internal/pb",
			tools: map[string]string{"protoc-gen-go": "", "protoc-gen-connect-go": ",package_suffix="}},
	}
}

func main() {
	check := flag.Bool("check", false, "fail if the generated files are not current or the wire breaks what is released, and write nothing")
	release := flag.Bool("release", false, "make the wire of today the one that is released")
	flag.Parse()
	if err := run(context.Background(), *check, *release); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check, release bool) error {
	var errs []error
	for _, t := range targets() {
		if err := t.run(ctx, check, release); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.root, err))
		}
	}
	return errors.Join(errs...)
}

func (t target) run(ctx context.Context, check, release bool) error {
	files, err := t.compile(ctx)
	if err != nil {
		return err
	}
	broken := t.hold(files, check, release)
	request := requestOf(files)
	generated := map[string][]byte{}
	for tool, options := range t.tools {
		request.Parameter = proto.String("module=" + t.pkg + options)
		if err := generate(ctx, tool, request, generated); err != nil {
			return errors.Join(broken, fmt.Errorf("%s: %w", tool, err))
		}
	}
	if check {
		return errors.Join(broken, t.compare(generated))
	}
	return errors.Join(broken, t.write(generated))
}

// hold compares the files with what is released, or makes them that.
func (t target) hold(files []protoreflect.FileDescriptor, check, release bool) error {
	if t.released == "" || !check && !release {
		return nil
	}
	var now []promise
	for _, f := range files {
		now = append(now, wireOf(f)...)
	}
	if release {
		return writeReleased(t.released, now)
	}
	return checkReleased(t.released, now)
}

// compile reads every .proto below the root.
func (t target) compile(ctx context.Context) ([]protoreflect.FileDescriptor, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(t.root), "slipway", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".proto" {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{t.root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	var files []protoreflect.FileDescriptor
	for _, file := range compiled {
		files = append(files, file)
	}
	return files, nil
}

// requestOf is the request that protoc would send to a code generator.
func requestOf(files []protoreflect.FileDescriptor) *pluginpb.CodeGeneratorRequest {
	request := &pluginpb.CodeGeneratorRequest{
		CompilerVersion: &pluginpb.Version{Major: proto.Int32(0), Minor: proto.Int32(14), Patch: proto.Int32(1), Suffix: proto.String("protocompile")},
	}
	seen := map[string]bool{}
	for _, file := range files {
		request.FileToGenerate = append(request.FileToGenerate, file.Path())
		addWithImports(request, file, seen)
	}
	return request
}

// addWithImports puts imports before their importers, as generators expect.
func addWithImports(request *pluginpb.CodeGeneratorRequest, file protoreflect.FileDescriptor, seen map[string]bool) {
	if seen[file.Path()] {
		return
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		addWithImports(request, imports.Get(i).FileDescriptor, seen)
	}
	request.ProtoFile = append(request.ProtoFile, descriptor(file))
}

func descriptor(file protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	// A compiled file still has its comments; converting the general descriptor would lose them.
	if result, ok := file.(interface {
		FileDescriptorProto() *descriptorpb.FileDescriptorProto
	}); ok {
		return result.FileDescriptorProto()
	}
	return protodesc.ToFileDescriptorProto(file)
}

func generate(ctx context.Context, tool string, request *pluginpb.CodeGeneratorRequest, files map[string][]byte) error {
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", tool)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, f := range response.File {
		files[f.GetName()] = []byte(f.GetContent())
	}
	return nil
}

func (t target) write(files map[string][]byte) error {
	if err := os.MkdirAll(t.out, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(t.out, name), content, 0o644); err != nil {
			return err
		}
	}
	return t.removeStale(files)
}

func (t target) removeStale(files map[string][]byte) error {
	there, err := filepath.Glob(filepath.Join(t.out, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range there {
		if _, ok := files[filepath.Base(path)]; ok {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

func (t target) compare(files map[string][]byte) error {
	there, err := filepath.Glob(filepath.Join(t.out, "*.go"))
	if err != nil {
		return err
	}
	if len(there) != len(files) {
		return fmt.Errorf("%s holds %d generated files, want %d: run go generate ./sdk/proto", t.out, len(there), len(files))
	}
	for name, content := range files {
		got, err := os.ReadFile(filepath.Join(t.out, name))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, content) {
			return fmt.Errorf("%s is not what the .proto files say: run go generate ./sdk/proto", name)
		}
	}
	return nil
}
