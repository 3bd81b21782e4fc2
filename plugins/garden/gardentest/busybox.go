//go:build linux

package gardentest

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// Busybox gives an image as a tar: below rootfs/ a static busybox with its applets in bin, the users root, nobody (65534) and app (1000) in etc, empty
// directories where a container's own are mounted, and a tmp for all; and metadata.json, with FROM_IMAGE=yes in its env and no user. All belongs to root but
// home/app, which is app's.
func Busybox(t testing.TB) []byte {
	t.Helper()
	image, err := busybox()
	if err != nil {
		testkit.Lacking(t, "%v", err)
	}
	return image
}

func busybox() ([]byte, error) {
	const advice = "install Debian's busybox-static (make deps does)"
	from, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, advice)
	}
	if static, err := isStatic(from); err != nil || !static {
		return nil, errors.Join(fmt.Errorf("%s is not a static program, as an image needs it; %s", from, advice), err)
	}
	program, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(from, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w", from, err)
	}
	headers := []tar.Header{{Name: "metadata.json", Mode: 0o644}}
	texts := map[string]string{
		"metadata.json":      `{"env":["FROM_IMAGE=yes"],"user":""}`,
		"rootfs/bin/busybox": string(program),
		"rootfs/etc/passwd":  "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\napp:x:1000:1000:app:/home/app:/bin/sh\n",
		"rootfs/etc/group":   "root:x:0:\nnogroup:x:65534:\napp:x:1000:\nextra:x:2000:app\n",
	}
	for _, dir := range []string{"", "bin/", "dev/", "etc/", "home/", "proc/", "root/", "sys/"} {
		headers = append(headers, tar.Header{Typeflag: tar.TypeDir, Name: "rootfs/" + dir, Mode: 0o755})
	}
	headers = append(headers,
		tar.Header{Typeflag: tar.TypeDir, Name: "rootfs/tmp/", Mode: 0o1777},
		tar.Header{Typeflag: tar.TypeDir, Name: "rootfs/home/app/", Mode: 0o755, Uid: 1000, Gid: 1000},
		tar.Header{Name: "rootfs/bin/busybox", Mode: 0o755},
		tar.Header{Name: "rootfs/etc/passwd", Mode: 0o644},
		tar.Header{Name: "rootfs/etc/group", Mode: 0o644},
	)
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" {
			headers = append(headers, tar.Header{Typeflag: tar.TypeSymlink, Name: "rootfs/bin/" + name, Linkname: "busybox", Mode: 0o777})
		}
	}
	return archive(headers, texts)
}

func archive(headers []tar.Header, texts map[string]string) ([]byte, error) {
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	for _, h := range headers {
		h.Size, h.ModTime = int64(len(texts[h.Name])), time.Unix(1_000_000_000, 0)
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(texts[h.Name])); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return image.Bytes(), err
}

func isStatic(path string) (bool, error) {
	f, err := elf.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false, nil
		}
	}
	return true, nil
}
