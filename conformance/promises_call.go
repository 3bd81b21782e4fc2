package conformance

// callRules are about what a call carries and how it fails.
func callRules() []Rule {
	return []Rule{
		{11, "Paths and commands", "Paths in mounts are absolute when they come to a plugin, paths inside a volume are relative and never leave it, and a command is a list of arguments that begins in a known place.", []Promise{
			plugin("a", `Mount paths and directories come absolute and clean. One that is not, a mount at "/", and two mounts at one path are Invalid (path). One mount may lie below another, in whatever order they are given.`),
			plugin("b", `Paths inside a volume are relative and separated by "/". One that is absolute or leaves the volume is Invalid (path).`),
			plugin("c", `A process begins in its own directory, else in its container's, else in "/". The directory is made where it is missing, as the process's own user's; one that is there stays whose it is.`),
			plugin("d", `A command without a slash is sought in the process's own PATH. A relative path with one begins in the process's directory.`),
			plugin("e", `Arguments come byte for byte. What takes more than 2 MiB with the path and the environment, where each argument and each variable counts nine bytes more than it has, is Invalid (too-large), and so is what the kernel cannot take.`),
			plugin("f", `A program that is not there is Invalid (executable-not-found), and one that the kernel cannot run Invalid (not-executable): no shell is tried in its place. The codes 126 and 127 are a command's own.`),
			plugin("g", `A process begins with the descriptors 0, 1 and 2 and no other, with the umask 022, and with no signal ignored or blocked, those numbers included that a C library keeps for itself.`),
			plugin("h", `A user is a name, a number, or two numbers with a colon between them, and means what the container's own files say, groups included. A name that they do not know is Invalid (user-not-found).`),
			host("i", `The host resolves the paths of mounts before a plugin gets them.`),
			plugin("j", `A directory of a process that cannot be made, since a file is in its way, is Invalid (path), and so are a directory of a container and a mount's path.`),
		}},
		{12, "Times", "Times that a plugin reports are for display only. The zero time is unknown.", []Promise{
			plugin("a", `The times of an exit are in order, and the same for everyone who asks.`),
			host("b", `The host decides nothing by a time that a plugin told.`),
		}},
		{13, "Environment and secrets", "The environment comes with StartProcess only. It is never stored, logged, or put into an error.", []Promise{
			plugin("a", `Variables come byte for byte, however many they are.`),
			plugin("b", `PATH and HOME, and USER where the process has a user, are given where the host gives none. Where it does, they are the host's.`),
			plugin("c", `A process has no other variable: none of the plugin's and none of another process's.`),
			plugin("d", `No value of a variable and no ticket is put into an error.`),
			plugin("e", `No value of a variable and no ticket is stored or logged.`),
			plugin("f", `A process sees those of its own container and of no other.`),
			host("g", `The host merges the environment of image, container and process, gives each name once, and sends it with each start.`),
			plugin("h", `A variable without a name, without a "=" or with NUL is Invalid (spec).`),
			plugin("i", `Of two variables of one name the process has the last alone, and a command is sought in the last PATH.`),
		}},
		{14, "Errors and features", "Errors are of a closed set of classes, which cross the wire. A caller's own errors and those of a context come back as they are. What a worker names as a feature works, and what it does not name is Unsupported.", []Promise{
			plugin("a", `Every error has a class of the contract. NotFound and AlreadyExists name the kind and the id of the thing that they are about, Unsupported the feature, and FailedPrecondition its reason where the contract has one.`),
			plugin("b", `An error of the caller's own reader, writer or callback ends the call and comes back unchanged.`),
			plugin("c", `A call that its context ended returns context.Canceled or context.DeadlineExceeded, on the wire CANCELLED or DEADLINE_EXCEEDED.`),
			plugin("d", `A call that fails leaves all that was there before as it was: checks come before changes.`),
			plugin("e", `A request that can never work is Invalid, and makes nothing.`),
			plugin("f", `A feature that the worker names works.`),
			plugin("g", `What a call asks for and the worker does not name is Unsupported, with that feature, and makes nothing. Nothing that is asked for is ignored.`),
			plugin("h", `The features that a worker names are those of the contract, or have a dot in their names.`),
			plugin("i", `Fields and frames that a plugin does not know are ignored. An enum value that it does not know, in a field that it does know, is Invalid (spec).`),
			host("j", `The host decides by class and reason, as the table below says, and never by an error's text.`),
		}},
	}
}
