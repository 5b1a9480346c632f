// Package canvas keeps what a session changes on a branch of a git repository, one commit for each change. It writes
// objects and that branch, and nothing else: HEAD, the index, the work tree, other branches and hooks of the repository
// stay as they are.
//
// Git runs as a child process, without the user's configuration, hooks, filters and helpers. A commit is made by git
// fast-import, whose cost does not depend on the size of the tree. Each commit names its session, turn, step, call and
// tool in trailers. A call that runs again after a crash finds its commit by them.
package canvas
