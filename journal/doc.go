// Package journal keeps conversations: transcripts, the ledgers of inferences and tool calls, requests and decisions,
// catalogues of tools, numbered output events, and blobs.
//
// DB implements the rules on top of a Database. There are two: journal/sqlite for the workers of one machine,
// and journal/postgres for workers on several. Both pass the same tests, journal/journaltest. Consumers declare the
// small interfaces that they need.
//
// Files are named by what they record: begin.go and finish.go are about turns, inferences.go, calls.go and requests.go
// about their steps, import.go and export*.go about sessions as files, catalogue*.go about tools. Each has the rules
// and the rows of its subject. database.go, transactions.go, query.go and encryption.go are what all of them share.
// Package fleet computes the fleet limits, and package follow reads a DB as it grows.
//
// Sessions, turns, calls and inferences have two names: the ID that callers use, a string such as scope.TurnID, and the
// number of the row, an int64 such as scope.Turn.
//
// A transcript is append-only and hash-chained, so that (session, seq, hash) names it exactly. An append names the head
// that it expects, and (turn, step) is its idempotency key: a retried activity changes nothing twice. A late result is
// kept beside the transcript and never replaces anything in it.
//
// # Tenants
//
// A session is named by its tenant and its ID, so two tenants may use the same ID for two sessions. A DB is a handle
// for one tenant; Tenant returns the handle of another one, on the same database. All look-ups by a session's ID go
// through querier.SessionRow, querier.Session or a statement with the handle's tenant; look-ups by a turn's ID for
// readers go through querier.NamedTurn or querier.NamedScope, which compare the tenant of the turn's session. A turn ID
// is unique in the database. The methods with which a worker records a turn name no session but the turn that Begin has
// returned; Begin takes its tenant from its input. TokenBySecret finds the tokens of all tenants.
//
// # Rules
//
//   - The turn ID is the first run ID of its workflow chain: the same after continue-as-new and Reset, a different
//     one for the session's next turn.
//   - A message ID is unique within its session and is never used again. Two sessions may use the same one.
//   - A decision is bound to (turn, request) and, for an approval, to the hash of the arguments. The first decision
//     stands.
//   - A fork shares another session's messages up to a point. Nothing is copied; its ledgers, grants and requests
//     are its own. The message IDs of the shared past count as used.
//   - A call is named by (turn, "<step>.<index>"), an inference by (turn, step). A run that was reset finds the
//     requests, calls and inferences that it made before.
//   - A call has one outcome, the first. Later results are kept beside it. If the outcome was unknown, the
//     session's model gets the late result in a separate message, once for each attempt.
//   - A suspended call has no claim: any process can continue it with the continuation that the journal keeps. If
//     the continuation is lost, the outcome is unknown and the call never runs again.
//   - A result of an untrusted server taints its session in the transaction that records it. Taint stays through
//     compaction, crashes and forks.
//   - Tools are approved by their hashes. A catalogue becomes current as soon as its server publishes it; tools
//     that are not approved are quarantined and not offered to turns.
//
// # Transactions
//
// Each method is one transaction, which runs again if its Database loses it. Transactions of one session run one after
// the other. Content above 1 KiB is stored once, in blobs, under its SHA-256. No method reads more of a session than it
// returns: an append needs only the head.
package journal
