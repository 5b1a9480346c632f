// Package files provides the tools with which a model reads the files of a workspace (list_files, read_file,
// search_text) and, if Options.Write is set, changes them (write_file, edit_file, patch_file, delete_file).
//
// They cannot leave the workspace. Absolute paths and paths with .. are refused, and every directory is opened from the
// one before without following a link or entering a mount (see trail); the target of a symbolic link is walked in the
// same way. The rules are applied to what was opened, and the tools act through the open directory, so a process that
// swaps directories and links meanwhile gains nothing.
//
// The rules refuse .git and .everturn, files that look like credentials (Options.Deny), files with another hard link,
// which may be outside of the workspace, and files that the configuration names (Options.Protected). The tools that
// write also refuse the instructions of agents. Results are bounded in entries, depth, bytes and time. Binary files are
// named but not shown; node_modules is left out of lists and searches, and what a .gitignore names out of searches.
package files
