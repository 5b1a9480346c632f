// Package workflows holds the Turn workflow: the determinism boundary of Everturn. The workflow walks through the
// phases of package turn and performs every effect through the activities of its port. Its history holds nothing that
// grows with the conversation: it names transcripts by reference.
//
// The workflow reads time, configuration and tool lists only from its input and from activity results, so every
// recorded history replays on the current code.
package workflows
