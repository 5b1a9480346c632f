package journal

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/everturn/everturn/workflows/turn"
)

const (
	// ExportFormat and ExportVersion are in an export's first line. An import refuses a higher version with ErrNewer.
	ExportFormat  = "everturn-session"
	ExportVersion = 1
	// MaxExportLineBytes bounds a line of an export: a blob of MaxBlobBytes in base64 and the JSON around it.
	MaxExportLineBytes = MaxBlobBytes/3*4 + 8<<20
)

// ExportLine is one line of an export: a session as JSON lines in UTF-8. Exactly one of the pointers is set. The first
// line is the header and the last one the end. A blob comes before the lines that name it, and a turn before the lines
// that belong to it.
//
// Sum chains the lines: it is SHA-256, in lower-case hex, over the sum of the line before (empty for the first), a
// line feed, and the line without its sum, encoded like Canonical. So an import finds the first line that was
// changed, removed, repeated or moved. The messages also have the transcript's own hash chain.
//
// Blobs are the artifacts of calls: media and whole outputs. Request.Session is empty, because the header names the
// session. Request.Arguments are the beginning of long arguments, which users were shown; the transcript has all of
// them.
type ExportLine struct {
	Header     *ExportHeader     `json:"header,omitempty"`
	Blob       *ExportBlob       `json:"blob,omitempty"`
	Turn       *ExportTurn       `json:"turn,omitempty"`
	Message    *ExportMessage    `json:"message,omitempty"`
	Inference  *ExportInference  `json:"inference,omitempty"`
	Call       *CallRecord       `json:"call,omitempty"`
	LateResult *LateResult       `json:"late_result,omitempty"`
	Request    *turn.Request     `json:"request,omitempty"`
	Grant      *turn.Grant       `json:"grant,omitempty"`
	Compaction *ExportCompaction `json:"compaction,omitempty"`
	Event      *turn.Event       `json:"event,omitempty"`
	End        *ExportEnd        `json:"end,omitempty"`
	Sum        string            `json:"sum,omitempty"`
}

// ExportHeader is the first line. The messages' hash chain must end with Session.Head. Session.Tenant is empty, because
// the field Tenant has the tenant.
//
// A fork is exported with its shared past: the messages up to Session.ForkSeq and the turns that they belong to.
// ForkHash is the hash of the last of these messages and ForkTurn is its turn. If the importing journal has a session
// with the same past, the import becomes a fork of that session; otherwise it becomes a session of its own.
type ExportHeader struct {
	Format   string        `json:"format"`
	Version  int           `json:"version"`
	Session  SessionRecord `json:"session"`
	Tenant   string        `json:"tenant,omitempty"`
	ForkHash string        `json:"fork_hash,omitempty"`
	ForkTurn string        `json:"fork_turn,omitempty"`
	// TaintSource is the session's first taint source. An import ignores it: see Imported.TaintSource.
	TaintSource *TaintSource `json:"taint_source,omitempty"`
	// Tree is the state of the session's tree, whose commits the export does not have; nil if there is none.
	Tree *ExportTree `json:"tree,omitempty"`
}

// ExportTree is the state of a session's tree: see Tree.
type ExportTree struct {
	Head string `json:"head"`
	Base string `json:"base,omitempty"`
}

// ExportBlob is a blob; JSON holds Bytes as base64.
type ExportBlob struct {
	Hash      string `json:"hash"`
	MediaType string `json:"media_type"`
	Bytes     []byte `json:"bytes"`
}

// ExportTurn is a turn with its turn config. Its Session is empty, because the header names the session.
type ExportTurn struct {
	TurnRecord
	Config json.RawMessage `json:"config,omitempty"`
}

// ExportMessage is a message with its position and hash in the transcript.
type ExportMessage struct {
	Seq     int64        `json:"seq"`
	Hash    string       `json:"hash"`
	Message turn.Message `json:"message"`
}

// ExportInference is the ledger's record of an inference. Inference.Message is empty, because the transcript has the
// message at Inference.Head. Raw is Completion.Raw as bytes, because a provider may have sent something that is not
// JSON.
type ExportInference struct {
	Inference
	ExpectSeq     int64     `json:"expect_seq"`
	Emitted       bool      `json:"emitted,omitempty"`
	FailedAttempt int       `json:"failed_attempt,omitempty"`
	FailedCode    turn.Code `json:"failed_code,omitempty"`
	FailedMessage string    `json:"failed_message,omitempty"`
	Raw           []byte    `json:"raw,omitempty"`
}

// ExportCompaction is a compaction. Request is the ID of the user's request for it, empty if no user requested it: see
// journal.DB.AddCompaction.
type ExportCompaction struct {
	turn.Compaction
	Request string `json:"request,omitempty"`
}

// ExportEnd is the last line; Lines counts the lines before it.
type ExportEnd struct {
	Lines int64 `json:"lines"`
}

// ExportWriter writes the lines of an export with their sums. The caller writes them in order.
type ExportWriter struct {
	w     *bufio.Writer
	sum   string // of the last line
	lines int64  // written so far
}

// NewExportWriter returns an ExportWriter that writes to w.
func NewExportWriter(w io.Writer) *ExportWriter { return &ExportWriter{w: bufio.NewWriter(w)} }

// Write sets l.Sum and writes l as the next line.
func (e *ExportWriter) Write(l ExportLine) error {
	sum, err := lineSum(e.sum, l)
	if err != nil {
		return fmt.Errorf("encoding line %d of the export: %w", e.lines+1, err)
	}
	l.Sum = sum
	e.sum = sum
	e.lines++
	if _, err := e.w.Write(append(mustJSON(l), '\n')); err != nil {
		return fmt.Errorf("writing line %d of the export: %w", e.lines, err)
	}
	return nil
}

// Close writes the end line. It does not close the underlying writer.
func (e *ExportWriter) Close() error {
	if err := e.Write(ExportLine{End: &ExportEnd{Lines: e.lines}}); err != nil {
		return err
	}
	return e.w.Flush()
}

// lineSum returns the sum of a line. before is the sum of the line before it.
func lineSum(before string, l ExportLine) (string, error) {
	l.Sum = ""
	b, err := encodeJSON(l)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write([]byte(before + "\n"))
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil)), nil
}
