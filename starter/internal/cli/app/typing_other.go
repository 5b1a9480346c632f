//go:build !linux

package app

import "os"

// DiscardInput does nothing: dropping unread input is only implemented for Linux.
func DiscardInput(*os.File) {}
