// Package api is a host's face for other processes: a [Server] that a daemon puts before its host, and a [Client] of it.
//
// The interface is slipway.host.v1alpha1, whose .proto files are published in proto/. A daemon speaks it as gRPC, as gRPC-Web, and as
// Connect, which is plain JSON over HTTP for all calls but streams: the body is the request message, the answer's body the response
// message, and an error has an HTTP status of its own and a body with code and message. All of these are at one unix socket of mode
// 0600: whoever can open it may do all.
//
//	curl --unix-socket S -H 'Content-Type: application/json' -d '{}' http://slipway/slipway.host.v1alpha1.HostService/ListWorkers
//
// What is a stream of bytes has plain addresses beside that, with names as they are but for # in them, which is %23 (and curl needs
// --path-as-is for names like a/../b):
//
//	PUT /v1alpha1/artifacts/NAME            make an artifact of a tar archive; Content-Encoding may be gzip or zstd
//	GET /v1alpha1/artifacts/NAME            the artifact as a tar archive
//	GET /v1alpha1/files/NAME?path=PATH      one file of it
//	GET /v1alpha1/output/OWNER              what a process wrote, and writes: process=, from= and stream= may follow
//	GET /healthz, /readyz, /metrics
//
// A field in JSON that a request does not have is INVALID_ARGUMENT, and named.
//
// An answer that breaks off is not whole. That of output breaks off where some was dropped (see ProcessService.StartProcess), and says from
// where on there is more if it begins there; gaps=skip leaves out what was dropped.
//
// So a job runs by curl alone; its step count is followed as owner run/one/count:
//
//	tar -C texts -c . | curl --unix-socket S -T - http://slipway/v1alpha1/artifacts/upload/one/text
//	curl --unix-socket S -H 'Content-Type: application/json' -d '{"name": "upload/one/text"}' \
//	  http://slipway/slipway.host.v1alpha1.ArtifactService/ListFiles
//	curl --unix-socket S -H 'Content-Type: application/json' http://slipway/slipway.host.v1alpha1.RunService/StartRun \
//	  -d '{"id": "one", "command": {"path": "wc", "args": ["-l", "text/a"]}, "inputs": {"text": "upload/one/text"}}'
//	curl --unix-socket S -N http://slipway/v1alpha1/output/run/one/exec
//	curl --unix-socket S -H 'Content-Type: application/json' -d '{"id": "one"}' \
//	  http://slipway/slipway.host.v1alpha1.RunService/WaitRun
//
// A container is there for as long as its owner wants, and goes by itself when nobody has used it for its ttl. Commands run in it by name:
//
//	curl --unix-socket S -H 'Content-Type: application/json' http://slipway/slipway.host.v1alpha1.ContainerService/EnsureContainer \
//	  -d '{"owner": "shop/build", "ttl": "3600s"}'
//	curl --unix-socket S -H 'Content-Type: application/json' http://slipway/slipway.host.v1alpha1.ProcessService/StartProcess \
//	  -d '{"owner": "shop/build", "name": "first", "path": "echo", "args": ["hello"]}'
//	curl --unix-socket S -N 'http://slipway/v1alpha1/output/shop/build?process=first'
//
// What is made once and used often, such as a version of a repository, is kept under a key and found by it. Where nothing is there, which is NOT_FOUND, its content is
// to be made and kept:
//
//	tar -C texts -c . | curl --unix-socket S -T - http://slipway/v1alpha1/artifacts/upload/repo-1
//	curl --unix-socket S -H 'Content-Type: application/json' http://slipway/slipway.host.v1alpha1.ArtifactService/KeepCache \
//	  -d '{"team": "shop", "key": "repo@1", "artifact": "upload/repo-1", "ttl": "86400s"}'
//	curl --unix-socket S -H 'Content-Type: application/json' http://slipway/slipway.host.v1alpha1.ArtifactService/FindCache \
//	  -d '{"team": "shop", "key": "repo@1"}'
//
// # Who owns what
//
// Runs, containers and processes are the host's: a client that goes away ends none of them. What a container has is destroyed by
// DestroyContainer, by "slipway rm", or after its ttl. A run ends when its steps have ended and
// each output that StartRun wanted was accepted; a client that comes back with the same id watches it from the beginning. Of a daemon
// that was killed the next one on its state directory resumes a run when it is asked to start it again.
package api
