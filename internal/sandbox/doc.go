// Package sandbox runs commands of a model in isolation.
//
// With LevelNamespace a command runs in namespaces of its own, which bubblewrap makes: it has its own processes,
// network and temporary folder, and a file system in which only its tree, its caches and the machine's programs exist.
// Inside, Landlock and a filter of system calls confine it too. With LevelLandlock these two confine it alone, so calls
// that they cannot tell apart by file, such as chmod, are refused. With LevelNone nothing confines it.
//
// Three processes lead to a command, all of them this program, which starts itself: see the function init. A supervisor
// collects all processes of the command, limits them, and ends when the last of them has ended. It starts bubblewrap,
// which starts the last stage: that confines itself and becomes the shell.
package sandbox
