// Package floor is the least that a turn can cost on a server with the SDK's defaults: a workflow with as many activities as a turn has
// inferences and tool calls, all of them empty.
package floor
