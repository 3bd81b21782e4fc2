// Package onnomad proves the Nomad plugin on clusters that ask more of it than one open agent does: with tokens and certificates, with several nodes, with
// Docker, and with what operators get wrong; and whole hosts on Nomad, killed where it matters. It holds tests and benchmarks only. Clusters are those of
// nomadtest.
package onnomad
