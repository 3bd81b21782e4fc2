package conformance

// startRules say what a thing is, what bounds a call, and what becomes of what was started.
func startRules() []Rule {
	return []Rule{
		{1, "Identity", "The host makes every id and gives each creation a random token. The same id with the same token is the same thing, another token is AlreadyExists, and destroying what is gone succeeds.", []Promise{
			plugin("a", `An id of 1 to 48 of a-z, 0-9 and "-", neither first nor last a "-", and a token of 1 to 128 printable ASCII bytes without a space are taken. Any other is Invalid (spec), and nothing is made.`),
			plugin("b", `Creating a volume or a container again with its id and token succeeds, and there is still one of it. Nothing else of the two calls is compared.`),
			plugin("c", `What a creation has left half made, because it failed, was given up, or the plugin was killed under it, is completed by the same call and removed by destroying it.`),
			plugin("d", `The same id with another token is AlreadyExists and leaves the first thing as it was, also when both calls come at the same moment.`),
			plugin("e", `Destroying a volume or a container succeeds in whatever state it is, if it is not there, and if several calls destroy it at once.`),
			plugin("f", `When destroying has succeeded, the thing is in no list any more, and nothing else was destroyed.`),
			plugin("g", `When creating has succeeded, the thing is listed as open or ready, and a container takes processes.`),
			plugin("h", `Creating and destroying one id at the same moment leaves the whole thing or nothing.`),
			plugin("i", `A start that was Invalid leaves no record: the same id and token can be started afterwards.`),
			host("j", `The host makes every id and uses it once, for ever.`),
		}},
		{2, "Contexts", "A context, on the wire the call's deadline and cancellation, bounds the call and never the process.", []Promise{
			plugin("a", `A call ends soon after its context has ended, whatever it is waiting for.`),
			plugin("b", `A call whose context had ended before it began does nothing.`),
			plugin("c", `The end of the context of StartProcess or FollowProcess leaves the process as it is.`),
			plugin("d", `Calls that were refused, given up or cut leave nothing behind in the plugin or in the container.`),
			host("e", `The host gives up a call that brings neither an answer nor progress for the configured time, half an hour by default. A follower that has heard where it stands may be quiet for ever.`),
		}},
		{3, "Exactly once", "A process that ran never runs again. What is known of it comes only from the record that is kept with its container, and only the host says that it is lost.", []Promise{
			plugin("a", `StartProcess with an id and token that ran succeeds and does not run it again: while it runs, after its exit, after its output was acknowledged, and after the plugin was killed.`),
			plugin("b", `Nothing was started where StartProcess answers Invalid, AlreadyExists, Unsupported, FailedPrecondition or Exhausted.`),
			plugin("c", `ListProcesses tells every process that was started in the container as running, exited or abandoned, with its token and, once exited, its exit. Abandoned has a start, no exit, and nobody is left who could write one.`),
			plugin("d", `A process outlives the plugin, with its output, its stdin and its exit. Where it cannot, its container is gone, and it has no exit that it did not have before.`),
			plugin("e", `NotFound names by its kind what was not found: a worker, a volume, a container, a process or a file.`),
			plugin("f", `NotFound of a process comes only from the record of its own container, alive and ready, and means that it was never started there.`),
			plugin("g", `A container that is half made is either not listed, and every call on it is NotFound of the container, or it is listed as creating, and every call on its processes is FailedPrecondition (creating).`),
			plugin("h", `In a container that is gone and still listed nothing starts: FailedPrecondition (dead), or what the token says of a process in its record. What its record tells can be listed and followed; where that cannot be read, the answer is FailedPrecondition (record-lost).`),
			plugin("i", `Following an abandoned process delivers what is journalled and then ends with FailedPrecondition (abandoned).`),
			plugin("j", `A follower that the plugin's end cuts off ends with Unavailable, and never with an exit.`),
			host("k", `After a start whose answer leaves open whether it took effect, which is every answer but success and those of 3b, the host asks ListProcesses. It sends the same start again only if the process is not there.`),
			host("l", `Only the host says that a process is lost, and it never takes that for success or for leave to run it again.`),
		}},
		{4, "Incarnation and status", "Status names the store of containers and the store of volumes by an id each. What is missing under the same id is believed gone only after a grace, and under a new one at once.", []Promise{
			plugin("a", `The two ids are the same in each status as long as nothing has happened to their stores. A runtime that cannot tell keeps them constant; one that names volatile has new ones in each process of its plugin.`),
			plugin("b", `What was made is there after the plugin was killed and started again, as often as that happens, or the incarnation of its store is another one.`),
			plugin("c", `A server that is away is no error of Status, but a status with the health away and a reason that names it.`),
			plugin("d", `Capacity and use are zero where they are unknown and never negative, use is not above capacity, and what is told as used grows and shrinks with what there is.`),
			plugin("e", `Workers tells at once all workers there are, then what changes, and goes on until it is cancelled.`),
			host("f", `An empty incarnation is unknown to the host, and never a change.`),
			host("g", `The host takes what is missing under the same incarnation for gone after a grace and a second list, and under a new incarnation at once.`),
		}},
	}
}
