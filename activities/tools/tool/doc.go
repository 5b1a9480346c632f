// Package tool holds what all tools have in common, Go functions and those of MCP servers alike: the operator's
// settings of a tool, how its name suggests its risk, the outcome that follows from the ending of its call, and the
// results that report such an outcome.
//
// What matters for an outcome is whether the request left this program. Until its first byte does, a failure is a
// *turn.Error with code tool_not_sent, and the call may be attempted again. From then on every ending is a result: ok
// or error if the tool answered, unknown if it did not. One function decides it for every ending: Ending.Class.
package tool
