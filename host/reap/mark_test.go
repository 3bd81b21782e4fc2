package reap

import (
	"strings"
	"testing"
	"time"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rules = Rules{Grace: 5 * time.Minute, Failed: 120 * time.Hour, Abandoned: 24 * time.Hour}
)

func container(id string) Thing { return Thing{Container, id} }
func volume(id string) Thing    { return Thing{Volume, id} }

func find(t *testing.T, verdicts []Verdict, what Thing) Verdict {
	t.Helper()
	for _, v := range verdicts {
		if v.Thing == what {
			return v
		}
	}
	t.Fatalf("no verdict of %v in %v", what, verdicts)
	return Verdict{}
}

// TestContainers: what holds a container, and for how long.
func TestContainers(t *testing.T) {
	ago := func(d time.Duration) time.Time { return start.Add(-d) }
	going, ended := Owner{Name: "run r", Active: true}, Owner{Name: "run r", Ended: true, Idle: ago(time.Hour)}
	idle := func(d time.Duration) Owner { return Owner{Name: "run r", Idle: ago(d)} }
	for name, c := range map[string]struct {
		record ContainerRecord
		owner  *Owner
		renew  time.Duration // before now the clock was set; 0: never
		want   Action
		at     time.Duration // from now
		reason string
	}{
		"of a run under way":               {ContainerRecord{State: There}, &going, 0, Keep, 0, "run r is under way"},
		"of an owner who is no run":        {ContainerRecord{State: There}, nil, 0, Keep, 0, "o has not destroyed it"},
		"used not long ago":                {ContainerRecord{State: There, TTL: 2 * time.Hour, Used: ago(time.Hour)}, nil, 0, Keep, time.Hour, "when nobody has used it for 2h"},
		"not used for its TTL":             {ContainerRecord{State: There, TTL: 2 * time.Hour, Used: ago(2 * time.Hour)}, nil, 0, Destroy, 0, "o has not used it for 2h"},
		"not used, and something runs":     {ContainerRecord{State: There, TTL: 2 * time.Hour, Used: ago(9 * time.Hour), Running: true}, nil, 0, Keep, 0, "something runs in it"},
		"not used, the clock jumps":        {ContainerRecord{State: There, TTL: 2 * time.Hour, Used: ago(9 * time.Hour)}, nil, time.Hour, Keep, time.Hour, "when nobody"},
		"of a run, with a TTL":             {ContainerRecord{State: There, TTL: time.Hour, Used: ago(9 * time.Hour)}, &going, 0, Keep, 0, "run r is under way"},
		"of an ended run":                  {ContainerRecord{State: There}, &ended, 0, Destroy, 0, "run r has ended"},
		"failed, of an ended run":          {ContainerRecord{State: There, Kept: true}, &ended, 0, Keep, 119 * time.Hour, "kept to be looked at"},
		"failed long ago":                  {ContainerRecord{State: There, Kept: true}, &Owner{Name: "run r", Ended: true, Idle: ago(120 * time.Hour)}, 0, Destroy, 0, "command failed"},
		"failed long ago, the clock jumps": {ContainerRecord{State: There, Kept: true}, &Owner{Name: "run r", Ended: true, Idle: ago(120 * time.Hour)}, time.Hour, Keep, 119 * time.Hour, "command failed"},
		"failed after now":                 {ContainerRecord{State: There, Kept: true}, &Owner{Name: "run r", Ended: true, Idle: ago(-time.Hour)}, 0, Keep, 120 * time.Hour, "command failed"},
		"of a run that can be resumed":     {ContainerRecord{State: There}, new(idle(23 * time.Hour)), 0, Keep, time.Hour, "can be resumed"},
		"of an abandoned run":              {ContainerRecord{State: There}, new(idle(25 * time.Hour)), 0, Destroy, 0, "nobody has resumed run r for 24h"},
		"being made":                       {ContainerRecord{State: Making, Busy: true}, nil, 0, Keep, 0, "being made"},
		"half made":                        {ContainerRecord{State: Making}, nil, 0, Destroy, 0, "never finished"},
		"half made of a run under way":     {ContainerRecord{State: Making}, &going, 0, Destroy, 0, "never finished"},
		"to be destroyed":                  {ContainerRecord{State: Going}, &going, 0, Destroy, 0, "to be destroyed"},
	} {
		t.Run(name, func(t *testing.T) {
			c.record.ID, c.record.Owner = "c", "o"
			s := Snapshot{Now: start, Rules: rules, Containers: []ContainerRecord{c.record}, Owners: make(map[string]Owner),
				Listed: map[Thing]Listed{container("c"): {}}}
			if c.owner != nil {
				s.Owners["o"] = *c.owner
			}
			if c.renew != 0 {
				s.Renewed = ago(c.renew)
			}
			verdicts, sights := Mark(s)
			v := find(t, verdicts, container("c"))
			if v.Action != c.want || !strings.Contains(v.Reason, c.reason) {
				t.Errorf("%s (%s), want %s (%s)", v.Action, v.Reason, c.want, c.reason)
			}
			if c.at == 0 && !v.At.IsZero() || c.at != 0 && !v.At.Equal(start.Add(c.at)) {
				t.Errorf("goes at %v, want in %v", v.At, c.at)
			}
			if len(sights) != 0 {
				t.Errorf("odd: %v", sights)
			}
		})
	}
}

// TestVolumes: what holds a volume.
func TestVolumes(t *testing.T) {
	active, idle, ended := Owner{Name: "run r", Active: true}, Owner{Name: "run r", Idle: start}, Owner{Name: "run r", Ended: true, Idle: start}
	over := ContainerRecord{ID: "c", Owner: "o", State: Over, Since: start}
	there := ContainerRecord{ID: "c", Owner: "o", State: There, Since: start}
	going := ContainerRecord{ID: "c", Owner: "o", State: Going, Since: start}
	keep := 12 * time.Hour
	for name, c := range map[string]struct {
		record    VolumeRecord
		container *ContainerRecord
		owner     *Owner
		artifact  *Artifact
		want      Action
		reason    string
	}{
		"to be destroyed":                    {VolumeRecord{State: Going}, nil, nil, nil, Destroy, "to be destroyed"},
		"being filled":                       {VolumeRecord{State: There, Artifact: "a", Busy: true}, nil, nil, &Artifact{}, Keep, "being filled"},
		"half made":                          {VolumeRecord{State: Making, Artifact: "a"}, nil, nil, &Artifact{}, Destroy, "never filled"},
		"half filled":                        {VolumeRecord{State: There, Artifact: "a"}, nil, nil, &Artifact{}, Destroy, "never filled"},
		"of a container that stays":          {VolumeRecord{State: There, Container: "c"}, &there, &active, nil, Keep, "run r is under way"},
		"of a container that goes":           {VolumeRecord{State: There, Container: "c"}, &there, &ended, nil, Destroy, "run r has ended"},
		"of no container":                    {VolumeRecord{State: There, Container: "c"}, nil, nil, nil, Destroy, "its container c is gone"},
		"left, its run is under way":         {VolumeRecord{State: There, Container: "c"}, &over, &active, nil, Keep, "under way"},
		"left, its run can be resumed":       {VolumeRecord{State: There, Container: "c"}, &over, &idle, nil, Keep, "can be resumed"},
		"left, its run has ended":            {VolumeRecord{State: There, Sealed: true, Container: "c"}, &over, &ended, nil, Destroy, "has ended"},
		"left, of an owner who may seal it":  {VolumeRecord{State: There, Container: "c"}, &over, nil, nil, Keep, "may still want"},
		"being sealed, its run is under way": {VolumeRecord{State: There, Container: "c"}, &going, &active, nil, Keep, "under way"},
		"being sealed, its run can go on":    {VolumeRecord{State: There, Container: "c"}, &going, &idle, nil, Keep, "can be resumed"},
		"being sealed by another owner":      {VolumeRecord{State: There, Container: "c"}, &going, nil, nil, Keep, "may still want"},
		"in the way of an ended run":         {VolumeRecord{State: There, Container: "c"}, &going, &ended, nil, Destroy, "has ended"},
		"given up with its container":        {VolumeRecord{State: Going, Container: "c"}, &going, &active, nil, Destroy, "to be destroyed"},
		"of an artifact that was removed":    {VolumeRecord{State: There, Sealed: true, Artifact: "a"}, nil, nil, nil, Destroy, "removed"},
		"of an artifact that somebody holds": {VolumeRecord{State: There, Sealed: true, Artifact: "a"}, nil, nil, &Artifact{Held: "run r is under way", Since: start.Add(-2 * keep), Keep: keep}, Keep, "under way"},
		"of an artifact that stays":          {VolumeRecord{State: There, Sealed: true, Artifact: "a"}, nil, nil, &Artifact{Name: "n"}, Keep, "artifact n does not expire"},
		"of an artifact that will expire":    {VolumeRecord{State: There, Sealed: true, Artifact: "a"}, nil, nil, &Artifact{Name: "n", Since: start, Keep: keep}, Keep, "artifact n expires"},
		"of an artifact that has expired":    {VolumeRecord{State: There, Sealed: true, Artifact: "a"}, nil, nil, &Artifact{Name: "n", Since: start.Add(-keep), Keep: keep}, Destroy, "artifact n has expired"},
		"of nothing":                         {VolumeRecord{State: There, Sealed: true}, nil, nil, nil, Destroy, "belongs to nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			c.record.ID = "v"
			s := Snapshot{Now: start, Rules: rules, Volumes: []VolumeRecord{c.record}, Owners: make(map[string]Owner),
				Artifacts: make(map[string]Artifact), Listed: map[Thing]Listed{volume("v"): {}, container("c"): {}}}
			if c.container != nil {
				s.Containers = append(s.Containers, *c.container)
			}
			if c.owner != nil {
				s.Owners["o"] = *c.owner
			}
			if c.artifact != nil {
				s.Artifacts["a"] = *c.artifact
			}
			verdicts, _ := Mark(s)
			v := find(t, verdicts, volume("v"))
			if v.Action != c.want || !strings.Contains(v.Reason, c.reason) {
				t.Errorf("%s (%s), want %s (%s)", v.Action, v.Reason, c.want, c.reason)
			}
		})
	}
}

// TestLeft: what a container left is wanted for as long as its owner may make artifacts of it.
func TestLeft(t *testing.T) {
	since := func(d time.Duration) time.Time { return start.Add(-d) }
	for name, c := range map[string]struct {
		state State
		since time.Duration
		owner *Owner
		want  bool
	}{
		"of an owner who may seal it":     {Over, 23 * time.Hour, nil, false},
		"of an owner who has not":         {Over, 24 * time.Hour, nil, true},
		"of a run under way":              {Over, 48 * time.Hour, &Owner{Active: true}, false},
		"of a run that can be resumed":    {Over, 48 * time.Hour, &Owner{Idle: since(48 * time.Hour)}, false},
		"of a run that has ended":         {Over, 0, &Owner{Ended: true, Idle: start}, true},
		"of a run that is just ending":    {Over, 0, &Owner{Ended: true, Active: true, Idle: start}, false},
		"of a container that still goes":  {Going, 48 * time.Hour, &Owner{Ended: true, Idle: start}, false},
		"of a container that is there":    {There, 48 * time.Hour, &Owner{Ended: true, Idle: start}, false},
		"of a going one of another owner": {Going, 48 * time.Hour, nil, false},
	} {
		s := Snapshot{Now: start, Rules: rules, Owners: make(map[string]Owner)}
		if c.owner != nil {
			s.Owners["o"] = *c.owner
		}
		if got := s.Left(ContainerRecord{ID: "c", Owner: "o", State: c.state, Since: since(c.since)}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestChildrenFirst: what others are made of goes after them, and stays for as long as one of them does.
func TestChildrenFirst(t *testing.T) {
	s := Snapshot{Now: start, Rules: rules,
		Containers: []ContainerRecord{{ID: "c", State: Going, Uses: []string{"image", "mounted"}}, {ID: "d", Owner: "o", State: There, Uses: []string{"used"}}},
		Volumes: []VolumeRecord{
			{ID: "image", State: Going}, {ID: "mounted", State: Going}, {ID: "used", State: Going},
			{ID: "grandparent", State: Going}, {ID: "parent", State: Going, Parent: "grandparent"}, {ID: "child", State: Going, Parent: "parent"},
		},
		Listed: map[Thing]Listed{container("d"): {}, volume("stranger"): {Parent: "strange"}, volume("strange"): {}},
	}
	verdicts, _ := Mark(s)
	at := make(map[Thing]int)
	for i, v := range verdicts {
		at[v.Thing] = i
	}
	for _, pair := range [][2]Thing{{container("c"), volume("image")}, {container("c"), volume("mounted")}, {volume("child"), volume("parent")}, {volume("parent"), volume("grandparent")}} {
		first, last := find(t, verdicts, pair[0]), find(t, verdicts, pair[1])
		if first.Action != Destroy || last.Action != Destroy || at[pair[0]] >= at[pair[1]] || first.Rank >= last.Rank || len(last.After) != 1 || last.After[0] != pair[0] {
			t.Errorf("%+v before %+v", first, last)
		}
	}
	if v := find(t, verdicts, volume("used")); v.Action != Keep || !strings.Contains(v.Reason, "container d needs it") {
		t.Errorf("what a container has that stays: %+v", v)
	}
	s.Asked, s.Seen = rules.Grace, Sights{volume("strange"): {"unknown", 0}}
	verdicts, _ = Mark(s)
	if v := find(t, verdicts, volume("strange")); v.Action != Keep {
		t.Errorf("though something unknown is a clone of it, within its grace: %+v", v)
	}
}

// TestMissingAndUnknown: what a worker says counts only after the grace and a second look, and one that was not asked says nothing.
func TestMissingAndUnknown(t *testing.T) {
	s := Snapshot{Now: start, Rules: rules, Containers: []ContainerRecord{{ID: "c", Owner: "o", State: There}, {ID: "over", State: Over}},
		Volumes:   []VolumeRecord{{ID: "v", State: There, Sealed: true, Artifact: "a"}, {ID: "mine", State: There, Container: "c"}},
		Artifacts: map[string]Artifact{"a": {Held: "somebody has it"}},
		Listed:    map[Thing]Listed{container("x"): {}, volume("y"): {}, container("over"): {}}}
	want := map[Thing]Action{container("c"): Lose, volume("v"): Lose, volume("mine"): Keep, container("x"): Destroy, volume("y"): Destroy, container("over"): Destroy}
	look := func(at time.Duration, wants bool) {
		t.Helper()
		var verdicts []Verdict
		s.Asked, s.Answered = at, at+rules.Grace/2
		verdicts, s.Seen = Mark(s)
		for thing, a := range want {
			if !wants {
				a = Keep
			}
			if v := find(t, verdicts, thing); v.Action != a {
				t.Errorf("after %s: %+v, want %s", at, v, a)
			}
		}
	}
	look(0, false)
	look(rules.Grace+rules.Grace/2-1, false) // what the worker's answers take is no part of the grace
	s.Now = s.Now.Add(-time.Hour)            // nor has the wall clock one
	look(rules.Grace+rules.Grace/2, true)
	unasked := s
	unasked.Listed, s.Listed = nil, nil
	if verdicts, sights := Mark(unasked); find(t, verdicts, container("c")).Action != Keep || len(sights) != 0 {
		t.Errorf("a worker that was not asked: %v, %v", verdicts, sights)
	}
	s.Listed, s.Seen = map[Thing]Listed{container("x"): {}, volume("y"): {}, container("over"): {}}, nil
	look(10*rules.Grace, false) // at first sight, however late
}
