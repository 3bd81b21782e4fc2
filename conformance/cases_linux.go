package conformance

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// linuxCases check processes that are real ones: what they begin with, and what becomes of their children.
func linuxCases() []Case {
	linux := []Requirement{EnvLinux}
	return []Case{
		{
			ID: "P14-zombies", Title: "a thousand children that lost their parents leave no zombie behind, and the next process starts", Rules: []int{8}, Level: Must, Profile: Linux, Run: runZombies,
			Env: linux, Timeout: 2 * DefaultTimeout, Doc: "Orphans go to the container's first process. One that does not wait for them fills the table of processes, and then nothing starts any more.",
		},
		{
			ID: "P15-descriptors", Title: "a process begins with the descriptors 0, 1 and 2, and no other", Rules: []int{13}, Level: Must, Profile: Linux, Run: runDescriptors,
			Env: linux, Doc: "A descriptor of the plugin's, or of another process's pipe, is a way out of the container, and keeps that pipe open.",
		},
		{
			ID: "P17-defaults", Title: "a process begins with umask 0022, no signal ignored or blocked, and is no harder to kill than its container when memory runs out", Rules: []int{8}, Level: Must, Profile: Linux, Run: runDefaults,
			Env: linux, Doc: "All of these are inherited from whoever starts it. With SIGPIPE ignored, yes | head never ends; with TERM blocked, nothing can be stopped.",
		},
		{
			ID: "P24-daemon", Title: "a child in a session of its own, with its output closed, delays no exit and goes on after it", Rules: []int{6}, Level: Must, Profile: Linux, Run: runDaemon,
			Env: linux, Doc: "Steps start services for the ones after them. Only KILL and the container's end reach those.",
		},
		{
			ID: "P28-exec-foreign", Title: "scripts without their interpreter and programs for no such machine are Invalid with not-executable; 126 and 127 are the command's own", Rules: []int{14}, Level: Must, Profile: Linux, Run: runExecForeign,
			Env: linux, Doc: "As P02. The kernel says that the file is not there when its interpreter is not.",
		},
		{
			ID: "S08-kill-tree", Title: "KILL reaches grandchildren, children in sessions of their own, and orphans", Rules: []int{8}, Level: Must, Profile: Linux, Run: runKillTree,
			Env: linux, Doc: "A step that was aborted must not go on writing to its volumes.",
		},
		{
			ID: "S13-group", Title: "TERM reaches the leader's children too, and not those that have a session of their own", Rules: []int{8}, Level: Must, Profile: Linux, Run: runGroup,
			Env: linux, Doc: "A shell passes on nothing: the test that it runs must hear of the stop by itself.",
		},
		{
			ID: "S14-stop-cont", Title: "STOP halts a process and CONT lets it go on; a halted one can be killed", Rules: []int{8}, Level: Must, Profile: Linux, Run: runStopCont,
			Env: linux, Doc: "Somebody waits for children in between. Whoever takes a halt for an end tells of an exit that never was.",
		},
	}
}

func runZombies(ctx context.Context, c *C) {
	id := c.Container(ctx)
	n := c.Times(1000)
	p := c.Start(ctx, id, c.Commands.Script(`i=0; while [ $i -lt "$1" ]; do (true & true &); i=$((i+2)); done; echo born; read -r line; echo done`, strconv.Itoa(n)), WithStdin)
	c.AwaitOutput(ctx, id, p, "born\n")
	none := c.Commands.Script(`while grep -q '^State:.Z' /proc/[0-9]*/status 2>/dev/null; do sleep 0.05; done; echo none`)
	look := func(when string) {
		j, ok := c.FollowFor(ctx, DefaultTimeout/2, id, c.Start(ctx, id, none))
		if ok {
			c.WantOutput(j, "none\n", "", "the next process, %s", when)
			return
		}
		dead := c.Exec(ctx, id, c.Commands.Script(`grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null`))
		c.Fatalf("what has ended is waited for by somebody", "of %d children's children, %s: %d zombies after %v", n, when, strings.Count(string(dead.Stdout), "\n"), DefaultTimeout/2)
	}
	look("while their grandparent lives")
	c.WantOutput(c.FollowStdin(ctx, id, p, strings.NewReader("go\n")), "born\ndone\n", "", "a process that has %d children's children", n)
	look("after its end")
}

func runDescriptors(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.Started(ctx, id, c.Commands.Sleep()) // its pipes are somewhere by now
	ls := Cmd{Path: "ls", Args: []string{"-1", "/proc/self/fd"}}
	const want = "0\n1\n2\n3\n" // 3 is that of ls for the directory
	c.WantOutput(c.Exec(ctx, id, ls), want, "", "descriptors without stdin")
	c.WantOutput(c.Exec(ctx, id, ls, WithStdin), want, "", "descriptors with stdin")
	if c.Status.Has(sdk.FeatureTTY) {
		c.WantOutput(c.Exec(ctx, id, ls, WithTTY(0, 0)), strings.ReplaceAll(want, "\n", "\r\n"), "", "descriptors with a terminal")
	}
}

func runDefaults(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.WantOutput(c.Exec(ctx, id, c.Commands.Script("umask")), "0022\n", "", "umask")
	signals := Cmd{Path: "grep", Args: []string{"^Sig[BI]", "/proc/self/status"}}
	c.WantOutput(c.Exec(ctx, id, signals), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n", "", "blocked and ignored signals")
	c.WantOutput(c.Exec(ctx, id, c.Commands.Script("yes | head -n 1")), "y\n", "", "yes | head -n 1")

	j := c.Exec(ctx, id, c.Commands.Script("cat /proc/1/oom_score_adj /proc/self/oom_score_adj"))
	scores := strings.Fields(string(j.Stdout))
	if len(scores) != 2 {
		c.NotObservable("the container's first process does not show how hard it is to kill")
	}
	first, err1 := strconv.Atoi(scores[0])
	own, err2 := strconv.Atoi(scores[1])
	if err1 != nil || err2 != nil || own < first {
		c.Errorf("who runs out of memory is killed before the container", "the process's score is %q, that of the container's first process %q", scores[1], scores[0])
	}
}

func runDaemon(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	j := c.Exec(ctx, id, c.Commands.Script(`
		setsid sh -c ': >/v/up; until [ -e /v/go ]; do sleep 0.02; done; echo went on >/v/new; mv /v/new /v/said' </dev/null >/dev/null 2>&1 &
		until [ -e /v/up ]; do sleep 0.02; done
		echo done; exit 3`))
	c.WantExit(j, 3, "a leader that leaves a daemon")
	c.WantOutput(j, "done\n", "", "a leader that leaves a daemon")
	if j.Exit.OutputCut {
		c.Errorf("output is only cut where something holds it open", "a leader whose daemon has closed its output: the output was cut")
	}
	j = c.Exec(ctx, id, c.Commands.Script(`: >/v/go; i=0; until [ -e /v/said ] || [ $i -ge 500 ]; do sleep 0.02; i=$((i+1)); done; cat /v/said`))
	c.WantOutput(j, "went on\n", "", "what the daemon says to the next process")
}

func runExecForeign(ctx context.Context, c *C) {
	program := func(path, data string) Entry {
		e := File(path, data)
		e.Mode = 0o755
		return e
	}
	elf := make([]byte, 4096)
	copy(elf, "\x7fELF\x02\x01\x01") // 64 bits, little-endian
	elf[16], elf[18], elf[19], elf[20] = 2, 0xfd, 0x7e, 1
	v := c.Filled(ctx, program("script", "#!/no/such/interpreter\nexit 0\n"), program("directory", "#!/v\nexit 0\n"),
		program("machine", string(elf)), program("short", "\x7fELF"), program("noise", "\x00\x01\x02\x03 no program"))
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	for _, path := range []string{"/v/script", "/v/directory", "/v/machine", "/v/short", "/v/noise"} {
		spec := c.Spec(Cmd{Path: path})
		c.WantReason(c.W.StartProcess(ctx, id, spec), sdk.Invalid, sdk.ReasonNotExecutable, "a host fails the step at once and names the cause", "starting %q", path)
		if _, ok := c.Process(ctx, id, spec.ID); ok {
			c.Errorf("a start that was Invalid leaves no record", "the process that could not start is listed")
		}
	}
	for code, script := range map[int]string{126: "/v", 127: "/no/such/program"} {
		c.WantExit(c.Exec(ctx, id, c.Commands.Script(script)), code, "a shell that cannot run %q", script)
		c.WantExit(c.Exec(ctx, id, c.Commands.Exit(code)), code, "a program that says %d", code)
	}
}

func runKillTree(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	c.WantExit(c.Exec(ctx, id, c.Commands.Script(`mkfifo /v/line`)), 0, "making a named pipe")
	// Who reads the pipe sees its end when nobody of the tree has it open any more.
	reader := c.Start(ctx, id, c.Commands.Script(`cat /v/line`))
	tree := c.Start(ctx, id, c.Commands.Script(`
		exec 9>/v/line
		sh -c 'trap "" TERM HUP; sleep 3600 & sleep 3600' &
		setsid sh -c 'sleep 3600 & : >/v/one; sleep 3600' >/dev/null 2>&1 &
		(setsid sh -c 'trap "" TERM HUP; : >/v/two; sleep 3600; sleep 3600' >/dev/null 2>&1 &)
		until [ -e /v/one ] && [ -e /v/two ]; do sleep 0.02; done
		echo ready; wait`))
	c.AwaitOutput(ctx, id, tree, "ready\n")
	c.OK(c.W.SignalProcess(ctx, id, tree, sdk.KILL), "sending KILL")
	if e := c.Follow(ctx, id, tree).Exit; e.Code != 137 || e.Signal != sdk.KILL || e.OutputCut {
		c.Errorf("KILL always kills", "after KILL: got %s, want code 137 (signalled by KILL)", exitText(e))
	}
	if _, ok := c.FollowFor(ctx, 10*time.Second, id, reader); !ok {
		c.Errorf("KILL goes to the whole tree", "ten seconds after KILL, something of the process's tree still has a pipe open")
	}
}

func runGroup(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	p := c.Start(ctx, id, c.Commands.Script(`
		trap 'echo leader; heard=1' TERM
		sh -c 'trap "echo child; exit" TERM; : >/v/child; i=0; while [ $i -lt 500 ]; do sleep 0.02; i=$((i+1)); done; echo child missed it' 2>/dev/null & child=$!
		setsid sh -c 'it=untouched; trap "it=touched" TERM; : >/v/apart; until [ -e /v/end ]; do sleep 0.02; done; echo $it' 2>/dev/null & apart=$!
		until [ -e /v/child ] && [ -e /v/apart ]; do sleep 0.02; done
		echo ready; exec 2>/dev/null
		until [ "$heard" ]; do sleep 0.02; done
		wait $child; : >/v/end; wait $apart; exit 4`))
	c.AwaitOutput(ctx, id, p, "ready\n")
	c.OK(c.W.SignalProcess(ctx, id, p, sdk.TERM), "sending TERM")
	j := c.Follow(ctx, id, p)
	c.WantExit(j, 4, "a leader that handles TERM")
	if out := string(j.Stdout); !slices.Contains([]string{"ready\nleader\nchild\nuntouched\n", "ready\nchild\nleader\nuntouched\n"}, out) {
		c.Errorf("signals go to the leader's process group", "after TERM stdout is %q, want ready, leader, child, untouched", out)
	}
}

func runStopCont(ctx context.Context, c *C) {
	id := c.Container(ctx)
	spec := c.Spec(c.Commands.Script(`echo $$; read -r line; echo "got $line"; exit 5`), WithStdin)
	c.OK(c.W.StartProcess(ctx, id, spec), "starting")
	pid := strings.TrimSpace(c.AwaitText(ctx, id, spec.ID, "\n"))
	halted := c.Commands.Script(`until grep -q '^State:.T' "/proc/$1/status"; do sleep 0.02; done; echo halted`, pid)
	for range 2 {
		c.OK(c.W.SignalProcess(ctx, id, spec.ID, sdk.STOP), "sending STOP")
		c.WantOutput(c.Exec(ctx, id, halted), "halted\n", "", "the state of a process after STOP")
		if i, _ := c.Process(ctx, id, spec.ID); i.State != sdk.ProcessRunning || i.Exit != nil {
			c.Errorf("what is halted has not ended", "after STOP the process is %s with %s", i.State, exitText(i.Exit))
		}
		c.OK(c.W.SignalProcess(ctx, id, spec.ID, sdk.CONT), "sending CONT")
	}
	j := c.FollowStdin(ctx, id, spec.ID, strings.NewReader("go\n"))
	c.WantOutput(j, pid+"\ngot go\n", "", "a process that was halted twice")
	c.WantExit(j, 5, "a process that was halted twice")

	p := c.Started(ctx, id, c.Commands.Sleep())
	c.OK(c.W.SignalProcess(ctx, id, p, sdk.STOP), "sending STOP")
	c.OK(c.W.SignalProcess(ctx, id, p, sdk.KILL), "sending KILL")
	if e := c.Follow(ctx, id, p).Exit; e.Code != 137 || e.Signal != sdk.KILL {
		c.Errorf("KILL cannot be halted", "halted and killed: got %s, want code 137 (signalled by KILL)", exitText(e))
	}
}
