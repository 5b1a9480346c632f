//go:build !linux

package statedir

import (
	"fmt"
	"os"
	"syscall"
)

// Identity returns the inode of path.
func Identity(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino), nil
}
