// Package volumedir is the volume half of an [sdk.Worker] where volumes are directories of the machine that the plugin runs on. A worker
// embeds a *[Store], and then has CreateVolume, SealVolume, ListVolumes, DestroyVolume, StreamIn, StreamOut and the methods of
// [sdk.FileReader]. What is left to do:
//
//   - Mount [Store.Dir] of a volume into containers, and hold [Store.Share] of all that a container mounts while it is made, and of those
//     that it can write while a process is started in it: so none of them is sealed or destroyed meanwhile (rule 9).
//   - Give [Options.Quiesce], by which sealing asks the containers.
//   - Have Status name [Store.Incarnation] as VolumeIncarnation, [Store.Features], and [sdk.EncodingRaw] alone.
//
// All that it knows is below one directory, so a plugin that was killed loses nothing, and two may use one directory at once. A volume is a
// thing of package shelf, with its files in a directory of their own. Owners and modes are kept, for which the
// plugin has to be root. A clone is a copy, which shares blocks with its parent where the file system can (btrfs, XFS).
//
// It is made for Linux.
package volumedir
