// Package files provides the tools with which a model reads the files of a workspace (list_files, read_file,
// search_text) and, if Options.Write is set, changes them (write_file, edit_file, patch_file, delete_file). They cannot
// leave the workspace: every path is resolved by os.Root, which follows no symbolic link out of it, and absolute paths
// and paths with .. are refused. Results are bounded in entries, depth, bytes and time. Binary files are named but not
// shown; node_modules is left out of lists and searches, and what a .gitignore names out of searches. The tools refuse
// .git and .everturn, files that look like credentials (Options.Deny), and files with another hard link, which may be
// outside of the workspace. Symbolic links are resolved before these rules are checked. The tools that write also
// refuse the configuration and the instructions of agents.
package files
