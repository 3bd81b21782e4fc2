// Package volumetar makes directories on disk behave as volumes of the contract: trees of files go in and out as tar archives, whole and
// confined (rule 9), and can be looked into ([sdk.FileReader]). It is for plugins whose volumes are directories, for stores of volumes
// on a node, and for programs inside containers.
//
// Nothing here knows of volumes' ids, labels, states or encodings: archives are not compressed, and whoever calls says that a volume is
// missing or sealed. It is made for Linux; elsewhere [Open] answers Unsupported.
//
// # What archives keep
//
// Content, modes with setuid, setgid and sticky bits, numeric owners (never names), symbolic links as they are, hard links among what
// is packed (to links and special files too), empty files and directories, names of any bytes, and modification times, those of
// directories included, before 1970 and after 2038, to the nanosecond. As far as the machine and the process can, and
// [Root.Features] says whether they can: extended attributes, holes of sparse files (as PAX sparse format 1.0, which GNU tar and archive/tar read)
// and device nodes. Named pipes are kept everywhere. Sockets are left out: they mean nothing without the process that listens.
//
// Of extended attributes an archive keeps user.*, trusted.*, security.capability and POSIX ACLs (system.posix_acl_*). It never carries the others,
// in or out: labels such as security.selinux belong to the machine, and those of overlayfs (user.overlay.*, trusted.overlay.*) would
// redirect what a mount of the volume shows. Access and change times are not kept.
//
// # Confinement
//
// Whatever an archive says, and whatever another process renames or links inside the tree meanwhile, nothing outside the opened directory is
// read or changed. Archives pass no symbolic link: an entry below one is refused, an entry in place of one replaces it. Paths to
// read may pass links, which stay inside: an absolute target begins at the opened directory. The last component of a path is never followed.
// Nothing is opened that could block or act on being opened, such as pipes and devices.
//
// That rests on the kernel's openat2 where there is one and it is not filtered away, and else on a walk by hand. A mounted /proc is
// used where it helps: without it, attributes of symbolic links and special files are not kept, and on kernels before 6.6 neither are
// the modes of special files.
//
// # Errors
//
// They are those of [sdk.Worker.StreamIn], [sdk.Worker.StreamOut] and [sdk.FileReader], but for what only the owner of a volume can know.
package volumetar
