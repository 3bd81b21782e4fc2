package conformance

// volumeRules are about volumes, archives and what is listed.
func volumeRules() []Rule {
	return []Rule{
		{9, "Volumes", "A volume is open and written, then sealed and never changed. Only sealed volumes are cloned, streamed to other workers or used as images. Archives keep what a tree is, and whatever one says, nothing outside the volume changes.", []Promise{
			plugin("a", `A new volume is open and empty, and its root directory has the owner that was asked for. So has that of a clone, and nothing below it is changed.`),
			plugin("b", `Sealing succeeds again and again, and what is sealed never changes: a stream into it is FailedPrecondition (sealed), and one that was under way changes nothing after the seal. A seal under a stream may wait for it, be FailedPrecondition, or have the stream fail as sealed.`),
			plugin("c", `Mounting a sealed volume writable is FailedPrecondition (sealed).`),
			plugin("d", `Sealing while a process lives in a container that mounts the volume writable is FailedPrecondition (in-use). What has been killed, or has ended and is only not reaped yet, does not live: a plugin may wait for its end before it says so. Once it is sealed no process starts in such a container: FailedPrecondition (sealed).`),
			plugin("e", `A clone is a new, open volume with the content of its parent, and with labels and a token of its own.`),
			plugin("f", `What is written to or removed from a clone shows in neither its parent nor its siblings, and destroying it leaves them as they are.`),
			plugin("g", `Cloning an open volume is FailedPrecondition (not-sealed) unless clone.live is named. Then it is a copy of that moment.`),
			plugin("h", `Cloning or mounting a volume that is not there is NotFound of that volume, and makes nothing that could be used.`),
			plugin("i", `A mount shows the volume's content at its path and hides what lies below that. What is written there is in the volume, and outlives the container.`),
			plugin("j", `A volume that is mounted read-only is not written.`),
			plugin("k", `What a container writes beside its mounts is its own: no image, no other container and no file of the machine has it, and a container sees no file of the machine. Programs and libraries of the machine that all containers are given read-only are their image, and no files of the machine in this sense.`),
			plugin("l", `What an archive brings into a volume comes out again: names as bytes, modes with setuid, setgid and sticky bits, symbolic and hard links, empty directories, modification times of files and numeric owners. Processes see the same.`),
			plugin("m", `What an archive holds and the worker cannot keep is refused as Invalid or Unsupported, and never made into something else. Only extended attributes and modification times of directories may be left out, and holes become zeros, where their features are not named.`),
			plugin("n", `Archives in the formats v7, ustar, GNU and PAX are taken, with names that begin with "./", with parents that they do not name, and with zeros after their end. Of two entries of one name the later one counts.`),
			plugin("o", `An archive that is damaged, contradicts itself or has no end is Invalid (archive), no bytes at all being one of them.`),
			plugin("p", `Whatever an archive or a link in a volume says, nothing outside the volume is changed or given away.`),
			plugin("q", `An archive adds to what is there: it replaces files and links without writing through them, and leaves what it does not name.`),
			plugin("r", `An archive goes in below a path, which is made where missing. Streaming out a directory gives what is below it, a file one entry of its last name, and a path that is not there is NotFound of a file before anything is written.`),
			plugin("s", `Streams of any size pass whole, through bounded memory, and side by side.`),
			plugin("t", `A stream that is aborted, cut, or without a trailer that fits has failed. Its volume is never taken for whole, and can be destroyed.`),
			plugin("u", `Each encoding that the worker names, "raw" being one of them, works both ways. Any other is Invalid (encoding).`),
			plugin("v", `Where peer.stream is named, a volume arrives at another worker as it left. A ticket works once, and what is refused by way of the host is refused here.`),
			plugin("w", `Volumes that a plugin makes for itself belong to a container, go with it, and are never listed.`),
			host("x", `The host mounts an open volume writable in one container at a time, streams only into volumes that nothing mounts, and never destroys one that is mounted or has living clones.`),
			plugin("y", `The path of an archive that goes in passes no file and no symbolic link, nor ends at one: Invalid (path).`),
			plugin("z", `Whatever follows the end mark of an archive is read to its end and thrown away.`),
			plugin("aa", `Where image.volume is named, a container made of a sealed volume has that volume's rootfs as its root, and leaves the volume as it was. A volume that is open is FailedPrecondition (not-sealed), and one that is not there NotFound of that volume.`),
		}},
		{10, "Labels and lists", "Labels are set at creation and come back from the lists. The host puts slipway.installation on all that it makes.", []Promise{
			plugin("a", `Labels within the bounds (32 of them, 4 KiB in all, keys of 1 to 63 of a-z, 0-9 and "._/-", values of at most 256 bytes of UTF-8) come back from the lists as they were given.`),
			plugin("b", `Labels beyond the bounds are Invalid (spec), and nothing is made.`),
			plugin("c", `A filter passes what has its id and all of its labels, each with exactly that value. One that nothing passes gives an empty list and no error.`),
			plugin("d", `What lives through the whole of a list is in it exactly once, however much there is and whatever comes and goes meanwhile.`),
			plugin("e", `A list tells what is, not what was asked for: the state, the token, and of a volume its parent and its size, which is negative where it is unknown.`),
			host("f", `The host puts the label slipway.installation on all that it makes, and removes only what has its own.`),
		}},
	}
}
