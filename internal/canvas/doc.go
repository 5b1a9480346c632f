// Package canvas keeps the changes of a session on a branch of a git repository, one commit for each change. It writes
// only objects and that branch: HEAD, the index, the work tree, other branches and the hooks of the repository stay as
// they are.
//
// Git runs as a child process, without the user's configuration, hooks, filters and helpers. A commit is made by git
// fast-import, whose cost does not depend on the size of the tree. Each commit names its session, turn, step, call and
// tool in trailers. By these trailers, a call that runs again after a crash finds the commit that it has already made.
package canvas
