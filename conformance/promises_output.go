package conformance

// outputRules are about what a running process says and hears, and how it ends.
func outputRules() []Rule {
	return []Rule{
		{5, "Output", "Output is one journal for each process: exact per stream, in the order observed across streams, bytes and not lines. Only acknowledged bytes may be dropped, unless the process was started so that the oldest make room. The newest follower wins whole.", []Promise{
			plugin("a", `Every byte of stdout and of stderr is delivered once, in order and as it was written, whatever its value and however much there is. The two are told apart; all of a terminal's output is stdout.`),
			plugin("b", `What is written to stdout and stderr by turns comes in that order. One loop that waits for both pipes, and reads each as soon as it has something, will do; what is written within the same moment may come either way round.`),
			plugin("c", `Output is delivered as it comes, not by lines, however long the process was silent before.`),
			plugin("d", `Following from a position delivers exactly what comes from there on, in records of 1 byte to 256 KiB of which each begins where the one before ended. It goes on so after the plugin was killed.`),
			plugin("e", `A position that is negative or beyond the end of the journal is Invalid (spec).`),
			plugin("f", `What was not acknowledged is delivered again to every later follower, also after the exit.`),
			plugin("g", `To follow from a position acknowledges all before it. Acknowledgements are cumulative: a smaller one, and one beyond what was delivered, changes nothing.`),
			plugin("h", `A writer whose unacknowledged output has reached the spill waits, and loses nothing. With drop-oldest it goes on, and a gap stands for exactly the bytes that were dropped.`),
			plugin("i", `Following from a position below what was acknowledged and dropped is FailedPrecondition (output-gap) with the first position kept. From a position that was never acknowledged and that drop-oldest has dropped, it begins with a gap.`),
			plugin("j", `The newest follower of a process wins whole. The older one ends with FailedPrecondition (superseded), and its acknowledgements no longer count.`),
			plugin("k", `A follower ends well once the exit was delivered and the last position acknowledged, and not before: one that acknowledges no more, its side of the call closed or not, is kept until the call is cancelled.`),
			plugin("l", `Processes do not wait for each other's followers, and what they write never mixes.`),
			plugin("m", `A follower hears first where it stands: the state, and how much of stdin was taken. Its callbacks come one after another, and none after the call has returned.`),
			host("n", `The host acknowledges only what it has stored for good.`),
		}},
		{6, "Exit", "The exit comes when the leader has ended and its output is at its end, or two seconds later. Every journalled byte comes before it and none after. It is written once and told as long as the container lives.", []Promise{
			plugin("a", `The exit comes when the leader has ended and its output is at its end, or two seconds after the leader's end; what is written later is thrown away, and the exit says that output was cut.`),
			plugin("b", `What the pipes held when those two seconds were over, and waits for room in a full journal, is not late: it is journalled, and the exit waits for it.`),
			plugin("c", `Every journalled byte is delivered before the exit, and none after it.`),
			plugin("d", `The exit says how the leader ended: its own code from 0 to 255, or 128 plus the number of the signal that ended it and that signal's name. The code is 0 only where it exited with 0.`),
			plugin("e", `The exit is told to everyone who asks for as long as the container lives, also after the plugin was killed, and never changes.`),
			plugin("f", `Children that outlive the leader, with its output closed, delay no exit, and orphans that end are no exit and leave no zombie.`),
			plugin("g", `A container takes 4096 processes in its life. The next one is FailedPrecondition (processes).`),
			plugin("h", `The exit comes whether or not stdin was read.`),
			plugin("i", `Where exit.oom is named, a process that memory ran out for exits as out-of-memory and never with 0, and its container goes on.`),
		}},
		{7, "Stdin", "The runtime counts the stdin that it took over all followers and gives each follower that has stdin a generation. The end of stdin is said, and never inferred from a lost connection.", []Promise{
			plugin("a", `Stdin reaches the process byte for byte, in order and as it comes, however much there is.`),
			plugin("b", `The process sees the end of stdin once that was said, and what it writes after that is delivered.`),
			plugin("c", `Nothing else ends stdin: not an error of the source, not a lost connection, not a half-closed call, not a follower without stdin.`),
			plugin("d", `A process that was started without stdin sees its end at once. What a follower brings is thrown away.`),
			plugin("e", `What was taken is counted over all followers, from the process's start and over a restart of the plugin: stdin that goes on from that count neither repeats nor skips a byte.`),
			plugin("f", `Each follower with stdin has a greater generation than those before it, and bytes of an older generation are refused.`),
			plugin("g", `Stdin that comes after its end was said changes nothing.`),
			plugin("h", `No more than 1 MiB of stdin is sent beyond what was taken.`),
		}},
		{8, "Signals and the end", "Signals go to the leader's process group and KILL to its whole tree; after the exit they do nothing. DestroyContainer kills at once, and is done only when nothing of the container can write any more.", []Promise{
			plugin("a", `A signal reaches every process of the leader's process group, and no other process of the container. One call sends it once at most.`),
			plugin("b", `KILL ends the leader and all that descends from it, also in sessions of their own and where a process between has ended, whatever they wait for. It needs nothing of the image.`),
			plugin("c", `After the exit a signal succeeds and does nothing.`),
			plugin("d", `A signal other than HUP, INT, QUIT, KILL, USR1, USR2, TERM, CONT and STOP is Invalid (signal), and nothing is sent.`),
			plugin("e", `STOP halts a process and CONT lets it go on. Neither is an end.`),
			plugin("f", `DestroyContainer kills at once what runs in the container, and returns only when nothing of it can write any more.`),
			plugin("g", `A follower of a process in a container that is destroyed ends with NotFound of the container.`),
			plugin("h", `While its container is being destroyed, a call succeeds, is FailedPrecondition (dead), Unavailable, or NotFound of the container; afterwards it is NotFound of the container.`),
			plugin("i", `ResizeProcess sets the size of a terminal. For a process without one it is FailedPrecondition; after the exit it succeeds and does nothing.`),
			host("j", `A graceful stop is composed by the host: TERM, a time for the process to end, DestroyContainer. A signal whose call ended as Unavailable is sent again, so a process may hear of it twice.`),
			plugin("k", `Between the leader's end and the exit, KILL ends what the leader has left and another signal reaches what is left of its group. With nothing left they succeed.`),
		}},
	}
}
