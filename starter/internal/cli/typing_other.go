//go:build !linux

package cli

import "os"

// forgetTyped does nothing: dropping unread input is only implemented for Linux.
func forgetTyped(*os.File) {}
