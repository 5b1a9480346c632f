// Package workflows holds the Turn workflow: the determinism boundary of Everturn. It walks the phases of package turn,
// asks the activities of its port for everything that touches the world, and keeps nothing in its history that grows
// with the conversation: transcripts are named by reference.
//
// It reads time, configuration and tool lists from its input and from activity results only, so that every history
// that was ever recorded replays on the code that ships.
package workflows
