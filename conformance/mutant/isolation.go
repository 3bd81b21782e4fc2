package mutant

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// isolationMutants reach beyond what they were given: into other volumes and containers, and into files of this machine, of which they
// touch nothing but the canaries that the cases put there.
func isolationMutants() []Mutant {
	return []Mutant{
		{
			ID: "writes-through-links", Doc: "an archive's files are written where its symbolic links lead", Rule: 9,
			Killers: []string{"Z02-symlink-write"}, breaks: writesThroughLinks,
		},
		{
			ID: "reads-through-links", Doc: "a path that leads through a symbolic link is streamed out from wherever it leads", Rule: 9,
			Killers: []string{"Z05-read-out"}, breaks: readsThroughLinks,
		},
		{
			ID: "neighbours-reached", Doc: "a name of an archive that leads up and into another volume is written there", Rule: 9,
			Killers: []string{"Z07-other-volumes"}, breaks: neighboursReached,
		},
		{
			ID: "one-root", Doc: "all containers are the first one", Rule: 9,
			Killers: []string{"Z09-own-files", "C35-many-containers", "C36-process-ids", "Z13-tmp", "Z14-own-processes"}, breaks: oneRoot,
		},
		{
			ID: "machine-seen", Doc: "a process sees files of the machine", Rule: 9,
			Killers: []string{"Z10-host-files"}, breaks: machineSeen,
		},
	}
}

// canary finds a file in a directory that a case made to see what reaches it. Every other path is none.
func canary(name string) (file string, ok bool) {
	file = filepath.Clean("/" + name)
	return file, strings.HasPrefix(filepath.Base(filepath.Dir(file)), "slipway-canary-")
}

func writesThroughLinks(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
		archive, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		links := make(map[string]string)
		err = rewrite(io.Discard, bytes.NewReader(archive), func(h *tar.Header, data []byte) ([]byte, bool) {
			if h.Typeflag == tar.TypeSymlink {
				links[h.Name] = h.Linkname
			}
			target, linked := links[path.Dir(h.Name)]
			if file, ok := canary(path.Join(target, path.Base(h.Name))); linked && ok && h.Typeflag == tar.TypeReg {
				_ = os.WriteFile(file, data, 0o600) // if it cannot be written, the case sees that it was not
			}
			return data, false
		})
		if err != nil {
			return sdk.NewInvalid(sdk.ReasonArchive, "volume %q: %v", id, err)
		}
		return w.StreamIn(ctx, id, in, bytes.NewReader(archive))
	}}
}

func readsThroughLinks(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
		var b bytes.Buffer
		err := w.StreamOut(ctx, id, out, &b)
		if err == nil {
			_, err := io.Copy(dst, &b)
			return err
		}
		link, rest, _ := strings.Cut(out.Path, "/")
		var at bytes.Buffer
		if w.StreamOut(ctx, id, sdk.StreamOut{Path: link}, &at) != nil {
			return err
		}
		h, bad := tar.NewReader(&at).Next()
		if bad != nil || h.Typeflag != tar.TypeSymlink {
			return err
		}
		file, ok := canary(path.Join(h.Linkname, rest))
		data, bad := os.ReadFile(file)
		if !ok || bad != nil {
			return err
		}
		t := tar.NewWriter(dst)
		if err := t.WriteHeader(&tar.Header{Name: path.Base(file), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
		return t.Close()
	}}
}

func neighboursReached(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
		archive, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		var reached error
		_ = rewrite(io.Discard, bytes.NewReader(archive), func(h *tar.Header, data []byte) ([]byte, bool) {
			if rest, ok := strings.CutPrefix(h.Name, "../"); ok && reached == nil && h.Typeflag == tar.TypeReg {
				neighbour, name, _ := strings.Cut(rest, "/")
				reached = w.StreamIn(ctx, sdk.VolumeID(neighbour), sdk.StreamIn{}, single(name, data))
			}
			return data, false
		}) // an archive that cannot be read is for the good worker to refuse
		return w.StreamIn(ctx, id, in, bytes.NewReader(archive))
	}}
}

// single is an archive of one file.
func single(name string, data []byte) io.Reader {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	_ = t.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data))}) // a buffer takes everything
	_, _ = t.Write(data)
	_ = t.Close()
	return &b
}

func oneRoot(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	var first sdk.ContainerID
	there := func(id sdk.ContainerID) sdk.ContainerID {
		mu.Lock()
		defer mu.Unlock()
		if first == "" {
			first = id
		}
		return first
	}
	return &broken{Worker: w,
		startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			return w.StartProcess(ctx, there(id), spec)
		},
		followProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
			return w.FollowProcess(ctx, there(id), p, from, f)
		},
		listProcesses: func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
			return w.ListProcesses(ctx, there(id))
		},
	}
}

// machineSeen shows a canary to whatever command names it by giving the process what is in it in its place: that only a command that
// shows a file knows.
func machineSeen(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
		for _, arg := range spec.Args {
			file, ok := canary(arg)
			if !ok {
				continue
			}
			if data, err := os.ReadFile(file); err == nil {
				spec.Path, spec.Args = "sh", []string{"-c", `printf %s "$1"`, "sh", string(data)}
				break
			}
		}
		return w.StartProcess(ctx, id, spec)
	}}
}
