//go:build !linux

package cli

import "os"

// discardInput does nothing: dropping unread input is only implemented for Linux.
func discardInput(*os.File) {}
