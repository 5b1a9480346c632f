//go:build !linux

package main

import "os"

// forgetTyped drops what was typed at a terminal and not read, where that is known how to do.
func forgetTyped(*os.File) {}
