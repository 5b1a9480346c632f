// Package files are three tools with which a model looks at the files of a workspace: list_files, read_file and
// search_text. They only read. They cannot leave the workspace: every path is resolved by os.Root, which follows no
// symbolic link out of it, and absolute paths and paths with .. are refused. What they return is bounded in entries,
// depth, bytes and time; binary files are named, not dumped; node_modules is left out of lists and searches. Out of reach
// are .git and .everturn, files that look like credentials (Options.Deny), and files that have another hard link, which may
// be outside. Symbolic links are resolved before these rules are checked.
package files
