package testkit

import (
	"context"
	"testing"
	"time"
)

// fake stands in for a test whose end is looked at.
type fake struct {
	testing.TB
	at      time.Time
	skipped bool
	failed  bool
}

func (f *fake) Helper()                     {}
func (f *fake) Context() context.Context    { return context.Background() }
func (f *fake) Cleanup(func())              {}
func (f *fake) Skip(...any)                 { f.skipped = true }
func (f *fake) Skipf(string, ...any)        { f.skipped = true }
func (f *fake) Fatalf(string, ...any)       { f.failed = true }
func (f *fake) Deadline() (time.Time, bool) { return f.at, !f.at.IsZero() }

// in is a test whose binary has so much time left.
func in(d time.Duration) *fake { return &fake{at: time.Now().Add(d)} }

func TestLackingFailsOnlyUnderCI(t *testing.T) {
	for ci, fails := range map[string]bool{"true": true, "": false} {
		t.Setenv("CI", ci)
		f := &fake{}
		Lacking(f, "a %s", "server")
		if f.failed != fails || f.skipped == fails {
			t.Errorf("CI=%s: failed %v, skipped %v", ci, f.failed, f.skipped)
		}
	}
}

func TestTierIsShort(t *testing.T) {
	f, want := &fake{}, 50
	if testing.Short() {
		want = 2
	}
	Soak(f, "rare")
	if f.skipped != testing.Short() || Times(2, 50) != want {
		t.Errorf("with -short=%v: skipped %v, %d times", testing.Short(), f.skipped, Times(2, 50))
	}
}

func TestWaitsEndBeforeTheBinary(t *testing.T) {
	if Context(in(time.Hour)).Err() != nil || Context(&fake{}).Err() != nil {
		t.Error("a context has ended with time left")
	}
	if Context(in(reserve/2)).Err() == nil {
		t.Error("no time is left to say what did not come")
	}
	if b := Bound(in(time.Hour)); b > time.Hour-reserve || b < time.Hour-2*reserve {
		t.Errorf("of an hour a wait may take %v", b)
	}
	f := in(0)
	asked := 0
	Until(f, "it comes", func() bool { asked++; return asked == 3 })
	if !f.failed {
		t.Error("waiting in vain does not fail")
	}
	f, asked = in(time.Hour), 0
	Until(f, "it comes", func() bool { asked++; return asked == 3 })
	if f.failed || asked != 3 {
		t.Errorf("asked %d times, failed %v", asked, f.failed)
	}
}

func TestScale(t *testing.T) {
	t.Setenv(ScaleEnv, "")
	if Scale(time.Second) != time.Second {
		t.Error("without a scale a second is", Scale(time.Second))
	}
	t.Setenv(ScaleEnv, "2.5")
	if Scale(time.Second) != 2500*time.Millisecond {
		t.Error("at 2.5 a second is", Scale(time.Second))
	}
	t.Setenv(ScaleEnv, "0")
	defer func() {
		if recover() == nil {
			t.Error("a scale of nothing is taken")
		}
	}()
	TimeScale()
}

func TestLeaksAreSeen(t *testing.T) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { <-stop; close(ended) }()
	if err := leaksWithin(time.Millisecond); err == nil {
		t.Error("a goroutine that waits for ever is not seen")
	}
	close(stop)
	<-ended
	if err := leaksWithin(leakGrace); err != nil {
		t.Error("a goroutine that has ended:", err)
	}
}

func TestMain(m *testing.M) { Main(m) }

func TestWaitsInABubbleEnd(t *testing.T) {
	began := time.Now()
	Bubble(t, func(t testing.TB) {
		if took := Bound(t); took != bubbleTime-reserve {
			t.Errorf("a wait may take %v", took)
		}
		at, _ := deadline(t)
		f := &fake{at: at.Add(reserve)}
		Until(f, "it comes", func() bool { return f.failed }) // it asks again and again, which takes time
		if !f.failed {
			t.Error("waiting in vain does not fail")
		}
	})
	if took := time.Since(began); took > bubbleTime/2 {
		t.Errorf("hours of a bubble took %v", took)
	}
}
