//go:build unix

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestArtifacts keeps artifacts from command to command: what goes in comes out, whole or one file of it, and what is wrong is said and
// leaves nothing.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"src/a.txt": "one\n", "src/dir/b": "two\n", "empty": ""})
	run := func(args ...string) result {
		return p.run(append([]string{"--state", "state", "artifacts"}, args...)...)
	}
	run("put", "tree", "src").wants(0).prints("")
	run("put", "tree", "src").wants(codeInternal).says("there is an artifact tree already").once()
	tar := run("get", "tree", "-").wants(0).out
	c := p.command("--state", "state", "artifacts", "put", "piped", "-", "--ttl", "1h")
	c.Stdin = strings.NewReader(tar)
	p.runWith(c).wants(0)
	c = p.command("--state", "state", "artifacts", "put", "cut", "-")
	c.Stdin = strings.NewReader(tar[:len(tar)-1024])
	p.runWith(c).wants(codeUsage).says("damaged").once()
	run("put", "none", "src/none").wants(codeInternal).says("src/none", "no such file").once()

	run("get", "piped", "out").wants(0).prints("")
	if got := p.read("out/a.txt") + p.read("out/dir/b"); got != "one\ntwo\n" {
		t.Errorf("got %q", got)
	}
	run("get", "piped", "out").wants(codeInternal).says("--force").once()
	if got := strings.Fields(run("files", "tree").wants(0).out); len(got) != 17 || got[4] != "NAME" || got[5] != "-rw-r--r--" || got[7] != "4" || got[10] != "a.txt" || got[len(got)-1] != "dir/" {
		t.Errorf("listed: %q", got)
	}
	var files []fileJSON
	if err := json.Unmarshal([]byte(run("files", "tree", "dir", "-o", "json").wants(0).out), &files); err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || files[0].Name != "b" || files[0].Mode != "0100644" || files[0].Bytes == nil || *files[0].Bytes != 4 || files[0].Modified == nil {
		t.Errorf("listed: %+v", files)
	}
	run("files", "tree", "dir/none").wants(codeInternal).says("dir/none").once()
	run("cat", "tree", "dir/b").wants(0).prints("two\n")
	run("cat", "tree", "dir/none").wants(codeInternal).says("dir/none").once()
	run("cat", "nobody", "f").wants(codeInternal).says("there is no artifact nobody").once()

	var list []artifactJSON
	if err := json.Unmarshal([]byte(run("ls", "-o", "json").wants(0).out), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Name != "tree" || list[1].Name != "piped" || list[0].Bytes == 0 || len(list[0].Places) != 1 || list[1].Expires == nil ||
		list[1].Expires.Sub(list[1].Made).Hours() != 1 {
		t.Errorf("listed: %+v", list)
	}
	p.run("--state", "state", "exec", "-i", "in=artifact:tree", "-i", "src=src", "--", "cat", "in/a.txt", "src/dir/b").wants(0).prints("one\ntwo\n")
	p.run("--state", "state", "exec", "-i", "in=artifact:nobody", "--", "true").wants(codeUsage).says(`input "in"`, "there is no artifact nobody").once()
	p.run("exec", "-i", "in=artifact:tree", "--", "true").wants(codeUsage).says("--state").once()
	p.run("--state", "state", "exec", "-i", "in=artifact:", "--", "true").wants(codeUsage).says("artifact:NAME").once()
	run("rm", "tree", "nobody").wants(codeInternal).says("there is no artifact nobody").once()
	if text := run("ls").wants(0).out; !strings.HasPrefix(text, "NAME ") || strings.Contains(text, "tree") || !strings.Contains(text, "\npiped ") {
		t.Errorf("listed: %s", text)
	}
	run("rm", "piped").wants(0)
	if left, err := filepath.Glob(filepath.Join(p.work, "state/blobs/*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	p.run("artifacts", "ls").wants(codeUsage).says("--state").once()
}
