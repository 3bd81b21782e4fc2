package conformance

// DroppedCase is something that suites for other contracts check and this one does not, or checks differently, with the promise of this
// contract that says so.
type DroppedCase struct {
	ID       string // as such a case would be called
	Title    string // what others ask for
	Promises []string
	Why      string // with the case, in brackets, that is there instead
}

// Dropped gives what the contract leaves out on purpose, so that nobody adds it by mistake. The slice is the caller's.
func Dropped() []DroppedCase {
	return []DroppedCase{
		{"W06-ready", "a worker is first not ready, then ready", []string{"4c"}, "a status tells health with a reason at any time, and nothing is dialled before it is needed (W06, W29)"},
		{"W09-max-containers", "at a worker's bound the next container is refused, and one destroyed makes room for one", []string{"14a"}, "how many there may be is for the host's leases to keep; a worker may say Exhausted whenever it likes"},
		{"W11-paging", "lists come in pages, with tokens", []string{"10d"}, "lists are streams; what lives through one is in it once (W22, W24)"},
		{"P07-id-made", "a runtime makes an id where the caller gives none", []string{"1j"}, "ids are the host's, so that a call whose answer was lost can be repeated"},
		{"C02-ids-distinct", "ids that a runtime makes are all different", []string{"1j"}, "it makes none"},
		{"C03-duplicate-refused", "creating the same thing twice is refused", []string{"1b"}, "with the same token it is the same thing (D01); only another token is refused (D03)"},
		{"C05-lookup", "looking a thing up by its id", []string{"10c"}, "a list by id is the look-up (E02, W10)"},
		{"C10-find-or-create", "of twenty callers that want a container for one owner all get the same", []string{"1b", "1d"}, "whose container it is is the host's to know; the runtime sees tokens (D01, D02)"},
		{"C11-missing-in-runtime", "a container that the host knows and the runtime lost is NotFound", []string{"4g"}, "that is a worker's incarnation and the host's grace; the call itself is E02"},
		{"C13-env-merge", "the environment of image, container and process are merged", []string{"13g"}, "the host merges them and sends the result with each start (P18, P36)"},
		{"C14-dir-refused", "a directory that is missing or somebody else's is an error", []string{"11c"}, "it is made where missing, as the user's own (P19, P27, P32)"},
		{"C24-mount-in-equals-out", "an input and an output at one path are one volume with two mounts", []string{"11a"}, "the host makes one mount of them; two at one path are Invalid (C23)"},
		{"C25-mount-written-shared", "two containers that write one volume see each other's writes", []string{"9x"}, "the host mounts an open volume writable in one container at a time; sealed ones are shared (C25)"},
		{"C26-mount-destroyed", "mounting a destroyed volume is FailedPrecondition", []string{"9h"}, "it is NotFound of that volume (C26)"},
		{"D06-spec-compared", "the same id with another spec is a conflict", []string{"1b"}, "specs are never compared; the token says whose thing it is"},
		{"C28-properties", "properties are set, changed, listed and removed later, large ones and by many at once", []string{"10a"}, "labels are set at creation; what changes is the host's to keep (W19, W20)"},
		{"C34-time-to-live", "a runtime reaps what nobody used for a while", []string{"10f"}, "only the host knows what is in use; it reaps by leases of its own"},
		{"C22-mount-relative", "a relative mount path is below the container's directory", []string{"11i"}, "the host has resolved all paths when they come to a plugin (C23)"},
		{"P11-wait-many", "many wait for one process at once", []string{"5j"}, "the newest follower wins whole (A12), and the exit is told as often as somebody asks (A05)"},
		{"A03-fan-out", "several followers get the same output side by side", []string{"5j"}, "the newest follower wins whole (A12); the host's copy serves everyone else"},
		{"A08-slow-attacher", "a slow follower does not hold up a fast one of the same process", []string{"5j", "5l"}, "there is one at a time; it does not hold up other processes (I13)"},
		{"A02-follow-from-now", "following delivers what is written from now on", []string{"5d"}, "following delivers from a position, and nothing is skipped (A07)"},
		{"K05-cancel-kills", "a call that is cancelled or times out ends its process", []string{"2c"}, "contexts bound the call, never the process (P12)"},
		{"K06-zero-timeout", "a timeout of zero means none", []string{"2a"}, "there are no timeouts beside contexts"},
		{"I10-stdin-lost-closes", "an error of the caller's stdin closes that of the process", []string{"7c"}, "the end of stdin is said, never inferred (I10)"},
		{"S07-stop-grace", "a stop sends TERM, waits and sends KILL", []string{"8j"}, "a graceful stop is composed by the host; DestroyContainer kills at once (C07)"},
		{"S09-first-process", "a container's own first process is stopped", []string{"8a"}, "signals go to processes that were started (S11); the container's end is DestroyContainer"},
		{"S04-signal-after-exit-fails", "signalling what has ended is an error", []string{"8c"}, "the race with the end is nobody's error (S04)"},
		{"T04-zero-size", "a terminal of no columns or rows is refused", []string{"8i"}, "zeros mean 80 and 24, at the start and later (T04)"},
		{"T08-at-once", "the end of a terminal's leader ends the process at once", []string{"6a"}, "whoever still holds the terminal has the grace of any output (T08)"},
		{"E09-destroy-missing-fails", "destroying what is not there is NotFound", []string{"1e"}, "destroying is idempotent (E02)"},
		{"V02-same-spec", "the same spec twice is the same volume", []string{"1b"}, "the same token is (D01)"},
		{"V05-destroy-mounted", "destroying a volume that is mounted is refused", []string{"9x"}, "the host never does that, and what happens then is not part of the contract"},
		{"V09-parent-destroyed", "a clone outlives its parent", []string{"9x"}, "the host keeps parents as long as they have living clones (V29 is the other direction)"},
		{"V19-orphan-layers", "a runtime finds and removes layers that nobody owns", []string{"9w"}, "what a plugin makes for itself dies with its container; all else is listed, and the host's to reap"},
		{"F20-changing-source", "a tree that is written while it streams out gives a whole archive or an error", []string{"9b"}, "only sealed volumes are streamed to anybody who relies on it"},
		{"F23-into-running", "what streams into a mounted volume is seen by running processes", []string{"9x"}, "the host streams only into volumes that nothing mounts"},
		{"Z04-swap-race", "a process swaps directories for links while an archive is unpacked beside it", []string{"9x"}, "the host streams only into volumes that nothing mounts; links of earlier archives are Z02, of mounts Z11"},
		{"H01-snapshots", "snapshots are made by name, restored and deleted", []string{"9b"}, "sealing is the snapshot and cloning the restoration (V06, V07, V22)"},
		{"M03-events", "containers and processes tell of their lives in a stream of events", []string{"3c"}, "a process is followed, all else is listed; only workers come and go by events (W07)"},
		{"M01-usage", "what a container uses is told as long as it lives", []string{"14f"}, "no host asks for it, so the contract has no call for it"},
		{"M02-usage-of-many", "what many containers use is told in one call, though one of them is missing", []string{"14f"}, "no host asks for it, for one or for many"},
		{"R08-reboot", "after the machine's restart containers are listed as stopped", []string{"3h", "4b"}, "a container that is gone is abandoned or not there, and a new incarnation says so (R01, R02, C38)"},
		{"R09-clock", "a clock that jumps reaps nothing", []string{"12b"}, "a plugin reaps nothing, and its times are for display; leases are the host's"},
		{"R10-plugin-says-lost", "a plugin reports that a process is lost", []string{"3l"}, "that is for the host to say; a plugin tells what a container's own record says"},
		{"N08-throughput", "sixteen callers get through four times as much as one", []string{"5l"}, "the contract has no speeds; what must not wait for what is checked without a clock (I13, F46)"},
	}
}

// ElsewhereCase is something that this suite does not check, for another place does, or none yet.
type ElsewhereCase struct {
	ID    string
	Title string
	Where string
}

// Elsewhere gives what is checked in another place: most of it is no affair of a plugin, or cannot be seen from a worker. The slice is the
// caller's.
func Elsewhere() []ElsewhereCase {
	const launch, host = "tests of host/launch, with real programs", "the host's own tests"
	return []ElsewhereCase{
		{"W01-handshake", "cookie, handshake and version of the protocol, in time; without a cookie a hint", launch},
		{"W04-stdout", "nothing that a plugin prints breaks its connection", launch},
		{"W05-info", "a plugin's name, version and settings", launch},
		{"W12-config", "an unknown setting is named with its place", "tests of sdk and of each plugin's settings"},
		{"W13-shutdown", "a plugin ends when its host does, at a stop and at a crash, and leaves no process", launch},
		{"W15-reattach", "a host that comes back finds its containers, and never mistakes a process number", "plugins keep nothing in their process (R01 to R18); the host's tests of recovery"},
		{"W17-state-lock", "two plugins on one state directory", "tests of each plugin that has one"},
		{"O01-pools", "environments and their runners: claims, refills, deadlines, restarts", host},
		{"F18-size-limit", "bounds on bytes sent and unpacked; bombs", "tests of host/stream, which sees every byte between workers"},
		{"V17-uid-remap", "volumes of privileged and of mapped containers", "tests of the plugins that name privileged"},
		{"R04-network", "calls that are under way when a server behind a worker is cut off", "tests of the plugins that have one; what the status tells is W29, where the target has Away"},
		{"R05-state-damaged", "a state directory that is cut, full, read-only or of another version", "tests of the plugins that have one, and of sdk/keeper"},
		{"E07-panic", "a panic in a plugin's method is Internal, and the plugin lives on", "tests of sdk/rpc; and of every case here, of a runtime in this process"},
		{"Y01-declared", "what is named works", "the cases that need the feature"},
		{"B04-peer-unreachable", "a peer that cannot be reached, and one that dies in the middle of a stream", "tests of the plugins that name peer.stream, with real servers; the host's own, of the way back over itself"},
		{"Z11-capabilities", "capabilities, system calls and masked files of a container", "not yet: the contract promises none"},
		{"V12-clone-metadata", "modes and owners that are changed in a clone", "not yet: WASI has no such calls; tests of the plugins' stores"},
		{"E03-wire-unknown", "messages with fields and values that nobody knows", "tests of sdk/rpc"},
		{"N06-linearizable", "recorded histories of creations and destructions have an order", "not yet; the races that a host meets are D02, D04, D05, N03, N04"},
		{"b01-benchmarks", "how long things take", "benchmarks beside the code: `make bench`"},
	}
}
