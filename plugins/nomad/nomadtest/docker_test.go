//go:build linux

package nomadtest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestDocker has tasks in containers of a Docker that is the agent's alone.
func TestDocker(t *testing.T) {
	testkit.Soak(t, "the other driver")
	t.Parallel()
	ctx := testkit.Context(t)
	a := Start(t, Options{Dev: true, Docker: true, HostVolumes: []string{"v"}})
	var image bytes.Buffer
	if err := BusyboxArchive(&image, map[string]string{"/srv/own": "this\n"}); err != nil {
		t.Fatal(err)
	}
	if err := a.ImportImage(ctx, "slipway.test/own:2", &image, "ENV COLOUR=blue", "USER nobody"); err != nil {
		t.Fatal(err)
	}
	if err := a.ImportImage(ctx, "slipway.test/odd:1", bytes.NewReader([]byte("no archive at all, and no tar of any kind"))); err == nil {
		t.Error("what is no archive became an image")
	}
	if err := os.WriteFile(filepath.Join(a.HostVolume("v"), "there"), []byte("that\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// It tells by its own output, for what commands of exec write may be lost: see Exec.
	task := Task{Driver: Docker, Command: "/bin/sh", Args: []string{"-c", `
cat /srv/own; echo $COLOUR; id -un
cat /mnt/v/there /mnt/bound/there
touch /mnt/v/new && ls /mnt/bound
touch /mnt/bound/more 2>/dev/null || echo read-only
ls -d /tmp/slipway-nomad* 2>/dev/null || echo alone
echo end; exec sleep 1000`}}
	const want = "this\nblue\nnobody\nthat\nthat\nnew\nthere\nread-only\nalone\nend\n"
	job := task.job("nomadtest-own")
	job.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"v": {Name: "v", Type: "host", Source: "v"}}
	job.TaskGroups[0].Tasks[0].VolumeMounts = []*api.VolumeMount{{Volume: new("v"), Destination: new("/mnt/v")}}
	job.TaskGroups[0].Tasks[0].Config["image"] = "slipway.test/own:2"
	job.TaskGroups[0].Tasks[0].Config["volumes"] = []string{a.HostVolume("v") + ":/mnt/bound:ro"}
	own, err := a.runJob(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	frames, errs := a.Client().AllocFS().Logs(own, true, TaskName, "stdout", "start", 0, ctx.Done(), new(api.QueryOptions).WithContext(ctx))
	var said bytes.Buffer
	for !bytes.HasSuffix(said.Bytes(), []byte("end\n")) {
		select {
		case f, ok := <-frames:
			if !ok {
				t.Fatalf("its output ends with %q", &said)
			}
			said.Write(f.Data)
		case err := <-errs:
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatalf("it says %q: %v", &said, ctx.Err())
		}
	}
	if said.String() != want {
		t.Errorf("it says %q; want %q", &said, want)
	}

	plain, err := a.Run(ctx, sleeper(Docker))
	if err != nil {
		t.Fatal(err)
	}
	for {
		var out bytes.Buffer
		code, err := a.Exec(ctx, plain, TaskName, []string{"/bin/sh", "-c", "id -un; cat; exit 5"}, bytes.NewReader([]byte("to and fro\n")), &out, nil)
		if err == nil && code == 0 && out.Len() == 0 {
			continue // see Exec
		}
		if err != nil || code != 5 || out.String() != "root\nto and fro\n" {
			t.Errorf("code %d, error %v, output %q", code, err, &out)
		}
		break
	}
}
