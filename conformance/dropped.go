package conformance

// DroppedCase is something that suites for other contracts check and this one does not, with the rule of this contract that
// says so.
type DroppedCase struct {
	ID    string // as such a case would be called
	Title string // what others ask for
	Rules []int
	Why   string
}

// Dropped gives what the contract leaves out on purpose, so that nobody adds it by mistake. The slice is the caller's.
func Dropped() []DroppedCase {
	return []DroppedCase{
		{"P07-id-made", "a runtime makes an id where the caller gives none", []int{1}, "ids are the host's, so that a call whose answer was lost can be repeated"},
		{"C03-duplicate-refused", "creating the same thing twice is refused", []int{1}, "with the same token it is the same thing (D01); only another token is refused (D03)"},
		{"D06-spec-compared", "the same id with another spec is a conflict", []int{1}, "specs are never compared; the token says whose thing it is"},
		{"C28-properties", "properties are set, changed and removed later", []int{10}, "labels are set at creation; what changes is the host's to keep"},
		{"C34-time-to-live", "a runtime reaps what nobody used for a while", []int{1}, "only the host knows what is in use; it reaps by leases of its own"},
		{"C22-mount-relative", "a relative mount path is below the container's directory", []int{11}, "the host has resolved all paths when they come to a plugin (C23)"},
		{"A03-fan-out", "several followers get the same output side by side", []int{5}, "the newest follower wins whole (A12); the host's copy serves everyone else"},
		{"A02-follow-from-now", "following delivers what is written from now on", []int{5}, "following delivers from a position, and nothing is skipped (A07)"},
		{"K05-cancel-kills", "a call that is cancelled or times out ends its process", []int{2}, "contexts bound the call, never the process (P12)"},
		{"S07-stop-grace", "a stop sends TERM, waits and sends KILL", []int{8}, "a graceful stop is composed by the host; DestroyContainer kills at once (C07)"},
		{"S04-signal-after-exit-fails", "signalling what has ended is an error", []int{8}, "the race with the end is nobody's error (S04)"},
		{"T04-zero-size", "a terminal of no columns or rows is refused", []int{14}, "zeros mean 80 and 24, at the start and later (T04)"},
		{"T08-at-once", "the end of a terminal's leader ends the process at once", []int{6}, "whoever still holds the terminal has the grace of any output (T08)"},
		{"E09-destroy-missing-fails", "destroying what is not there is NotFound", []int{1}, "destroying is idempotent (E02)"},
		{"V05-destroy-mounted", "destroying a volume that is mounted is refused", []int{9}, "the host never does that, and what happens then is not part of the contract"},
		{"V09-parent-destroyed", "a clone outlives its parent", []int{9}, "the host keeps parents as long as they have living clones"},
		{"R10-plugin-says-lost", "a plugin reports that a process is lost", []int{3}, "that is for the host to say; a plugin tells what a container's own record says"},
	}
}
