package shell

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// confined runs in a process of its own: it cannot be taken back.
func confined() {
	dir := os.Getenv("SLIPWAY_TEST_CONFINED")
	open, err := os.Open("/etc/passwd")
	if err != nil {
		fmt.Println("before:", err)
		os.Exit(1)
	}
	open.Close()
	achieved, err := Confine([]string{filepath.Join(dir, "readable"), "/proc/self", "/nonexistent"}, []string{filepath.Join(dir, "writable")})
	if errors.Is(err, ErrNoLandlock) {
		fmt.Println("unavailable:", err)
		return
	}
	if err != nil {
		fmt.Println("confine:", err)
		os.Exit(1)
	}
	fmt.Println("achieved:", achieved)
	try := func(name string, err error) { fmt.Printf("%s: %v\n", name, errors.Is(err, os.ErrPermission)) }
	_, err = os.ReadFile("/etc/passwd")
	try("read passwd", err)
	_, err = os.ReadDir("/")
	try("list root", err)
	try("write elsewhere", os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	try("write readable", os.WriteFile(filepath.Join(dir, "readable", "x"), nil, 0o600))
	try("execute", exec.Command("/bin/true").Run())
	_, err = os.ReadFile(filepath.Join(dir, "readable", "file"))
	fmt.Println("read readable:", err)
	fmt.Println("write writable:", os.WriteFile(filepath.Join(dir, "writable", "x"), nil, 0o600))
	// Every thread is confined, not only the one that asked.
	done := make(chan error)
	for range 20 {
		go func() {
			_, err := os.ReadFile("/etc/passwd")
			done <- err
		}()
	}
	for range 20 {
		if err := <-done; !errors.Is(err, os.ErrPermission) {
			fmt.Println("a thread reads passwd:", err)
		}
	}
}

func TestConfine(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"readable", "writable"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "readable", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SLIPWAY_TEST_CONFINED="+dir)
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if strings.HasPrefix(string(b), "unavailable:") {
		testkit.Lacking(t, "Landlock: %s", b)
	}
	achieved, rest, _ := strings.Cut(string(b), "\n")
	t.Log(achieved)
	want := "read passwd: true\nlist root: true\nwrite elsewhere: true\nwrite readable: true\nexecute: true\nread readable: <nil>\nwrite writable: <nil>\n"
	if rest != want {
		t.Errorf("got\n%s\nwant\n%s", rest, want)
	}
}
