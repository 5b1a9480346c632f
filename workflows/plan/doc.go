// Package plan has the plans by which agents work: the steps that a model proposes, how far they have come, and which
// calls may run meanwhile. All of it derives from a turn's calls and the users' decisions about them.
package plan
