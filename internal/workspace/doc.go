// Package workspace gives each session a tree of its own: a directory with the files of a git repository, in which file
// tools and commands act, and a branch with one commit for each call that changed files. Both are a session's canvas.
// The user's repository stays as it is until a merge, except for one reference that keeps git from collecting the
// objects that the tree needs.
//
// A Store has two parts in the state folder. The bare repository store belongs to the host alone: it borrows the
// objects of the user's repository and holds the sessions' branches. In trees is a directory for each session. Such a
// directory is a git repository, too, for the commands that run in it, but the host never runs git there: a command can
// change its configuration, hooks and attributes. The host reads and writes a tree file by file, without following
// links (package beneath), and commits what it finds with git fast-import into store.
//
// Git runs as a child process, without the user's configuration, hooks, filters, merge drivers and helpers. Each commit
// names its session, turn, step, call and tool in trailers. By these, a call that runs again after a crash finds the
// commit that it has already made. A file beside the tree names the call that is changing it, so that the next call
// knows of unfinished changes.
package workspace
