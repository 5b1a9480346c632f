// Package stdio runs a child process that speaks newline-delimited JSON on its standard streams, and makes sure that
// nothing of it is left behind.
//
// A Process is the leader of a process group of its own. When the leader ends, for whatever reason, the rest of the
// group is killed before the leader's number is given back to the system; when this program is killed, the kernel
// kills the leader (Linux), and the next program that starts kills what the leader had started (ReapOrphans). The child
// gets exactly the environment that it is given, and one variable by which its descendants are known. Its stderr is
// drained into a bounded Tail, its stdout is read through Frames, which lets only whole, valid, bounded lines of JSON
// through.
//
// The package knows nothing of MCP.
package stdio
