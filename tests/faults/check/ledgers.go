package check

import (
	"encoding/json"
	"time"

	historypb "go.temporal.io/api/history/v1"

	"github.com/everturn/everturn/journal"
)

// Ledgers are what a run has left behind.
type Ledgers struct {
	Run       Run
	Requests  []Request
	Effects   []Effect
	Client    []Entry
	Stream    []Entry
	Histories map[string]*historypb.History // by file name
	Sessions  []Session
	Processes []Process
	Waits     []journal.RequestRecord
	Sinks     map[string][]byte
}

// Run is what the schedule did.
type Run struct {
	Point string `json:"point"`
	Seed  uint64 `json:"seed"`
	// Canaries are secrets that no sink may hold.
	Canaries []string `json:"canaries,omitempty"`
	// Interruptions is how often an inference may have been cut off by the schedule: what bounds attempts that are
	// neither the first nor the provider's own failures.
	Interruptions int `json:"interruptions"`
	// Window is how many messages a prompt may hold before it is cut, and Kept how many are left of it then. 0: no
	// transcript of the run is as long as that.
	Window int `json:"window,omitempty"`
	Kept   int `json:"kept,omitempty"`
	// Stopped are messages that the client asked to stop: they may end as cancelled.
	Stopped []string `json:"stopped,omitempty"`
	// Failing are messages whose turns the schedule makes fail, and fail with a code: that is their answer.
	Failing []string `json:"failing,omitempty"`
	// Asked is what the text of a call begins with that needs a person's word. Empty: there are none.
	Asked string `json:"asked,omitempty"`
	// StopWithin is how soon a turn that was stopped is to be over once a worker has seen the stop, in nanoseconds. 0: the
	// schedule has broken what that takes.
	StopWithin time.Duration `json:"stop_within,omitempty"`
	// Repeatable are what the IDs of tools begin with that the operator says may be repeated. Empty: the ledger is believed.
	Repeatable []string `json:"repeatable,omitempty"`
	// Tainting: after the first result of any server a person is asked about every call of one.
	Tainting bool `json:"tainting,omitempty"`
	// Stateful is what the IDs of a server's tools begin with that remembers; empty where none does.
	Stateful string `json:"stateful,omitempty"`
}

// Request is a line of the provider's ledger.
type Request struct {
	At      time.Time       `json:"at"`
	Asked   string          `json:"asked"` // the user's last message
	Step    int             `json:"step"`  // the turn's, from 1
	Body    json.RawMessage `json:"body"`
	Outcome string          `json:"outcome"` // sent: the whole answer got out
	// Answer and Calls are what the provider said, or would have.
	Answer string        `json:"answer,omitempty"`
	Calls  []RequestCall `json:"calls,omitempty"`
}

// RequestCall is a tool call that the provider asked for.
type RequestCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// sent is the outcome of a request that was answered whole.
const sent = "sent"

// Effect is a line of the tool's ledger.
type Effect struct {
	Event string    `json:"event"` // begun, effect, done; asked, replied; mode, face: what a server is from now on
	Text  string    `json:"text"`  // names the call: the value of its argument of that name
	At    time.Time `json:"at,omitzero"`
	PID   int       `json:"pid,omitempty"`   // of the server
	Face  string    `json:"face,omitempty"`  // which face of the tool had the effect; empty: its first
	Reply string    `json:"reply,omitempty"` // what the server was told: the action, and the content in JSON
}

// Entry is a line of the client's ledger, or of its reader's.
type Entry struct {
	Event   string    `json:"event"` // sending, acknowledged, result; deciding, decided, refused; accepted; chunk
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
	// Of a decision: the call, what it would be done with, and what was said.
	Call  string `json:"call,omitempty"`
	Hash  string `json:"hash,omitempty"`
	Allow bool   `json:"allow,omitempty"`
}

// The events of a client's ledger.
const (
	Sending      = "sending"
	Acknowledged = "acknowledged"
	Answered     = "result"
	ChunkRead    = "chunk"
	Deciding     = "deciding" // a person has said what becomes of a call
	Decided      = "decided"  // and was told that this counts
	Refused      = "refused"  // or that it does not
	Accepted     = "accepted" // an operator has accepted the face of a tool that Text names
)

// Process is a line of the ledger of processes.
type Process struct {
	PID     int    `json:"pid"`
	Command string `json:"command,omitempty"`
	// Orphan: it was alive when nothing of its worker was left.
	Orphan bool `json:"orphan,omitempty"`
	// GoroutinesBefore and After are a worker's, before it built anything and after it closed everything; 0 where it
	// did not come to say.
	GoroutinesBefore int    `json:"goroutines_before,omitempty"`
	GoroutinesAfter  int    `json:"goroutines_after,omitempty"`
	Stacks           string `json:"stacks,omitempty"`
	PeakBytes        int64  `json:"peak_bytes,omitempty"`
}

// Session is a session's export: its lines, and what the journal's own reader says of them.
type Session struct {
	File    string
	Lines   []journal.Line
	Problem error
}
