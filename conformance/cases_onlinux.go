package conformance

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// linuxCases check processes that are real ones: what they begin with, and what becomes of their children.
func linuxCases() []Case {
	linux := []Requirement{EnvProbeLinux}
	return []Case{
		{
			ID: "P14-zombies", Title: "a thousand children that lost their parents leave no zombie behind, the next process starts, and their parent's exit is its own", Promises: []string{"6f"}, Level: Must, Profile: Linux, Run: runZombies,
			Env: linux, Timeout: 2 * DefaultTimeout, Doc: "Orphans go to the container's first process. One that does not wait for them fills the table of processes, and then nothing starts any more. One that does may take an orphan's end for the leader's.",
		},
		{
			ID: "P15-descriptors", Title: "a process begins with the descriptors 0, 1 and 2, and no other", Promises: []string{"11g"}, Level: Must, Profile: Linux, Run: runDescriptors,
			Env: linux, Doc: "A descriptor of the plugin's, or of another process's pipe, is a way out of the container, and keeps that pipe open.",
		},
		{
			ID: "P17-defaults", Title: "a process begins with umask 0022, no signal ignored or blocked, and is no harder to kill than its container when memory runs out", Promises: []string{"11g"}, Level: Must, Profile: Linux, Run: runDefaults,
			Env: linux, Doc: "All of these are inherited from whoever starts it. With SIGPIPE ignored, yes | head never ends; with TERM blocked, nothing can be stopped.",
		},
		{
			ID: "P24-daemon", Title: "a child in a session of its own, with its output closed, delays no exit and goes on after it", Promises: []string{"6f"}, Level: Must, Profile: Linux, Run: runDaemon,
			Env: linux, Doc: "Steps start services for the ones after them. Only KILL and the container's end reach those.",
		},
		{
			ID: "P28-exec-foreign", Title: "scripts without their interpreter and programs for no such machine are Invalid with not-executable; 126 and 127 are the command's own", Promises: []string{"11f"}, Level: Must, Profile: Linux, Run: runExecForeign,
			Env: linux, Doc: "As P02. The kernel says that the file is not there when its interpreter is not.",
		},
		{
			ID: "S08-kill-tree", Title: "KILL reaches grandchildren, children in sessions of their own, and orphans", Promises: []string{"8b"}, Level: Must, Profile: Linux, Run: runKillTree,
			Env: linux, Doc: "A step that was aborted must not go on writing to its volumes.",
		},
		{
			ID: "S13-group", Title: "TERM reaches the leader's children too, and not those that have a session of their own", Promises: []string{"8a"}, Level: Must, Profile: Linux, Run: runGroup,
			Env: linux, Doc: "A shell passes on nothing: the test that it runs must hear of the stop by itself.",
		},
		{
			ID: "S14-stop-cont", Title: "STOP halts a process and CONT lets it go on; a halted one can be killed", Promises: []string{"8e"}, Level: Must, Profile: Linux, Run: runStopCont,
			Env: linux, Doc: "Somebody waits for children in between. Whoever takes a halt for an end tells of an exit that never was.",
		},
		{
			ID: "S22-after-leader", Title: "between the leader's end and the exit a signal reaches what is left of its group, KILL ends it, and with nothing left they succeed", Promises: []string{"8k"}, Level: Must, Profile: Linux, Run: runAfterLeader,
			Env: linux, Doc: "Catches a plugin that signals the leader's number, which is nobody's by then, or somebody else's: what the leader has left holds the exit up, and nothing stops it.",
		},
	}
}

// soonDead is when, at the latest, nothing is left of what was killed; see [C.Patience].
const soonDead = DefaultTimeout / 3

func runZombies(ctx context.Context, c *C) {
	id := c.Container(ctx)
	n := c.Times(1000)
	p := c.Start(ctx, id, c.Probe("seq", "orphans", strconv.Itoa(n), ";", "gate", "", "done\n", "5"), WithStdin)
	c.AwaitOutput(ctx, id, p, "born\n")
	look := func(when string) {
		j, ok := c.FollowFor(ctx, c.Patience(soonDead), id, c.Start(ctx, id, c.Probe("no-zombies")))
		if !ok {
			c.Fatalf("what has ended is waited for by somebody", "of %d children's children, %s: some are zombies after %v", n, when, c.Patience(soonDead))
		}
		c.WantOutput(j, "none\n", "", "the next process, %s", when)
	}
	look("while their grandparent lives")
	j := c.FollowStdin(ctx, id, p, strings.NewReader("go\n"))
	c.WantOutput(j, "born\ndone\n", "", "a process that has %d children's children", n)
	c.WantExit(j, 5, "a process that has %d children's children", n)
	look("after its end")
}

func runDescriptors(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.Started(ctx, id, c.Commands.Sleep()) // its pipes are somewhere by now
	c.WantOutput(c.Exec(ctx, id, c.Probe("descriptors")), "0 1 2\n", "", "descriptors without stdin")
	c.WantOutput(c.Exec(ctx, id, c.Probe("descriptors"), WithStdin), "0 1 2\n", "", "descriptors with stdin")
	if c.Status.Has(sdk.FeatureTTY) {
		c.WantOutput(c.Exec(ctx, id, c.Probe("descriptors"), WithTTY(0, 0)), "0 1 2\r\n", "", "descriptors with a terminal")
	}
}

// signalsOf names the signals of a mask as Linux tells it, in hexadecimal digits.
func signalsOf(mask string) string {
	bits, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		return "signals that cannot be read"
	}
	var out []string
	for n := range 64 {
		if bits&(1<<n) != 0 {
			out = append(out, strconv.Itoa(n+1))
		}
	}
	return "signals " + strings.Join(out, ", ")
}

func runDefaults(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.WantOutput(c.Exec(ctx, id, c.Probe("umask")), "0022\n", "", "umask")
	own := statusOf(string(c.Exec(ctx, id, c.Commands.CatFile("/proc/self/status")).Stdout))
	for what, name := range map[string]string{"SigBlk": "blocked", "SigIgn": "ignored"} {
		if got := strings.Join(own[what], " "); strings.Trim(got, "0") != "" || got == "" {
			c.Errorf("a process begins with no signal ignored or blocked", "%s are %s, the mask %q, want none; 32 and 33 are glibc's own, which only the system call rt_sigaction resets",
				name, signalsOf(got), got)
		}
	}
	c.brokenPipe(ctx, id)

	j := c.Exec(ctx, id, c.Probe("seq", "cat-file", "/proc/1/oom_score_adj", ";", "cat-file", "/proc/self/oom_score_adj"))
	scores := strings.Fields(string(j.Stdout))
	if len(scores) != 2 {
		c.NotObservable("the container's first process does not show how hard it is to kill")
	}
	first, err1 := strconv.Atoi(scores[0])
	self, err2 := strconv.Atoi(scores[1])
	if err1 != nil || err2 != nil || self < first {
		c.Errorf("who runs out of memory is killed before the container", "the process's score is %q, that of the container's first process %q", scores[1], scores[0])
	}
}

// brokenPipe asks a shell, where containers have one, for Go's runtime takes this signal for itself before the probe could look.
func (c *C) brokenPipe(ctx context.Context, id sdk.ContainerID) {
	shell, ok := c.suite.target.Commands.(Shell)
	if !ok {
		c.Logf("whether SIGPIPE is ignored was not seen: containers are not known to have a shell")
		return
	}
	j := c.Exec(ctx, id, shell.Pipe())
	if out := string(j.Stdout); out != "" || j.Exit.Signal != sdk.Signal("PIPE") && j.Exit.Code != 128+13 {
		c.Errorf("a process begins with no signal ignored", "a shell that sent itself SIGPIPE: %s, and %q on stdout; want its end, code 141", exitText(j.Exit), out)
	}
}

func runDaemon(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	c.WantExit(c.Exec(ctx, id, c.Probe("mkfifo", "/v/line")), 0, "making a named pipe")
	reader := c.Start(ctx, id, c.Probe("cat-file", "/v/line")) // to its end when the daemon has ended, whatever of
	j := c.Exec(ctx, id, c.Probe("seq",
		"spawn", "session,quiet", "inner", "keep", "/v/line", ",", "write", "/v/up", "", ",", "await", "/v/go", ",", "write", "/v/said", "went on\n", ";",
		"await", "/v/up", ";", "print", "done\n", ";", "exit", "3"))
	c.WantExit(j, 3, "a leader that leaves a daemon")
	c.WantOutput(j, "done\n", "", "a leader that leaves a daemon")
	if j.Exit.OutputCut {
		c.Errorf("output is only cut where something holds it open", "a leader whose daemon has closed its output: the output was cut")
	}
	c.WantExit(c.Exec(ctx, id, c.Probe("write", "/v/go", "")), 0, "telling the daemon to go on")
	c.Follow(ctx, id, reader)
	c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile("/v/said")), "went on\n", "", "what the daemon says to the next process")
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
	for _, code := range []int{126, 127} {
		c.WantExit(c.Exec(ctx, id, c.Commands.Exit(code)), code, "a program that says %d", code)
	}
}

func runKillTree(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	c.WantExit(c.Exec(ctx, id, c.Probe("mkfifo", "/v/line")), 0, "making a named pipe")
	// Who reads the pipe sees its end when nobody of the tree has it open any more.
	reader := c.Start(ctx, id, c.Probe("cat-file", "/v/line"))
	child := func(name string) []string {
		return []string{"inner", "ignore", "TERM", "HUP", ",", "write", "/v/" + name, "", ",", "nap", "3600000", ";"}
	}
	tree := c.Start(ctx, id, c.Probe(slices.Concat([]string{"seq", "keep", "/v/line", ";", "spawn", "-"}, child("one"),
		[]string{"spawn", "session,quiet"}, child("two"), []string{"spawn", "orphan,session,quiet"}, child("three"),
		[]string{"await", "/v/one", ";", "await", "/v/two", ";", "await", "/v/three", ";", "sleep"})...))
	c.AwaitOutput(ctx, id, tree, "ready\n")
	c.OK(c.W.SignalProcess(ctx, id, tree, sdk.KILL), "sending KILL")
	if e := c.Follow(ctx, id, tree).Exit; e.Code != 137 || e.Signal != sdk.KILL || e.OutputCut {
		c.Errorf("KILL always kills", "after KILL: got %s, want code 137 (signalled by KILL)", exitText(e))
	}
	if _, ok := c.FollowFor(ctx, c.Patience(soonDead), id, reader); !ok {
		c.Errorf("KILL goes to the whole tree", "long after KILL, something of the process's tree still has a pipe open")
	}
}

func runGroup(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	marks := func(who string) []string { return []string{"mark", "TERM", "/v/" + who, "/v/" + who + "-heard", ";"} }
	p := c.Start(ctx, id, c.Probe(slices.Concat([]string{"seq", "spawn", "quiet"}, marks("child"), []string{"spawn", "session,quiet"}, marks("apart"),
		[]string{"await", "/v/child", ";", "await", "/v/apart", ";"}, marks("leader"), []string{"await", "/v/child-heard", ";", "exit", "4"})...))
	c.WantExit(c.Exec(ctx, id, c.Probe("await", "/v/leader")), 0, "awaiting what handles TERM")
	c.OK(c.W.SignalProcess(ctx, id, p, sdk.TERM), "sending TERM")
	c.WantExit(c.Follow(ctx, id, p), 4, "a leader that handles TERM and waits until its child has heard of it")
	if c.Exec(ctx, id, c.Commands.CatFile("/v/apart-heard")).Exit.Code == 0 {
		c.Errorf("signals go to the leader's process group", "a child in a session of its own has heard TERM")
	}
}

func runStopCont(ctx context.Context, c *C) {
	id := c.Container(ctx)
	spec := c.Spec(c.Probe("seq", "pid", ";", "line", "got ", "\n", ";", "exit", "5"), WithStdin)
	c.OK(c.W.StartProcess(ctx, id, spec), "starting")
	pid := strings.TrimSpace(c.AwaitText(ctx, id, spec.ID, "\n"))
	halted := c.Probe("await-state", pid, "T")
	for range 2 {
		c.OK(c.W.SignalProcess(ctx, id, spec.ID, sdk.STOP), "sending STOP")
		c.WantExit(c.Exec(ctx, id, halted), 0, "awaiting the halt of a process after STOP")
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

func runAfterLeader(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	for try := range 5 {
		if c.afterLeader(ctx, id, fmt.Sprintf("/v/%d-", try)) || c.Failed() {
			return
		}
	}
	c.NotObservable("each time the exit had come, or may have, before the signal was sent")
}

// heldLines are numbers of 72,894 bytes. That is more than the journal takes, so that the exit waits, and 8 KiB more at most, so that the leader does not wait: a
// pipe mostly takes 64 KiB, but only two pages where the pipes of one user, in all containers and beside them, have reached /proc/sys/fs/pipe-user-pages-soft.
const heldLines = 14_000

// afterLeader sends signals to what a leader has left. The journal is full, which has the exit wait where a runtime waits for its room; elsewhere it comes when its
// grace is over, maybe before the signal: then there is no answer.
func (c *C) afterLeader(ctx context.Context, id sdk.ContainerID, at string) (answered bool) {
	c.WantExit(c.Exec(ctx, id, c.Probe("mkfifo", at+"leader", at+"left")), 0, "making named pipes")
	// Who reads a pipe sees its end when nobody has it open any more.
	leader, left := c.Start(ctx, id, c.Probe("cat-file", at+"leader")), c.Start(ctx, id, c.Probe("cat-file", at+"left"))
	p := c.Start(ctx, id, c.Probe("seq", "keep", at+"left", ";",
		"spawn", "-", "inner", "mark", "TERM", at+"up", at+"heard", ",", "nap", "3600000", ";",
		"await", at+"up", ";", "keep", at+"leader", ";", "lines", strconv.Itoa(heldLines), ";", "exit", "3"), func(s *sdk.ProcessSpec) { s.Spill = spill })
	c.Follow(ctx, id, leader) // the leader has ended
	c.OK(c.W.SignalProcess(ctx, id, p, sdk.TERM), "sending TERM after the leader's end")
	if i, _ := c.Process(ctx, id, p); i.State == sdk.ProcessExited {
		return false
	}
	if _, ok := c.FollowFor(ctx, c.Patience(soonDead), id, c.Start(ctx, id, c.Probe("await", at+"heard"))); !ok {
		c.Fatalf("a signal reaches what is left of the group", "long after TERM, which came before the exit, the leader's child has not heard of it")
	}
	c.OK(c.W.SignalProcess(ctx, id, p, sdk.KILL), "sending KILL after the leader's end")
	if i, _ := c.Process(ctx, id, p); i.State == sdk.ProcessExited && i.Exit.OutputCut {
		return false // what is left held the output until it was cut
	}
	if _, ok := c.FollowFor(ctx, c.Patience(soonDead), id, left); !ok {
		c.Fatalf("KILL ends what the leader has left", "long after KILL, which came before the exit, the leader's child still has a pipe open")
	}
	for _, signal := range []sdk.Signal{sdk.TERM, sdk.KILL} {
		c.OK(c.W.SignalProcess(ctx, id, p, signal), "sending %s with nothing left to hear it", signal)
	}
	j := c.Follow(ctx, id, p)
	c.WantExit(j, 3, "a leader whose child was killed after its end")
	c.WantOutput(j, numbers(1, heldLines), "", "a leader whose child was killed after its end")
	return true
}
