package conformance

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/slipway-run/slipway/conformance/internal/wire"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// wired is the plugin's program as cases of the profile wire have it: a process of their own, and what stands in the published files between it and
// them.
type wired struct {
	c             *C
	proc          *wire.Process
	control, data *wire.Conn
	worker        string
}

const (
	lineTime = 10 * time.Second // for the handshake
	endTime  = 10 * time.Second // for the end, of which five seconds are for calls that run
)

// Program starts the plugin's program. By hand, it is started as by a person.
func (c *C) program(byHand bool) *wire.Process {
	p := c.suite.target.Program
	path, err := launch.Resolve(p.Path, p.Dir)
	if err != nil {
		c.Broken(err)
	}
	proc, err := wire.Start(wire.Program{Path: path, Dir: p.Dir, Args: p.Args, Env: p.Env, ByHand: byHand})
	if err != nil {
		c.Broken(err)
	}
	c.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), longer(endTime, c.suite.opts.TimeScale))
		defer cancel()
		if err := proc.Close(ctx); err != nil {
			c.Logf("ending the plugin's process: %v", err)
		}
		if said := proc.Said(); said != "" && c.Failed() {
			for _, line := range lastLines(said) {
				c.Logf("the plugin's stderr: %s", line)
			}
		}
	})
	return proc
}

// shaken starts the program and reads its handshake.
func (c *C) shaken(ctx context.Context) *wired {
	const why = "the handshake is all that a host knows of a program that it has started"
	w := &wired{c: c, proc: c.program(false), worker: c.suite.name}
	waiting, cancel := context.WithTimeout(ctx, c.Patience(lineTime))
	defer cancel()
	socket, err := w.proc.Socket(waiting)
	switch {
	case waiting.Err() != nil:
		c.Fatalf(why, "awaiting the handshake on stdout: nothing has come in %v, which --time-scale stretches; a host waits 30s", c.Patience(lineTime))
	case err != nil:
		c.Fatalf(why, "awaiting the handshake on stdout: %v", err)
	}
	if filepath.Dir(socket) != w.proc.Sockets() {
		c.Fatalf("the host looks for the socket there and nowhere else", "the socket is %.200q, want one in $%s, %s", socket, wire.SocketDir, w.proc.Sockets())
	}
	for _, conn := range []**wire.Conn{&w.control, &w.data} {
		if *conn, err = w.proc.Dial(socket); err != nil {
			c.Broken(err)
		}
	}
	return w
}

// wired starts the program and brings it as far as a host does.
func (c *C) wired(ctx context.Context) *wired {
	w := c.shaken(ctx)
	w.configure(ctx)
	workers := w.ask(ctx, "Plugin/Workers", nil) // until the program ends
	for there := false; !there; {
		m, err := workers.Recv()
		if err != nil {
			c.Fatalf("a host has the workers of which it was told", "awaiting worker %q in Plugin/Workers: %s", w.worker, tell(err))
		}
		list, _ := m["workers"].([]any)
		for _, one := range list {
			info, _ := one.(map[string]any)
			there = there || info["name"] == w.worker
		}
	}
	for { // what is behind it may have to be reached first
		if m := w.call(ctx, "Worker/Status", wire.Message{"worker": w.worker}); m.Text("health") != "HEALTH_AWAY" {
			return w
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			c.Fatalf("a worker that one process of a plugin reaches can be reached by the next", "worker %q stays away", w.worker)
		}
	}
}

// configure asks for the plugin's settings and gives it those of the run.
func (w *wired) configure(ctx context.Context) {
	w.call(ctx, "Plugin/Configure", w.settings(w.call(ctx, "Plugin/Info", wire.Message{"version": sdk.Version, "installation": w.c.suite.installation()})))
}

func (w *wired) settings(info wire.Message) wire.Message {
	plugin, workers, err := w.c.suite.target.Program.settings(sdk.PluginInfo{PluginSchema: schemaOf(info.At("plugin_schema")), WorkerSchema: schemaOf(info.At("worker_schema"))})
	if err != nil {
		w.c.Broken(err)
	}
	var blocks []any
	for _, b := range workers {
		blocks = append(blocks, wire.Message{"name": b.Name, "values": []byte(b.Values)})
	}
	return wire.Message{"plugin": wire.Message{"name": plugin.Name, "values": []byte(plugin.Values)}, "workers": blocks}
}

// schemaOf gives as much of a schema as its defaults need.
func schemaOf(m wire.Message) sdk.Schema {
	var s sdk.Schema
	fields, _ := m["fields"].([]any)
	for _, one := range fields {
		f, _ := one.(map[string]any)
		field := sdk.Field{Name: wire.Message(f).Text("name"), Default: wire.Message(f).Text("default")}
		switch wire.Message(f).Text("type") {
		case "FIELD_TYPE_STRING", "FIELD_TYPE_DURATION", "FIELD_TYPE_BYTES":
			field.Type = sdk.TypeString
		}
		s.Fields = append(s.Fields, field)
	}
	return s
}

// call makes a call that must succeed.
func (w *wired) call(ctx context.Context, method string, m wire.Message) wire.Message {
	answer, err := w.conn(method).Call(ctx, method, m)
	if err != nil {
		w.c.Fatalf(whyRefused, "%s: got %s, want success", method, tell(err))
	}
	return answer
}

// ask begins a call that answers more than once.
func (w *wired) ask(ctx context.Context, method string, m wire.Message) *wire.Stream {
	s, err := w.conn(method).Ask(ctx, method, m)
	if err != nil {
		w.c.Fatalf(whyRefused, "%s: got %s, want success", method, tell(err))
	}
	return s
}

// stream begins a call of Data and sends its first frames.
func (w *wired) stream(ctx context.Context, method string, frames ...wire.Message) *wire.Stream {
	s, err := w.conn(method).Stream(ctx, method)
	for _, f := range frames {
		if err == nil {
			err = s.Send(f)
		}
	}
	if err != nil {
		w.c.Fatalf(whyRefused, "%s: got %s, want success", method, tell(err))
	}
	return s
}

func (w *wired) conn(method string) *wire.Conn {
	if strings.HasPrefix(method, "Data/") {
		return w.data
	}
	return w.control
}

// wants fails the case unless err is the status of a class with all that the published files ask of it. It goes on either way.
func (w *wired) wants(err error, class, reason, why, what string, args ...any) {
	codes := map[string]string{"CLASS_NOT_FOUND": "NotFound", "CLASS_INVALID": "InvalidArgument", "CLASS_FAILED_PRECONDITION": "FailedPrecondition", "CLASS_INTERNAL": "Internal"}
	detail := wire.Detail(err)
	if err != nil && status.Code(err).String() == codes[class] && detail.Text("error_class") == class && (reason == "" || detail.Text("reason") == reason) {
		return
	}
	want := class
	if reason != "" {
		want += " (" + reason + ")"
	}
	w.c.Errorf(why, "%s: got %s, want %s", fmt.Sprintf(what, args...), tell(err), want)
}

// tell shows what came of a call.
func tell(err error) string {
	if err == nil {
		return "success"
	}
	s := status.Convert(err)
	detail := wire.Detail(err)
	if detail == nil {
		return fmt.Sprintf("the status %v without a slipway Error in its details, for %s: %.300s", s.Code(), wire.WhyNoDetail(err), s.Message())
	}
	text := fmt.Sprintf("the status %v with %s", s.Code(), detail.Text("error_class"))
	if reason := detail.Text("reason"); reason != "" {
		text += " (" + reason + ")"
	}
	return fmt.Sprintf("%s: %.300s", text, s.Message())
}

// volume makes an empty volume, which is destroyed after the case.
func (w *wired) volume(ctx context.Context) string {
	id := string(w.c.VolumeID())
	w.c.tracker.add(creation{sdk.KindVolume, id, w.c.main})
	w.call(ctx, "Worker/CreateVolume", wire.Message{"worker": w.worker, "id": id, "token": string(sdk.NewToken()), "labels": w.c.Labels()})
	return id
}

// container makes a container, which is destroyed after the case.
func (w *wired) container(ctx context.Context) string {
	spec := w.c.ContainerSpec()
	w.c.tracker.add(creation{sdk.KindContainer, string(spec.ID), w.c.main})
	m := wire.Message{"worker": w.worker, "id": string(spec.ID), "token": string(spec.Token), "labels": spec.Labels}
	if spec.Image.Volume != "" {
		m["image_volume"] = string(spec.Image.Volume)
	}
	if spec.Image.Ref != "" {
		m["image_ref"] = spec.Image.Ref
	}
	var mounts []any
	for _, mount := range spec.Mounts {
		mounts = append(mounts, wire.Message{"volume": string(mount.Volume), "path": []byte(mount.Path), "read_only": mount.ReadOnly})
	}
	m["mounts"] = mounts
	events, err := w.ask(ctx, "Worker/CreateContainer", m).Rest()
	if err != nil || len(events) == 0 || !events[len(events)-1].Has("done") {
		w.c.Fatalf("the last message of a creation that went well is done", "Worker/CreateContainer: got %d messages, the last one not done, and %s", len(events), tell(err))
	}
	return m.Text("id")
}

// start starts a process.
func (w *wired) start(ctx context.Context, container string, cmd Cmd, stdin bool) string {
	id := string(w.c.ProcessID())
	var args []any
	for _, a := range cmd.Args {
		args = append(args, []byte(a))
	}
	w.call(ctx, "Worker/StartProcess", wire.Message{"worker": w.worker, "container": container, "id": id, "token": string(sdk.NewToken()),
		"path": []byte(cmd.Path), "args": args, "stdin": stdin})
	return id
}

// follow begins to follow a process from a position on.
func (w *wired) follow(ctx context.Context, container, process string, from int64, stdin bool) *wire.Stream {
	s := w.stream(ctx, "Data/FollowProcess", wire.Message{"header": wire.Message{
		"worker": w.worker, "container": container, "process": process, "position": from, "stdin": stdin}})
	const why = "without it a follower does not know where it stands"
	switch first, err := s.Recv(); {
	case err != nil:
		w.c.violation("5m", why, "Data/FollowProcess ended before its first frame, which is \"opened\", with %s", tell(err))
		runtime.Goexit()
	case !first.Has("opened"):
		w.c.violation("5m", why, "the first frame of Data/FollowProcess is %q, want \"opened\"", slices.Sorted(maps.Keys(first)))
		runtime.Goexit()
	}
	return s
}

// output receives frames of a follower until enough says so, or the call ends, which is a failure. It gives all output and the position after it.
func (w *wired) output(s *wire.Stream, enough func(output string, last wire.Message) bool) (string, int64) {
	var output strings.Builder
	var at int64
	for {
		m, err := s.Recv()
		if err != nil {
			w.c.Fatalf("a follower is told the exit, and is heard until it has acknowledged all", "Data/FollowProcess ended after %.100q with %s", output.String(), tell(err))
		}
		records, _ := m.At("records")["records"].([]any)
		for _, one := range records {
			record, _ := one.(map[string]any)
			data := wire.Message(record).Bytes("data")
			output.Write(data)
			at = wire.Message(record).Int("position") + int64(len(data))
		}
		if enough(output.String(), m) {
			return output.String(), at
		}
	}
}
