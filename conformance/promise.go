package conformance

import (
	"slices"
	"strconv"
	"strings"
)

// Rule is one of the contract's fourteen rules. Its number is stable.
type Rule struct {
	Number   int
	Title    string
	Short    string // all of it in a sentence or two, as the documentation of package sdk has it
	Promises []Promise
}

// Promise is one thing that a rule says, such as can be tested. Its ID never changes its meaning, and is not used again.
type Promise struct {
	ID   string // the rule's number and a letter, such as "3b"; after z come aa, ab and so on
	By   Party
	Text string
}

// Party is who keeps a promise.
type Party string

// The parties of the contract.
const (
	ByPlugin Party = "plugin"
	ByHost   Party = "host" // nothing that this suite could see
)

// Rules gives the rules with their promises, in order. The slice is the caller's.
func Rules() []Rule {
	rules := slices.Concat(startRules(), outputRules(), volumeRules(), callRules())
	for i := range rules {
		for j := range rules[i].Promises {
			rules[i].Promises[j].ID = strconv.Itoa(rules[i].Number) + rules[i].Promises[j].ID
		}
	}
	return rules
}

// FindPromise gives the promise of that ID.
func FindPromise(id string) (Promise, bool) {
	for _, r := range Rules() {
		for _, p := range r.Promises {
			if p.ID == id {
				return p, true
			}
		}
	}
	return Promise{}, false
}

// plugin and host make promises of the rule that they stand in, which puts its number before the letters.
func plugin(letters, text string) Promise { return Promise{letters, ByPlugin, text} }
func host(letters, text string) Promise   { return Promise{letters, ByHost, text} }

// inEveryCase are the promises that the suite itself looks at, whatever a case is about: the bound of a call, the callbacks of a follower, the form of an
// error, and what is destroyed after the case.
func inEveryCase() []string { return []string{"1e", "2a", "3e", "5d", "5m", "6c", "6d", "7e", "14a"} }

// RuleOf is the number of the rule that a promise belongs to; zero for the empty promise.
func RuleOf(promise string) int {
	n, _ := strconv.Atoi(strings.TrimRight(promise, "abcdefghijklmnopqrstuvwxyz"))
	return n
}
