package journal

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

const (
	// ExportFormat and ExportVersion are in an export's first line. An import refuses a higher version with ErrNewer.
	ExportFormat  = "everturn-session"
	ExportVersion = 1
	// MaxLineBytes bounds a line of an export: a blob of MaxBlobBytes in base64 and the JSON around it.
	MaxLineBytes = MaxBlobBytes/3*4 + 8<<20
)

// Line is one line of an export, which is a session as JSON lines in UTF-8. Exactly one of the pointers is set. The
// lines come in the order of the fields: one header, blobs, turns, messages, inferences, calls, late results, requests,
// grants, chunks, one end.
//
// Sum chains the lines: it is SHA-256, in lower-case hex, over the sum of the line before (empty for the first), a line
// feed, and the line without its sum, encoded like Canonical. A changed, missing, duplicate or moved line is found at
// its place. The messages also carry the transcript's own hash chain.
//
// Content above a store's inline limit is in blob lines; the other lines name it by its hash.
type Line struct {
	Header     *ExportHeader     `json:"header,omitempty"`
	Blob       *ExportBlob       `json:"blob,omitempty"`
	Turn       *ExportTurn       `json:"turn,omitempty"`
	Message    *ExportMessage    `json:"message,omitempty"`
	Inference  *ExportInference  `json:"inference,omitempty"`
	Call       *ExportCall       `json:"call,omitempty"`
	LateResult *ExportLateResult `json:"late_result,omitempty"`
	Request    *ExportRequest    `json:"request,omitempty"`
	Grant      *turn.Grant       `json:"grant,omitempty"`
	Chunk      *turn.Chunk       `json:"chunk,omitempty"`
	End        *ExportEnd        `json:"end,omitempty"`
	Sum        string            `json:"sum,omitempty"`

	// Number is the line's number in the file it was read from, from 1.
	Number int64 `json:"-"`
	offset int64 // in bytes, where it was read
}

// ExportHeader is the first line. The messages' hash chain must lead to Session.Head. Session.Tenant is empty: Tenant
// holds it.
//
// A fork is exported whole, with its shared past: its messages up to Session.ForkSeq and the turns that they belong to.
// ForkHash is the hash of the last of these messages and ForkTurn is its turn. If a session of the importing journal
// has that past already, the import becomes a fork of that session; otherwise it becomes a session of its own.
type ExportHeader struct {
	Format   string        `json:"format"`
	Version  int           `json:"version"`
	Session  SessionRecord `json:"session"`
	Tenant   string        `json:"tenant,omitempty"`
	ForkHash string        `json:"fork_hash,omitempty"`
	ForkTurn string        `json:"fork_turn,omitempty"`
	// Mark is the session's first taint source (see Journal.Taint). An import ignores it: see Imported.TaintSource.
	TaintSource *TaintSource `json:"taint_source,omitempty"`
}

// ExportBlob is a blob; JSON holds Bytes as base64.
type ExportBlob struct {
	Hash      string `json:"hash"`
	MediaType string `json:"media_type"`
	Bytes     []byte `json:"bytes"`

	encoding string // of kept: see encode
	kept     []byte
}

// ExportTurn is a turn with its turn config. Its Session is empty: the header holds it.
type ExportTurn struct {
	TurnRecord
	Config     json.RawMessage `json:"config,omitempty"`
	ConfigBlob string          `json:"config_blob,omitempty"`
}

// ExportMessage is a message with its place in the chain. Message.ToolCalls is empty: Calls holds them. Its media are
// blobs of the export.
type ExportMessage struct {
	Seq      int64        `json:"seq"`
	Hash     string       `json:"hash"`
	Message  turn.Message `json:"message"`
	TextBlob string       `json:"text_blob,omitempty"`
	Calls    []StoredCall `json:"calls,omitempty"`
}

// ExportInference is the ledger's record of a step. Inference's Answer and Message are empty: Stored holds the
// completion (see storeCompletion), RawBlob its raw form, and the transcript has the message at Head.
type ExportInference struct {
	Inference
	ExpectSeq     int64           `json:"expect_seq"`
	Emitted       bool            `json:"emitted,omitempty"`
	FailedAttempt int             `json:"failed_attempt,omitempty"`
	FailedCode    turn.Code       `json:"failed_code,omitempty"`
	FailedMessage string          `json:"failed_message,omitempty"`
	Stored        json.RawMessage `json:"stored,omitempty"`
	StoredBlob    string          `json:"stored_blob,omitempty"`
	RawBlob       string          `json:"raw_blob,omitempty"`
}

// ExportCall is the ledger's record of a call. The continuation of a suspended call is not exported, so the call cannot
// be continued elsewhere: its outcome there is unknown.
type ExportCall struct {
	CallRecord
	ArgumentsBlob  string `json:"arguments_blob,omitempty"`
	ArgumentsHash  string `json:"arguments_hash"`
	TextBlob       string `json:"text_blob,omitempty"`
	Repeatable     bool   `json:"repeatable,omitempty"`
	ClaimedAttempt int    `json:"claimed_attempt,omitempty"`
	SettledAttempt int    `json:"settled_attempt,omitempty"`
}

// ExportLateResult is a settlement that came after the first one.
type ExportLateResult struct {
	Turn      string       `json:"turn"`
	CallID    string       `json:"call_id"`
	Attempt   int          `json:"attempt"`
	Outcome   turn.Outcome `json:"outcome"`
	Text      string       `json:"text,omitempty"`
	TextBlob  string       `json:"text_blob,omitempty"`
	FullBlob  string       `json:"full_blob,omitempty"`
	SizeBytes int64        `json:"size_bytes,omitempty"`
	At        time.Time    `json:"at,omitzero"`
	Digest    string       `json:"digest"`
	Media     []turn.Media `json:"media,omitempty"`
	// Due: the model has been told that the call's outcome is unknown, and has not been told this result yet.
	NotifyModel bool `json:"notify_model,omitempty"`
}

// ExportRequest is a request with its decision. Its Session is empty: the header holds it.
type ExportRequest struct {
	RequestRecord
	ArgumentsBlob  string `json:"arguments_blob,omitempty"`
	ArgumentsBytes int64  `json:"arguments_bytes,omitempty"` // of the whole arguments
}

// ExportEnd is the last line; Lines counts the lines before it.
type ExportEnd struct {
	Lines int64 `json:"lines"`
}

// Exporter writes an export. Stores give it the lines in order.
type Exporter struct {
	w     *bufio.Writer
	sum   string
	lines int64
}

// NewExporter returns an Exporter that writes to w.
func NewExporter(w io.Writer) *Exporter { return &Exporter{w: bufio.NewWriter(w)} }

// Write sets l.Sum and writes l as the next line.
func (e *Exporter) Write(l Line) error {
	e.sum = lineSum(e.sum, l)
	l.Sum = e.sum
	e.lines++
	if _, err := e.w.Write(append(canonical(l), '\n')); err != nil {
		return fmt.Errorf("writing line %d of the export: %w", e.lines, err)
	}
	return nil
}

// Close writes the end line. It does not close the underlying writer.
func (e *Exporter) Close() error {
	if err := e.Write(Line{End: &ExportEnd{Lines: e.lines}}); err != nil {
		return err
	}
	return e.w.Flush()
}

func lineSum(before string, l Line) string {
	l.Sum = ""
	h := sha256.New()
	h.Write([]byte(before + "\n"))
	h.Write(canonical(l))
	return hex.EncodeToString(h.Sum(nil))
}
