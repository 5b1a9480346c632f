// Package plan implements the plans by which agents work: the steps that a model proposes, their progress, and which
// calls may run meanwhile. A plan is not stored: it is computed from the calls of the plan's tools in a turn, and
// from the users' decisions about them.
package plan
