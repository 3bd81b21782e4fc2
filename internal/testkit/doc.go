// Package testkit is what the tests of all packages share, so that each of these decisions is made in one place: the tier that a test
// runs in ([Soak], [Times]), the bound of a wait ([Context], [Until]), time that passes at once ([Bubble]), the scale of short timers ([Scale]), what a machine lacks
// ([Lacking]), goroutines that a package leaves behind ([Main], [NoLeaks]) and an archive that is larger than it looks ([SparseBomb]).
//
// Two tiers run the same tests. The gate (make test, -short) asks whether a change is good and decides by events. The soak (make soak)
// looks for what fails once in a thousand times. A test never decides by the clock: whatever must come is awaited until shortly before
// the deadline that the test binary was given, so that a slow machine makes a run long and not red.
//
// What knows a package of Slipway does not belong here: only the standard library and goleak are imported.
package testkit
