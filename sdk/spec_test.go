package sdk_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

func TestVolumeSpecValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sdk.VolumeSpec)
		reason sdk.Reason
	}{
		"plain":             {func(s *sdk.VolumeSpec) {}, ""},
		"all of it":         {func(s *sdk.VolumeSpec) { s.Clone, s.UID, s.GID, s.Privileged = "c", 1, 2, true }, ""},
		"no id":             {func(s *sdk.VolumeSpec) { s.ID = "" }, sdk.ReasonSpec},
		"bad id":            {func(s *sdk.VolumeSpec) { s.ID = "-" }, sdk.ReasonSpec},
		"no token":          {func(s *sdk.VolumeSpec) { s.Token = "" }, sdk.ReasonSpec},
		"bad label":         {func(s *sdk.VolumeSpec) { s.Labels = map[string]string{"K": ""} }, sdk.ReasonSpec},
		"bad clone":         {func(s *sdk.VolumeSpec) { s.Clone = "C" }, sdk.ReasonSpec},
		"import":            {func(s *sdk.VolumeSpec) { s.Import = "/data" }, ""},
		"import with NUL":   {func(s *sdk.VolumeSpec) { s.Import = "/data\x00" }, sdk.ReasonSpec},
		"two sources":       {func(s *sdk.VolumeSpec) { s.Clone, s.Import = "c", "/data" }, sdk.ReasonSpec},
		"negative uid":      {func(s *sdk.VolumeSpec) { s.UID = -1 }, sdk.ReasonSpec},
		"negative gid":      {func(s *sdk.VolumeSpec) { s.GID = -1 }, sdk.ReasonSpec},
		"greatest owner":    {func(s *sdk.VolumeSpec) { s.UID, s.GID = math.MaxUint32-1, math.MaxUint32-1 }, ""},
		"uid of chown's -1": {func(s *sdk.VolumeSpec) { s.UID = math.MaxUint32 }, sdk.ReasonSpec},
		"gid of chown's -1": {func(s *sdk.VolumeSpec) { s.GID = math.MaxUint32 }, sdk.ReasonSpec},
		"uid that wraps":    {func(s *sdk.VolumeSpec) { s.UID = 1 << 32 }, sdk.ReasonSpec},
		"gid that wraps":    {func(s *sdk.VolumeSpec) { s.GID = 1 << 32 }, sdk.ReasonSpec},
	} {
		t.Run(name, func(t *testing.T) {
			s := sdk.VolumeSpec{ID: "v", Token: "t"}
			c.change(&s)
			wantInvalid(t, s.Validate(), c.reason)
		})
	}
}

func TestContainerSpecValidate(t *testing.T) {
	mounts := func(paths ...string) func(*sdk.ContainerSpec) {
		return func(s *sdk.ContainerSpec) {
			for _, p := range paths {
				s.Mounts = append(s.Mounts, sdk.Mount{Volume: "v", Path: p})
			}
		}
	}
	dir := func(d string) func(*sdk.ContainerSpec) { return func(s *sdk.ContainerSpec) { s.Dir = d } }
	limits := func(r sdk.Resources) func(*sdk.ContainerSpec) { return func(s *sdk.ContainerSpec) { s.Limits = r } }
	for name, c := range map[string]struct {
		change func(*sdk.ContainerSpec)
		reason sdk.Reason
	}{
		"plain":            {func(s *sdk.ContainerSpec) {}, ""},
		"no id":            {func(s *sdk.ContainerSpec) { s.ID = "" }, sdk.ReasonSpec},
		"no token":         {func(s *sdk.ContainerSpec) { s.Token = "" }, sdk.ReasonSpec},
		"bad label":        {func(s *sdk.ContainerSpec) { s.Labels = map[string]string{"": ""} }, sdk.ReasonSpec},
		"image volume":     {func(s *sdk.ContainerSpec) { s.Image.Volume = "i" }, ""},
		"bad image volume": {func(s *sdk.ContainerSpec) { s.Image.Volume = "i/" }, sdk.ReasonSpec},
		"image ref":        {func(s *sdk.ContainerSpec) { s.Image.Ref = "docker:///alpine:3" }, ""},
		"ref with NUL":     {func(s *sdk.ContainerSpec) { s.Image.Ref = "a\x00" }, sdk.ReasonSpec},
		"ref not UTF-8":    {func(s *sdk.ContainerSpec) { s.Image.Ref = "a\xff" }, sdk.ReasonSpec},
		"two images":       {func(s *sdk.ContainerSpec) { s.Image = sdk.Image{Volume: "i", Ref: "r"} }, sdk.ReasonSpec},

		"dir":              {dir("/work dir/\xff"), ""},
		"dir is root":      {dir("/"), ""},
		"relative dir":     {dir("work"), sdk.ReasonPath},
		"dir with dots":    {dir("/a/../b"), sdk.ReasonPath},
		"dir that ends /":  {dir("/a/"), sdk.ReasonPath},
		"dir with two /":   {dir("//a"), sdk.ReasonPath},
		"dir with NUL":     {dir("/a\x00"), sdk.ReasonPath},
		"dir above root":   {dir("/.."), sdk.ReasonPath},
		"mounts":           {mounts("/a", "/a/b", "/b"), ""},
		"mount at root":    {mounts("/"), sdk.ReasonPath},
		"relative mount":   {mounts("a"), sdk.ReasonPath},
		"mount at nothing": {mounts(""), sdk.ReasonPath},
		"mount with dots":  {mounts("/a/./b"), sdk.ReasonPath},
		"mount with NUL":   {mounts("/a\x00b"), sdk.ReasonPath},
		"mount twice":      {mounts("/a", "/b", "/a"), sdk.ReasonPath},
		"mount of nothing": {func(s *sdk.ContainerSpec) { s.Mounts = []sdk.Mount{{Path: "/a"}} }, sdk.ReasonSpec},

		"limits":          {limits(sdk.Resources{CPUMillis: 1, MemoryBytes: 1, DiskBytes: 1, PIDs: 1}), ""},
		"negative cpu":    {limits(sdk.Resources{CPUMillis: -1}), sdk.ReasonSpec},
		"negative memory": {limits(sdk.Resources{MemoryBytes: -1}), sdk.ReasonSpec},
		"negative disk":   {limits(sdk.Resources{DiskBytes: -1}), sdk.ReasonSpec},
		"negative pids":   {limits(sdk.Resources{PIDs: -1}), sdk.ReasonSpec},
		"containers":      {limits(sdk.Resources{Containers: 1}), sdk.ReasonSpec},
		"volumes":         {limits(sdk.Resources{Volumes: 1}), sdk.ReasonSpec},
	} {
		t.Run(name, func(t *testing.T) {
			s := sdk.ContainerSpec{ID: "c", Token: "t"}
			c.change(&s)
			wantInvalid(t, s.Validate(), c.reason)
		})
	}
}

func TestProcessSpecValidate(t *testing.T) {
	args := func(a ...string) func(*sdk.ProcessSpec) { return func(s *sdk.ProcessSpec) { s.Args = a } }
	env := func(e ...string) func(*sdk.ProcessSpec) { return func(s *sdk.ProcessSpec) { s.Env = e } }
	const room = sdk.MaxArgBytes - len("sh")
	for name, c := range map[string]struct {
		change func(*sdk.ProcessSpec)
		reason sdk.Reason
	}{
		"plain":             {func(s *sdk.ProcessSpec) {}, ""},
		"no id":             {func(s *sdk.ProcessSpec) { s.ID = "" }, sdk.ReasonSpec},
		"no token":          {func(s *sdk.ProcessSpec) { s.Token = "" }, sdk.ReasonSpec},
		"no path":           {func(s *sdk.ProcessSpec) { s.Path = "" }, sdk.ReasonSpec},
		"path with NUL":     {func(s *sdk.ProcessSpec) { s.Path = "hunter2\x00" }, sdk.ReasonSpec},
		"dir":               {func(s *sdk.ProcessSpec) { s.Dir = "/a" }, ""},
		"relative dir":      {func(s *sdk.ProcessSpec) { s.Dir = "a" }, sdk.ReasonPath},
		"user":              {func(s *sdk.ProcessSpec) { s.User = "1000:100" }, ""},
		"user with NUL":     {func(s *sdk.ProcessSpec) { s.User = "root\x00" }, sdk.ReasonSpec},
		"user not UTF-8":    {func(s *sdk.ProcessSpec) { s.User = "\xff" }, sdk.ReasonSpec},
		"negative spill":    {func(s *sdk.ProcessSpec) { s.Spill = -1 }, sdk.ReasonSpec},
		"drop oldest":       {func(s *sdk.ProcessSpec) { s.WhenFull = sdk.DropOldest }, ""},
		"unknown policy":    {func(s *sdk.ProcessSpec) { s.WhenFull = sdk.DropOldest + 1 }, sdk.ReasonSpec},
		"args":              {args("", "a b", "\xff", "hunter2"), ""},
		"arg with NUL":      {args("a", "hunter2\x00"), sdk.ReasonSpec},
		"env":               {env("A=", "B=b=b", "A=again", "c.d=\xff"), ""},
		"env without value": {env("A=1", "hunter2"), sdk.ReasonSpec},
		"env without name":  {env("=hunter2"), sdk.ReasonSpec},
		"empty env entry":   {env("", "A=hunter2"), sdk.ReasonSpec},
		"env with NUL":      {env("A=hunter2\x00"), sdk.ReasonSpec},
		"env name with NUL": {env("A\x00B=hunter2"), sdk.ReasonSpec},
		"as big as allowed": {args(strings.Repeat("x", room-9)), ""},
		"one byte more":     {args(strings.Repeat("x", room-8)), sdk.ReasonTooLarge},
		"many empty ones":   {args(make([]string, room/9)...), ""},
		"one more of them":  {args(make([]string, room/9+1)...), sdk.ReasonTooLarge},
		"empty variables":   {env(slices.Repeat([]string{"A="}, room/9)...), sdk.ReasonTooLarge},
		"args too big":      {args("hunter2" + strings.Repeat("x", room-7)), sdk.ReasonTooLarge},
		"env too big":       {env("A=hunter2" + strings.Repeat("x", room)), sdk.ReasonTooLarge},
		"too big together": {func(s *sdk.ProcessSpec) {
			args(strings.Repeat("x", room/2))(s)
			env("A=" + strings.Repeat("x", room/2))(s)
		}, sdk.ReasonTooLarge},
		"too many empty":     {args(make([]string, room+1)...), sdk.ReasonTooLarge},
		"bad spec with env":  {func(s *sdk.ProcessSpec) { env("A=hunter2")(s); s.Dir = "x" }, sdk.ReasonPath},
		"bad id with env":    {func(s *sdk.ProcessSpec) { env("A=hunter2")(s); s.ID = "X" }, sdk.ReasonSpec},
		"bad spill with env": {func(s *sdk.ProcessSpec) { env("A=hunter2")(s); s.Spill = -1 }, sdk.ReasonSpec},
	} {
		t.Run(name, func(t *testing.T) {
			s := sdk.ProcessSpec{ID: "p", Token: "t", Path: "sh"}
			c.change(&s)
			err := s.Validate()
			wantInvalid(t, err, c.reason)
			if err != nil {
				wantNoSecret(t, err, "hunter2")
			}
		})
	}
}

func TestSignals(t *testing.T) {
	last := 0
	for _, s := range sdk.Signals() {
		wantInvalid(t, s.Validate(), "")
		if s.Number() <= last {
			t.Errorf("%s has the number %d after %d", s, s.Number(), last)
		}
		last = s.Number()
	}
	for s, n := range map[sdk.Signal]int{"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "USR1": 10, "USR2": 12, "TERM": 15, "CONT": 18, "STOP": 19} {
		if s.Number() != n {
			t.Errorf("%s has the number %d, on Linux it is %d", s, s.Number(), n)
		}
	}
	for _, s := range []sdk.Signal{"", "term", "SIGTERM", "15", "WINCH", "TERM "} {
		wantInvalid(t, s.Validate(), sdk.ReasonSignal)
		if s.Number() != 0 {
			t.Errorf("%q has the number %d", s, s.Number())
		}
	}
	sdk.Signals()[0] = "changed"
	if sdk.Signals()[0] != sdk.HUP {
		t.Error("a caller can change the list of signals")
	}
}

func TestFilterMatch(t *testing.T) {
	has := map[string]string{"a": "1", "b": ""}
	for name, c := range map[string]struct {
		filter sdk.Filter
		want   bool
	}{
		"zero":                      {sdk.Filter{}, true},
		"id":                        {sdk.Filter{ID: "x"}, true},
		"other id":                  {sdk.Filter{ID: "X"}, false},
		"beginning of the id":       {sdk.Filter{ID: "xy"}, false},
		"label":                     {sdk.Filter{Labels: map[string]string{"a": "1"}}, true},
		"both labels":               {sdk.Filter{Labels: map[string]string{"a": "1", "b": ""}}, true},
		"other value":               {sdk.Filter{Labels: map[string]string{"a": "2"}}, false},
		"empty is not missing":      {sdk.Filter{Labels: map[string]string{"c": ""}}, false},
		"one of two":                {sdk.Filter{Labels: map[string]string{"a": "1", "c": "1"}}, false},
		"id and label":              {sdk.Filter{ID: "x", Labels: map[string]string{"a": "1"}}, true},
		"id and another's label":    {sdk.Filter{ID: "x", Labels: map[string]string{"a": "2"}}, false},
		"label and another's id":    {sdk.Filter{ID: "y", Labels: map[string]string{"a": "1"}}, false},
		"no labels are no question": {sdk.Filter{Labels: map[string]string{}}, true},
	} {
		if got := c.filter.Match("x", has); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (sdk.Filter{Labels: map[string]string{"a": ""}}).Match("x", nil) {
		t.Error("a thing without labels passes a filter by label")
	}
}

func TestRecord(t *testing.T) {
	for name, c := range map[string]struct {
		record sdk.Record
		end    sdk.Position
		gap    bool
	}{
		"first byte":     {sdk.Record{Stream: sdk.Stdout, Data: []byte("x")}, 1, false},
		"later":          {sdk.Record{Position: 10, Stream: sdk.Stderr, Data: []byte("abc")}, 13, false},
		"gap from zero":  {sdk.Record{GapTo: 7}, 7, true},
		"gap of a byte":  {sdk.Record{Position: 6, GapTo: 7}, 7, true},
		"far beyond 4 G": {sdk.Record{Position: 1 << 40, Stream: sdk.Stdout, Data: make([]byte, sdk.MaxRecordBytes)}, 1<<40 + 256<<10, false},
	} {
		if c.record.End() != c.end || c.record.IsGap() != c.gap {
			t.Errorf("%s: ends at %d, gap is %v", name, c.record.End(), c.record.IsGap())
		}
	}
}

func TestWordsForPeople(t *testing.T) {
	for _, c := range []struct {
		got  any
		want string
	}{
		{sdk.Stdout, "stdout"}, {sdk.Stderr, "stderr"}, {sdk.Stream(0), "unknown"},
		{sdk.ProcessRunning, "running"}, {sdk.ProcessExited, "exited"}, {sdk.ProcessAbandoned, "abandoned"}, {sdk.ProcessState(0), "unknown"},
		{sdk.ContainerCreating, "creating"}, {sdk.ContainerReady, "ready"}, {sdk.ContainerGone, "gone"}, {sdk.ContainerState(9), "unknown"},
		{sdk.VolumeCreating, "creating"}, {sdk.VolumeOpen, "open"}, {sdk.VolumeSealed, "sealed"}, {sdk.VolumeState(0), "unknown"},
		{sdk.HealthUnknown, "unknown"}, {sdk.Healthy, "healthy"}, {sdk.Degraded, "degraded"}, {sdk.Away, "away"},
	} {
		if s := c.got.(interface{ String() string }).String(); s != c.want {
			t.Errorf("%T %v: %q, want %q", c.got, c.got, s, c.want)
		}
	}
	if sdk.OutputGrace != 2*time.Second { // rule 6 says so in words
		t.Errorf("output is awaited for %v", sdk.OutputGrace)
	}
}

func TestExitValidate(t *testing.T) {
	for name, c := range map[string]struct {
		exit sdk.Exit
		ok   bool
	}{
		"zero":            {sdk.Exit{Reason: sdk.ExitExited}, true},
		"no reason":       {sdk.Exit{}, true},
		"255":             {sdk.Exit{Code: 255, Reason: sdk.ExitExited}, true},
		"killed":          {sdk.Exit{Code: 137, Signal: sdk.KILL, Reason: sdk.ExitSignalled}, true},
		"segmentation":    {sdk.Exit{Code: 139, Signal: "SEGV", Reason: sdk.ExitSignalled}, true},
		"real time":       {sdk.Exit{Code: 162, Signal: "RTMIN+15", Reason: sdk.ExitSignalled}, true},
		"out of memory":   {sdk.Exit{Code: 1, Reason: sdk.ExitOOM}, true},
		"a newer reason":  {sdk.Exit{Code: 1, Reason: "because"}, true},
		"256":             {sdk.Exit{Code: 256, Reason: sdk.ExitExited}, false},
		"negative":        {sdk.Exit{Code: -256, Reason: sdk.ExitExited}, false},
		"huge":            {sdk.Exit{Code: 1 << 32, Reason: sdk.ExitExited}, false},
		"0 with a signal": {sdk.Exit{Signal: sdk.KILL, Reason: sdk.ExitSignalled}, false},
		"only signalled":  {sdk.Exit{Reason: sdk.ExitSignalled}, false},
		"0 by a limit":    {sdk.Exit{Reason: sdk.ExitLimit}, false},
		"signal's number": {sdk.Exit{Code: 9, Signal: sdk.KILL, Reason: sdk.ExitSignalled}, false},
		"no name":         {sdk.Exit{Code: 137, Signal: "K\nL", Reason: sdk.ExitSignalled}, false},
		"a long name":     {sdk.Exit{Code: 137, Signal: sdk.Signal(strings.Repeat("A", 17)), Reason: sdk.ExitSignalled}, false},
	} {
		err := c.exit.Validate()
		if c.ok != (err == nil) || err != nil && !errors.Is(err, sdk.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
