package conformance

import (
	"context"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// userCases check processes of other users. Their containers get users of the cases' own first, so that no image has to have any.
func userCases() []Case {
	users, linux := []sdk.Feature{sdk.FeatureUsers}, []Requirement{EnvProbeLinux}
	return []Case{
		{
			ID: "P23-user-forms", Title: "a user's name, uid or uid:gid gives that user, with the groups that the container's files say; an unknown name is Invalid with user-not-found",
			Promises: []string{"11h"}, Level: Must, Profile: Linux, Run: runUserForms, Needs: users, Env: linux,
			Doc: "Names mean what the container says, never what the machine says, and a container without such files still has numbers. Groups that are forgotten lock the user out; those of whoever starts the process let them in.",
		},
		{
			ID: "P26-user-environment", Title: "HOME and USER are the user's, and PATH has what is in it, unless the host says otherwise", Promises: []string{"13b"}, Level: Should, Profile: Linux, Run: runUserEnvironment,
			Needs: users, Env: linux, Doc: "Without HOME most tools write to / or fail; with root's they fail as well.",
		},
		{
			ID: "P27-user-files", Title: "a user's process gets its directory made as its own, and cannot read or write root's files", Promises: []string{"11c"}, Level: Must, Profile: Linux, Run: runUserFiles,
			Needs: users, Env: linux, Doc: "A directory that is made for a process and that it cannot write is of no use; one that is there already stays whose it is.",
		},
	}
}

// asUser makes a process somebody's.
func asUser(user string) func(*sdk.ProcessSpec) {
	return func(s *sdk.ProcessSpec) { s.User = user }
}

// withUsers makes a container that knows the users suite and other, and three groups more. It changes the container's /etc, so it first
// makes sure that this is no one else's: of another container, or of the machine. Its files get new ones in their place and are not written,
// for they may be links to the machine's.
func (c *C) withUsers(ctx context.Context, with ...func(*sdk.ContainerSpec)) sdk.ContainerID {
	id, other := c.Container(ctx, with...), c.Container(ctx)
	marker := "/etc/" + string(id)
	c.Exec(ctx, id, c.Probe("mkdir", "/etc"), asUser("0:0")) // the next process tells whether it is there
	if j := c.Exec(ctx, id, c.Commands.Append(marker, "x"), asUser("0:0")); j.Exit.Code != 0 {
		c.EnvMissing("root cannot write to the container's /etc, so it knows no users that this case could ask for")
	}
	shared := c.Exec(ctx, other, c.Commands.CatFile(marker)).Exit.Code == 0
	c.WantExit(c.Exec(ctx, id, c.Probe("rm", marker), asUser("0:0")), 0, "removing a file")
	if shared {
		c.EnvMissing("two containers have one /etc: it is not theirs to change, so there are no users that this case could ask for")
	}
	for name, more := range map[string]string{
		"/etc/passwd": "suite:x:1234:2345:of the suite:/home/suite:/bin/sh\nother:x:1235:2345::/home/other:/bin/sh\n",
		"/etc/group":  "suites:x:2345:\nfirst:x:3001:suite\nsecond:x:3002:other,suite\nthird:x:3003:other\n",
	} {
		there := string(c.Exec(ctx, id, c.Commands.CatFile(name), asUser("0:0")).Stdout) // nothing where it is missing
		j := c.Exec(ctx, id, c.Probe("seq", "write", name+".suite", there+more, ";", "mv", name+".suite", name), asUser("0:0"))
		c.WantExit(j, 0, "adding users to %s", name)
	}
	return id
}

func runUserForms(ctx context.Context, c *C) {
	id := c.withUsers(ctx)
	check := func(user, uid, gid string, groups ...string) {
		j := c.Exec(ctx, id, c.Commands.CatFile("/proc/self/status"), asUser(user))
		c.WantExit(j, 0, "user %q", user)
		got := statusOf(string(j.Stdout))
		for what, want := range map[string]string{"Uid": uid, "Gid": gid} {
			four := []string{want, want, want, want} // real, effective, saved, of the file system
			if want != "" && !slices.Equal(got[what], four) {
				c.Errorf("a process is its user's in every way", "user %q: %s is %q, want %s four times", user, what, got[what], want)
			}
		}
		further := slices.DeleteFunc(got["Groups"], func(g string) bool { return g == gid })
		slices.Sort(further)
		if gid != "" && !slices.Equal(further, groups) {
			c.Errorf("a process has its user's groups and nobody else's", "user %q: groups beside its own are %q, want %q", user, further, groups)
		}
	}
	check("suite", "1234", "2345", "3001", "3002")
	check("1234", "1234", "2345", "3001", "3002")
	check("other", "1235", "2345", "3002", "3003")
	check("4242:4343", "4242", "4343")

	spec := c.Spec(c.Commands.Exit(0), asUser("no-such-user"))
	const why = "a host fails the step at once and names the cause"
	c.WantReason(c.W.StartProcess(ctx, id, spec), sdk.Invalid, sdk.ReasonUserNotFound, why, "starting as a user whom nobody knows")
	if _, ok := c.Process(ctx, id, spec.ID); ok {
		c.Errorf("a start that was Invalid leaves no record", "the process that could not start is listed")
	}
	spec.User = "suite"
	c.OK(c.W.StartProcess(ctx, id, spec), "starting with the same id and token as a user who is there")
	c.WantExit(c.Follow(ctx, id, spec.ID), 0, "the start after one that was Invalid")

	c.WantExit(c.Exec(ctx, id, c.Probe("rm", "/etc/passwd", "/etc/group"), asUser("0:0")), 0, "removing the container's users")
	check("4242:4343", "4242", "4343")
	check("4242", "4242", "") // of its group nothing is said
	check("0:0", "0", "0")
	spec = c.Spec(c.Commands.Exit(0), asUser("suite"))
	c.WantReason(c.W.StartProcess(ctx, id, spec), sdk.Invalid, sdk.ReasonUserNotFound, why, "starting as a user by name in a container without /etc/passwd")
}

// statusOf reads /proc/PID/status: each line's values by its name.
func statusOf(text string) map[string][]string {
	all := make(map[string][]string)
	for line := range strings.Lines(text) {
		name, values, _ := strings.Cut(line, ":")
		all[name] = strings.Fields(values)
	}
	return all
}

func runUserEnvironment(ctx context.Context, c *C) {
	id := c.withUsers(ctx)
	show := c.Probe("seq", "env", "HOME", ";", "env", "USER")
	c.WantOutput(c.Exec(ctx, id, show, asUser("suite")), "[/home/suite]\n[suite]\n", "", "user suite")
	c.WantOutput(c.Exec(ctx, id, show, asUser("other")), "[/home/other]\n[other]\n", "", "user other")
	j := c.Exec(ctx, id, show, asUser("suite"), func(s *sdk.ProcessSpec) { s.Env = []string{"USER=mine", "HOME=/my/home"} })
	c.WantOutput(j, "[/my/home]\n[mine]\n", "", "user suite, with HOME and USER from the host")
	path := strings.Trim(string(c.Exec(ctx, id, c.Commands.Env("PATH"), asUser("suite")).Stdout), "[]\n")
	for _, dir := range []string{"/usr/bin", "/bin"} {
		if !slices.Contains(strings.Split(path, ":"), dir) {
			c.Errorf("what every system has is found", "user suite: PATH is %q, without %s", path, dir)
		}
	}
}

func runUserFiles(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	id := c.withUsers(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	in := func(dir string) func(*sdk.ProcessSpec) { return func(s *sdk.ProcessSpec) { s.Dir = dir } }
	owner := c.Probe("owner", ".")
	c.WantOutput(c.Exec(ctx, id, owner, asUser("suite"), in("/made/for/suite")), "1234:2345\n", "", "the owner of a directory that was made")
	c.WantOutput(c.Exec(ctx, id, owner, asUser("4242:4343"), in("/v/made")), "4242:4343\n", "", "the owner of a directory that was made in a volume")
	c.WantOutput(c.Exec(ctx, id, owner, asUser("suite"), in("/etc")), "0:0\n", "", "the owner of a directory that was there")
	c.WantExit(c.Exec(ctx, id, c.Commands.Append("mine", "x"), asUser("suite"), in("/made/for/suite")), 0, "writing to one's own directory")

	j := c.Exec(ctx, id, c.Probe("seq", "write", "/readable", "all\n", ";", "write", "/secret", "root\n", ";", "chmod", "644", "/readable", ";", "chmod", "600", "/secret"), asUser("0:0"))
	c.WantExit(j, 0, "making files of root's")
	c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile("/readable"), asUser("suite")), "all\n", "", "reading what all may read")
	for what, cmd := range map[string]Cmd{
		"reading root's secret": c.Commands.CatFile("/secret"), "writing to root's file": c.Commands.Append("/readable", "x"),
		"making a file in /etc": c.Commands.Append("/etc/suite", "x"),
	} {
		if j := c.Exec(ctx, id, cmd, asUser("suite")); j.Exit.Code == 0 || len(j.Stdout) > 0 {
			c.Errorf("a user's process can do what that user may do", "%s as user suite: got %s and %q, want a refusal", what, exitText(j.Exit), j.Stdout)
		}
	}
}
