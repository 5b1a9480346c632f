// Package beneath opens the entries of a directory, relative to the open directory and without following a symbolic
// link or entering another file system. A caller that walks a path with it, part by part, cannot be led out of a
// directory by a process that swaps directories and links meanwhile.
package beneath
