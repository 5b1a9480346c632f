// Package childproc runs a child process that speaks newline-delimited JSON on its standard streams, and ensures that
// none of its processes are left behind.
//
// A Process is the leader of its own process group. When the leader ends, for whatever reason, the rest of the group is
// killed before the system can reuse the leader's PID. When this program is killed, the kernel kills the leader
// (Linux), and the next program that starts kills the processes that the leader had started (ReapOrphans). The child
// gets exactly the environment that it is given, plus one variable that identifies its descendants. Its stderr is
// drained into a bounded Tail; its stdout is read through Frames, which passes only complete, valid, bounded lines of
// JSON.
//
// The package does not depend on MCP.
package childproc
