package check

import (
	"encoding/json"
	"time"

	historypb "go.temporal.io/api/history/v1"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Ledgers are the records that a run has left behind.
type Ledgers struct {
	Run       Run
	Requests  []Request
	Effects   []Effect
	Client    []Entry
	Stream    []Entry
	Histories map[string]*historypb.History // by file name
	Sessions  []Session
	Processes []Process
	Waits     []turn.Request
	Sinks     map[string][]byte
	// Partial: only Sessions, Waits and some of the Histories were kept. What clients, tools and the provider know is not
	// compared with them.
	Partial bool
}

// Run is what the schedule did.
type Run struct {
	Point string `json:"point"`
	Seed  uint64 `json:"seed"`
	// Canaries are secrets that no sink may hold.
	Canaries []string `json:"canaries,omitempty"`
	// Interruptions is how often the schedule may have cut off an inference. It bounds attempts that are neither the first
	// nor retries of the provider's own failures.
	Interruptions int `json:"interruptions"`
	// Window is how many messages a prompt may hold before it is cut, and Kept how many of them remain then. 0: no
	// transcript of the run is that long.
	Window int `json:"window,omitempty"`
	Kept   int `json:"kept,omitempty"`
	// Stopped are messages that the client asked to stop: their turns may end as cancelled.
	Stopped []string `json:"stopped,omitempty"`
	// Failing are messages whose turns the schedule makes fail with a code: that is their answer.
	Failing []string `json:"failing,omitempty"`
	// Asked is the prefix of the text of calls that need approval. Empty: there are none.
	Asked string `json:"asked,omitempty"`
	// StopWithin is how soon a stopped turn must be over once a worker has seen the stop, in nanoseconds. 0: the schedule
	// has broken something that stopping needs.
	StopWithin time.Duration `json:"stop_within,omitempty"`
	// Repeatable are prefixes of the IDs of the tools that the operator declares repeatable. Empty: the ledger is
	// believed.
	Repeatable []string `json:"repeatable,omitempty"`
	// Tainting: after the first result of any server, every call of a server's tool needs approval.
	Tainting bool `json:"tainting,omitempty"`
	// Stateful is the prefix of the IDs of the tools whose server keeps state; empty if there is none.
	Stateful string `json:"stateful,omitempty"`
}

// Request is a line of the provider's ledger.
type Request struct {
	At      time.Time       `json:"at"`
	Asked   string          `json:"asked"` // the user's last message
	Step    int             `json:"step"`  // of the turn, from 1
	Body    json.RawMessage `json:"body"`
	Outcome string          `json:"outcome"` // sent: the whole answer got out
	// Answer and Calls are what the provider sent, or would have sent.
	Answer string        `json:"answer,omitempty"`
	Calls  []RequestCall `json:"calls,omitempty"`
	// Summary is set if the request asked for a summary of the conversation.
	Summary bool `json:"summary,omitempty"`
}

// RequestCall is a tool call that the provider asked for.
type RequestCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// sent is the outcome of a request whose whole answer got out.
const sent = "sent"

// Effect is a line of the tool's ledger.
type Effect struct {
	Event string    `json:"event"` // begun, effect, done; asked, replied; mode, face: the server's new mode or face
	Text  string    `json:"text"`  // names the call: the value of its argument "text"
	At    time.Time `json:"at,omitzero"`
	PID   int       `json:"pid,omitempty"`   // of the server
	Face  string    `json:"face,omitempty"`  // the face of the tool that had the effect; empty: its first
	Reply string    `json:"reply,omitempty"` // the response that the server got: the action, and the content in JSON
}

// Entry is a line of the client's ledger, or of its reader's.
type Entry struct {
	Event   string    `json:"event"` // sending, acknowledged, result; deciding, decided, refused; accepted; event
	At      time.Time `json:"at"`
	Session string    `json:"session,omitempty"`
	Message string    `json:"message,omitempty"` // the ID
	Text    string    `json:"text,omitempty"`
	Turn    string    `json:"turn,omitempty"`
	State   string    `json:"state,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Answer  string    `json:"answer,omitempty"`
	Error   string    `json:"error,omitempty"`
	Index   int64     `json:"index,omitempty"`
	Kind    string    `json:"kind,omitempty"`
	// Call and the following fields belong to a decision: the call, its arguments' hash, and what was decided.
	Call  string `json:"call,omitempty"`
	Hash  string `json:"hash,omitempty"`
	Allow bool   `json:"allow,omitempty"`
	// By is the author's name, if each decision has its own. Grant and Tool: the decision also permits later calls.
	By    string          `json:"by,omitempty"`
	Grant turn.GrantScope `json:"grant,omitempty"`
	Tool  string          `json:"tool,omitempty"`
}

// The events of a client's ledger.
const (
	Sending      = "sending"
	Acknowledged = "acknowledged"
	Answered     = "result"
	EventRead    = "event"
	Deciding     = "deciding" // a client sends a decision about a call
	Decided      = "decided"  // and was told that it counts
	Refused      = "refused"  // or that it does not
	Accepted     = "accepted" // the operator has accepted the face of a tool that Text names
)

// Process is a line of the ledger of processes.
type Process struct {
	PID     int    `json:"pid"`
	Command string `json:"command,omitempty"`
	// Orphan: the process was alive when nothing of its worker was left.
	Orphan bool `json:"orphan,omitempty"`
	// GoroutinesBefore and GoroutinesAfter are counted before a worker builds anything and after it closes everything; 0
	// if the worker did not report them.
	GoroutinesBefore int    `json:"goroutines_before,omitempty"`
	GoroutinesAfter  int    `json:"goroutines_after,omitempty"`
	Stacks           string `json:"stacks,omitempty"`
	PeakBytes        int64  `json:"peak_bytes,omitempty"`
}

// Session is a session's export: its lines, and what the journal's own reader says about them.
type Session struct {
	File    string
	Lines   []journal.ExportLine
	Problem error
}
