package conformance

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"strconv"

	"github.com/slipway-run/slipway/sdk"
)

// Probe makes commands of the program in this package's folder probe, which the suite puts into a sealed volume and mounts, read-only,
// into every container. So containers need nothing of their own: no shell, and no image where the platform needs none. It comes from
// [LoadProbe].
type Probe struct {
	program []byte
	wasm    bool
}

const (
	probeDir  = "/slipway-probe" // where it is mounted
	probeName = "probe"
)

// LoadProbe reads a program that [BuildProbe] has made.
func LoadProbe(file string) (Probe, error) {
	program, err := os.ReadFile(file)
	if err != nil {
		return Probe{}, err
	}
	switch {
	case bytes.HasPrefix(program, []byte("\x7fELF")):
		return Probe{program: program}, nil
	case bytes.HasPrefix(program, []byte("\x00asm")):
		return Probe{program: program, wasm: true}, nil
	}
	return Probe{}, fmt.Errorf("probe %s: it is a program neither for Linux nor for WASI", file)
}

// Do is any command of the probe.
func (Probe) Do(args ...string) Cmd {
	return Cmd{Path: path.Join(probeDir, probeName), Args: args}
}

// Exit implements Commands, as the others do.
func (p Probe) Exit(code int) Cmd { return p.Do("exit", strconv.Itoa(code)) }

// Print writes its texts.
func (p Probe) Print(stdout, stderr string) Cmd { return p.Do("print", stdout, stderr) }

// Args prints its arguments.
func (p Probe) Args(args ...string) Cmd { return p.Do(append([]string{"args"}, args...)...) }

// Env prints a variable.
func (p Probe) Env(name string) Cmd { return p.Do("env", name) }

// Dir asks the system where it is.
func (p Probe) Dir() Cmd { return p.Do("dir") }

// Cat copies.
func (p Probe) Cat() Cmd { return p.Do("cat") }

// CatFile copies a file.
func (p Probe) CatFile(path string) Cmd { return p.Do("cat-file", path) }

// Append writes twice.
func (p Probe) Append(path, text string) Cmd { return p.Do("append", path, text) }

// Lines counts.
func (p Probe) Lines(n int) Cmd { return p.Do("lines", strconv.Itoa(n)) }

// Gate reads a line.
func (p Probe) Gate(before, after string, code int) Cmd {
	return p.Do("gate", before, after, strconv.Itoa(code))
}

// Trap handles the signal. Programs under WASI hear of none.
func (p Probe) Trap(signal sdk.Signal, code int) Cmd {
	return p.Do("trap", string(signal), strconv.Itoa(code))
}

// Orphan starts itself again. Programs under WASI start none.
func (p Probe) Orphan() Cmd { return p.Do("orphan") }

// Sleep waits.
func (p Probe) Sleep() Cmd { return p.Do("sleep") }

// caseProbe is the probe in a case: what its build can never do nobody sees from there.
type caseProbe struct {
	Probe
	c *C
}

func (p caseProbe) Trap(signal sdk.Signal, code int) Cmd {
	if p.wasm {
		p.c.NotObservable("no signal reaches a WASI program, so none can be handled")
	}
	return p.Probe.Trap(signal, code)
}

func (p caseProbe) Orphan() Cmd {
	if p.wasm {
		p.c.NotObservable("a WASI program has no children")
	}
	return p.Probe.Orphan()
}

// preferProbe has a case run the probe where there is one for Linux, though it could do with other commands: it sees more.
func (c *C) preferProbe() {
	if p, ok := c.suite.target.probe(); ok && !p.wasm {
		c.Commands = caseProbe{p, c}
	}
}

// Probe is a command of the probe. Only cases with [EnvProbe] or [EnvProbeLinux] use it.
func (c *C) Probe(args ...string) Cmd { return Probe{}.Do(args...) }

// bring puts the probe into a volume of the slot's worker, unless it is there already. Where the target has none it does nothing.
func (s *suite) bring(ctx context.Context, on *slot) error {
	p, ok := s.target.probe()
	if !ok {
		return nil
	}
	w := on.get()
	if old := on.probe(); old != "" {
		there := false
		err := w.ListVolumes(ctx, sdk.Filter{ID: string(old)}, func(v sdk.VolumeInfo) error {
			there = there || v.State == sdk.VolumeSealed
			return nil
		})
		if err != nil || there {
			return err
		}
	}
	id := sdk.VolumeID(fmt.Sprintf("%s%s-probe-%d", idPrefix, s.id, s.probes.Add(1)))
	on.setProbe(id)
	spec := sdk.VolumeSpec{ID: id, Token: sdk.NewToken(), Labels: map[string]string{sdk.LabelInstallation: s.installation()}}
	if err := w.CreateVolume(ctx, spec); err != nil {
		return fmt.Errorf("making a volume for the probe: %w", err)
	}
	archive, err := pack([]Entry{{Path: probeName, Type: tar.TypeReg, Mode: 0o755, ModTime: someTime, Data: string(p.program)}})
	if err != nil {
		return err
	}
	if err := w.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(archive)); err != nil {
		return fmt.Errorf("streaming the probe into its volume: %w", err)
	}
	if err := w.SealVolume(ctx, id); err != nil {
		return fmt.Errorf("sealing the probe's volume: %w", err)
	}
	return nil
}

// takeAway destroys the probe's volume.
func (s *suite) takeAway(ctx context.Context, on *slot) error {
	id := on.probe()
	if id == "" {
		return nil
	}
	on.setProbe("")
	if err := on.get().DestroyVolume(ctx, id); err != nil {
		return fmt.Errorf("destroying the probe's volume: %w", err)
	}
	return nil
}

// withProbe mounts the probe into a container, where the case runs it.
func (c *C) withProbe(spec *sdk.ContainerSpec) {
	if _, runs := c.Commands.(caseProbe); runs {
		c.mountProbe(spec)
	}
}

// mountProbe mounts the probe into a container.
func (c *C) mountProbe(spec *sdk.ContainerSpec) {
	on := c.main
	if g, ok := c.W.(guard); ok {
		on = g.on
	}
	if id := on.probe(); id != "" {
		spec.Mounts = append(spec.Mounts[:len(spec.Mounts):len(spec.Mounts)], sdk.Mount{Volume: id, Path: probeDir, ReadOnly: true})
	}
}
