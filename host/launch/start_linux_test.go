package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// A plugin that cannot start is reported, with what an operator needs, and does not make its host busy.
func TestPluginsThatDoNotStart(t *testing.T) {
	brief := func(_ *Spec, o *Options) { o.StartTimeout = time.Second }
	for name, c := range map[string]struct {
		mode    []string
		change  func(*Spec, *Options)
		reason  Reason
		retried bool
		says    []string
	}{
		"no such program":      {change: func(s *Spec, _ *Options) { s.Command = "./not-here" }, reason: ReasonNotFound, says: []string{"not-here (not there)"}},
		"a directory":          {change: func(s *Spec, _ *Options) { s.Command = "/tmp/" }, reason: ReasonNotExecutable, says: []string{"not a regular file"}},
		"dies at start":        {mode: []string{"exit"}, reason: ReasonDied, retried: true, says: []string{"exit code 3", "no licence found in /etc/licence"}},
		"hangs at start":       {mode: []string{"hang"}, change: brief, reason: ReasonSilent, retried: true, says: []string{"handshake", "1s"}},
		"ends without a word":  {change: func(s *Spec, _ *Options) { s.Command, s.Args = "/bin/true", nil }, reason: ReasonDied, retried: true, says: []string{"exit code 0", "is it a Slipway plugin?"}},
		"waits without a word": {change: func(s *Spec, o *Options) { s.Command, s.Args = "/bin/cat", nil; brief(s, o) }, reason: ReasonSilent, retried: true, says: []string{"1s", "is it a Slipway plugin?"}},
		"prints garbage":       {mode: []string{"print=hello world"}, reason: ReasonHandshake, says: []string{`"hello world"`, "no handshake"}},
		"prints an empty line": {mode: []string{"print="}, reason: ReasonHandshake, says: []string{"no handshake"}},
		"closes stdout":        {mode: []string{"close-stdout"}, change: func(_ *Spec, o *Options) { o.attributeGrace = 100 * time.Millisecond }, reason: ReasonHandshake, says: []string{"closed its stdout", "is it a Slipway plugin?"}},
		"next version":         {mode: []string{"print=1|2|unix|/tmp/x|grpc|"}, reason: ReasonVersion, says: []string{`"2"`, "this host speaks 1", "upgrade this host"}},
		"older version":        {mode: []string{"print=1|0|unix|/tmp/x|grpc|"}, reason: ReasonVersion, says: []string{"upgrade the plugin"}},
		"another core":         {mode: []string{"print=2|1|unix|/tmp/x|grpc|"}, reason: ReasonVersion, says: []string{"core protocol 2"}},
		"not by gRPC":          {mode: []string{"print=1|1|unix|{dir}/x|netrpc|"}, reason: ReasonHandshake, says: []string{"not acceptable"}},
		"serves nowhere": {mode: []string{"print=1|1|unix|{dir}/x|grpc|"}, change: func(_ *Spec, o *Options) { o.attributeGrace = 100 * time.Millisecond }, reason: ReasonCall, retried: true,
			says: []string{"socket of its handshake", "no such file"}},
		"serves something else": {mode: []string{"speaks=HTTP/1.1 400 Bad Request\r\n\r\n"}, change: func(_ *Spec, o *Options) { o.attributeGrace = 100 * time.Millisecond }, reason: ReasonCall, retried: true,
			says: []string{"socket of its handshake", "answers in gRPC"}},
		"serves at another's socket": {mode: []string{"print=1|1|unix|/run/docker.sock|grpc|"}, reason: ReasonHandshake,
			says: []string{"/run/docker.sock", "no unix socket in the directory"}},
		"no cookie": {mode: []string{"no-cookie"}, reason: ReasonDied, says: []string{"exit code 64", "a host starts it"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := launch(t, c.mode, func(s *Spec, o *Options) {
				if c.change != nil {
					c.change(s, o)
				}
				if c.retried {
					o.OpenAfter = 1 // else tried again: the others never are
				}
			})
			err := failure(t, p)
			if err.Reason != c.reason {
				t.Errorf("reason %s, want %s", err.Reason, c.reason)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the error does not say %q:\n%v", text, err)
				}
			}
			_, got := p.Session(context.Background())
			if sdk.ClassOf(got) != sdk.Unavailable || !errors.Is(got, c.reason) {
				t.Errorf("Session: class %q, reason matches %v: %v", sdk.ClassOf(got), errors.Is(got, c.reason), got)
			}
			if e, ok := errors.AsType[*sdk.Error](got); !ok || e.RetryAfter <= 0 || e.RetryAfter > time.Hour {
				t.Errorf("Session's error has no time to retry after: %+v", e)
			}
			if n := p.State().Restarts; n != 0 {
				t.Errorf("%d restarts while the circuit is open", n)
			}
		})
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		mode []string
		err  error
		says string
	}{
		"by the host":   {err: errors.New("settings of the test: wrong"), says: "\": settings of the test: wrong"},
		"by the plugin": {mode: []string{"refuse"}, says: "the address is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := launch(t, c.mode, func(s *Spec, _ *Options) {
				s.Configure = func(context.Context, sdk.PluginInfo) (sdk.Block, []sdk.Block, error) { return sdk.Block{}, nil, c.err }
			})
			err := failure(t, p)
			if err.Reason != ReasonConfig || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", err.Reason, err)
			}
			if c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("the cause is lost: %v", err)
			}
			if c.err == nil && !errors.Is(err, sdk.ReasonConfig) {
				t.Errorf("the plugin's reason is lost: %v", err)
			}
		})
	}
}

func TestDeathWhileConfigured(t *testing.T) {
	p, _ := launch(t, []string{"die-configuring"}, func(_ *Spec, o *Options) { o.OpenAfter = 1 })
	err := failure(t, p)
	if err.Reason != ReasonDied || err.Exit == nil || err.Exit.Code != 5 || !strings.Contains(err.Error(), "cannot bear these settings") {
		t.Errorf("%s, exit %+v: %v", err.Reason, err.Exit, err)
	}
}

func TestASocketPathThatIsTooLong(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	p, _ := launch(t, nil, func(_ *Spec, o *Options) { o.TempDir = long })
	if err := failure(t, p); err.Reason != ReasonDirectory || !strings.Contains(err.Error(), "too long") {
		t.Errorf("%s: %v", err.Reason, err)
	}
}

func TestAnOpenCircuitIsClosedByRestart(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "flag")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := launch(t, []string{"exit-if=" + flag}, func(_ *Spec, o *Options) { o.OpenAfter = 3 })
	if err := failure(t, p); !errors.Is(err, ReasonDied) {
		t.Fatal(err)
	}
	if n := p.State().Restarts; n != 2 {
		t.Errorf("circuit opened after %d restarts, want 2", n)
	}
	p.Restart() // exits are counted anew
	await(t, p, "circuit that opens again after three", func(r Report) bool { return r.State == StateOpen && r.Epoch > 3 })
	if n := p.State().Epoch; n != 6 {
		t.Errorf("circuit opened again at epoch %d, want 6", n)
	}
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	p.Restart()
	await(t, p, "session", func(r Report) bool { return r.State == StateReady })
	if s := session(t, p); s.Epoch != 7 || s.Info.Name != "misbehave" || s.Info.Version != "1.2.3" {
		t.Errorf("session: %+v", s)
	}
}

func TestAnOpenCircuitIsProbed(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "flag")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, l := launch(t, []string{"exit-if=" + flag}, func(_ *Spec, o *Options) {
		o.OpenAfter, o.OpenFor, o.StableAfter = 2, 50*time.Millisecond, 50*time.Millisecond
	})
	await(t, p, "failed probe", func(r Report) bool { return r.State == StateOpen && r.Epoch >= 3 })
	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	await(t, p, "session after a probe", func(r Report) bool { return r.State == StateReady && r.Err == nil })
	r := p.State()
	if r.LastExit == nil || r.LastExit.Code != 4 {
		t.Errorf("last exit: %+v", r.LastExit)
	}
	opened := func() (n int) {
		lines, _ := l.snapshot()
		for _, line := range lines {
			if line["msg"] == "plugin does not run; it is tried again now and then" {
				n++
			}
		}
		return n
	}
	before := opened()
	if err := unix.Kill(r.PID, unix.SIGKILL); err != nil { // after stable times one exit is but one
		t.Fatal(err)
	}
	await(t, p, "next session", func(next Report) bool { return next.State == StateReady && next.Epoch == r.Epoch+1 })
	if n := opened(); n != before {
		t.Error("one exit opened the circuit again")
	}
}
