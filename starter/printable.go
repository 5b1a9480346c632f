package main

import "github.com/everturn/everturn/starter/terminal"

// printable takes out of a text what could do something to a terminal. Models and tools write what is printed here.
func printable(s string) string { return terminal.Printable(s) }

func unprintable(r rune) bool { return terminal.Unprintable(r) }

// line makes one line of a text, of at most n runes.
func line(s string, n int) string { return terminal.Line(s, n) }
