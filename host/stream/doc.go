// Package stream moves archives: from one side to another through a bounded pipe ([Relay]), out of a local directory
// ([PackDir]), into one ([UnpackDir]), and into the place of one ([ReplaceDir]).
//
// An archive is a tar stream. It is whole or it is an error: a source that fails, a file that changes its size while it is
// read, an archive without its end, each ends both sides with the cause. Nothing here knows of workers, volumes or the
// host. Bytes in an encoding that both sides name ([Common]) pass through [Relay] as they are; [Encoded] and [Decoded] are for
// what one side does not speak, [Limited] is for content that must not grow beyond a limit where it is unpacked.
package stream
