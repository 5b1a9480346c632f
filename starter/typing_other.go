//go:build !linux

package main

import "os"

// forgetTyped does nothing: dropping unread input is only implemented for Linux.
func forgetTyped(*os.File) {}
