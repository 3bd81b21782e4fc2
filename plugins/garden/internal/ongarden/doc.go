// Package ongarden proves the Garden plugin as it is shipped: the program slipway-garden as a process of its own, under the conformance suite, under a
// host, and under the command slipway. It holds tests and benchmarks only. Servers are those of gardentest; programs are built as make builds them.
package ongarden
