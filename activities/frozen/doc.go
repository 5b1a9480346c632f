// Package frozen reads and caches what never changes of a turn: its config, which Begin freezes, the prompt config with
// its tools and policy, and the messages of its transcript.
package frozen
