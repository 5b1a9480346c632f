package hidememory

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Hide prevents other processes of the same user, tool servers among them, from reading this process's memory and
// its initial environment (/proc/<pid>/environ, /proc/<pid>/mem, ptrace(2)), and prevents core dumps. Root can still
// read them. Call it from a program's main, because it applies to the whole process: an unprivileged debugger can no
// longer attach, but can start the program. Profiles that the process takes of itself are not affected. On systems
// other than Linux it does nothing.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hiding this process's memory from other processes: %w", err)
	}
	return nil
}
