package main

import "time"

// How a slow answer comes: the first token after a while, then a word every ten milliseconds.
const (
	slowFirst = 100 * time.Millisecond
	slowDelay = 10 * time.Millisecond
)
