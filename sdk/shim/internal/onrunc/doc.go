// Package onrunc proves the shim in containers of Debian's runc: it holds tests and benchmarks only. Each container is one that runc makes,
// each exec is "runc exec", and the program is built as it is shipped.
package onrunc
