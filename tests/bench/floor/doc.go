// Package floor is the minimum cost of a turn on a server with the SDK's defaults: a workflow with as many activities
// as a turn has inferences and tool calls, all of them empty.
package floor
