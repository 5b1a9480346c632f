// Package hidememory hides this process's memory from other processes of the same user.
package hidememory
