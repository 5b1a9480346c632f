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
//   - A call has one outcome, the first. What comes after is kept beside it; where the outcome was unknown, the session's
//     model is told in a message of its own, once an attempt, never over the transcript.
//   - A call whose server asks for something is suspended: nobody has it, and what it goes on with waits in the journal for
//     any process. Where that is lost, its outcome is unknown: it never begins again.
//   - The words of servers that nobody vouches for mark their session in the transaction that brings them in. A mark stays,
//     over compaction, crashes and forks.
//   - Tools are accepted by their hashes. What a server publishes becomes current at once; what of it nobody has accepted is
//     held, so that no turn pins it. See Review for what needs nobody's word.
//
// The Journal interface is what the activities need and Store what the command line and the worker need on top.
// SQLite stands behind it in journal/sqlite; every implementation passes journal/journaltest.
package journal
