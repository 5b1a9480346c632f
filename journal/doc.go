// Package journal is where a conversation is kept: transcripts, the ledgers of inferences and tool calls, pinned
// catalogues, numbered output chunks and the blobs behind them all.
//
// A transcript is append-only and hash-chained, so that (session, seq, hash) names it exactly. Appends say which
// head they expect and carry an idempotency key by construction (turn, step), so that a retried activity changes
// nothing twice and a zombie worker's late result is kept as late instead of being put over the transcript.
//
// # Decisions that the schema rests on
//
//   - The turn ID is the first run ID of its workflow chain: stable over continue-as-new and over Reset, new for the
//     session's next turn.
//   - A message ID is unique within its session, for ever. Two sessions may use the same one.
//   - What people say is bound to (turn, wait) and, of a call, to the hash of its arguments. The first word stands.
//   - A fork names the message up to which it shares another session's past. Nothing is copied; its ledgers, rules and
//     waits are its own, and message IDs of the shared past count as had.
//   - A call is named by (turn, "<step>.<index>"), an inference by (turn, step): what a reset run asks again, it finds.
//
// The Journal interface is what the activities need and Store what the command line and the worker need on top.
// SQLite stands behind it in journal/sqlite; every implementation passes journal/journaltest.
package journal
