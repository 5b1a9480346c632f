package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/everturn/everturn/internal/jsonbound"
	"github.com/everturn/everturn/workflows/turn"
)

// Imported is the result of an import. Anyone can write an export, because its checksums have no key. So an import
// takes over the history, but no grants, approvals or other data that would permit a later call.
type Imported struct {
	Session SessionRecord `json:"session"`
	// Unchanged means that the journal had the session already, with at least the export's messages, and the import
	// wrote nothing.
	Unchanged bool `json:"unchanged,omitempty"`
	// TaintSource is the session's taint source. Every imported session is tainted, whatever the export contains; nil
	// is possible only if Unchanged.
	TaintSource *TaintSource `json:"taint_source,omitempty"`
	// DroppedPermissions are the permissions in the export that the imported session does not have. It is empty if
	// Unchanged.
	DroppedPermissions []DroppedPermission `json:"dropped_permissions,omitempty"`
	// Tree is the state of the session's tree in the export; nil if it has none.
	Tree *ExportTree `json:"tree,omitempty"`
}

// ScopeOnce is the scope of a DroppedPermission that was an approval of one call. No decision has this scope.
const ScopeOnce turn.GrantScope = "once"

// DroppedPermission is a permission, or a request for one, that an import left out.
type DroppedPermission struct {
	Tool string `json:"tool"`
	// Scope is turn.GrantTool or turn.GrantCall for a grant, and ScopeOnce for a call that waited for its approval,
	// or was approved and had not ended.
	Scope turn.GrantScope `json:"scope"`
	// Arguments are the call's arguments as the approval showed them, ArgumentsBytes is their whole size. Both are
	// empty for turn.GrantTool, and if the export does not have them.
	Arguments      string    `json:"arguments,omitempty"`
	ArgumentsBytes int64     `json:"arguments_bytes,omitempty"`
	ArgumentsHash  string    `json:"arguments_hash,omitempty"`
	By             string    `json:"by,omitempty"`
	At             time.Time `json:"at,omitzero"`
}

// ImportTaint returns the taint source of a session that was imported at a time. Its turn and call do not exist.
func ImportTaint(at time.Time) TaintSource {
	return TaintSource{Turn: "import", CallID: "import", Tool: "an imported file", At: at}
}

// ReadExport yields the lines of an export. It checks each line before it yields it: its size, content and position,
// its sum, and the transcript's hash chain. The first error names the line and ends the sequence; the caller must then
// discard the lines before it. Without an error, the lines are one whole export.
func ReadExport(r io.Reader) iter.Seq2[ExportLine, error] {
	return func(yield func(ExportLine, error) bool) {
		lines := lineReader{r: bufio.NewReaderSize(r, 64<<10)}
		check := exportCheck{blobs: map[string]int64{}, turnEnded: map[string]bool{}}
		for {
			l, err := lines.next()
			if errors.Is(err, io.EOF) && check.ended {
				return
			}
			if err == nil {
				err = check.checkLine(l)
			}
			if errors.Is(err, io.EOF) {
				err = errors.New("the export ends here, before its end line: it was cut off")
			}
			if err != nil {
				yield(ExportLine{}, fmt.Errorf("line %d: %w", lines.number, err))
				return
			}
			if !yield(l, nil) {
				return
			}
		}
	}
}

// maxLineDepth and maxLineValues bound the levels and the values in the JSON of a line. No journal writes as many.
// Without these bounds, a line of MaxExportLineBytes with many small values would take gigabytes when it is decoded.
const (
	maxLineDepth  = 1000
	maxLineValues = 1 << 20
)

// lineReader decodes lines and checks their sums.
type lineReader struct {
	r      *bufio.Reader
	number int64  // of the last line, from 1
	sum    string // of the last line
}

// next returns the next line, or io.EOF at the end of the input.
func (lr *lineReader) next() (l ExportLine, err error) {
	lr.number++
	text, err := lr.read()
	if err != nil {
		return l, err
	}
	var shape jsonbound.Scanner
	if shape.Add(text, maxLineDepth, maxLineValues) != jsonbound.None {
		return l, fmt.Errorf("it has more than %d levels or %d values", maxLineDepth, maxLineValues)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return l, lr.notAnExport(text, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return l, errors.New("there is more than one JSON value")
	}
	if lr.sum, err = lineSum(lr.sum, l); err != nil {
		return l, lr.notAnExport(text, err)
	}
	if lr.sum != l.Sum {
		return l, errors.New("its sum does not fit: this line, or its place in the file, was changed")
	}
	return l, nil
}

// notAnExport returns the error for a line that does not decode, or that has no sum because it does not encode again.
// text is the line. A first line with a higher format version is an ErrNewer; any other line is not an export's.
func (lr *lineReader) notAnExport(text []byte, cause error) error {
	var probe struct {
		Header struct {
			Format  string `json:"format"`
			Version int    `json:"version"`
		} `json:"header"`
	}
	if lr.number == 1 && json.Unmarshal(text, &probe) == nil && probe.Header.Format == ExportFormat &&
		probe.Header.Version > ExportVersion {
		return newerExportError(probe.Header.Version)
	}
	if lr.number == 1 {
		return fmt.Errorf("not an export of a session: %w", cause)
	}
	return fmt.Errorf("not a line of an export: %w", cause)
}

// newerExportError returns an error that wraps ErrNewer, for an export with a version above ExportVersion.
func newerExportError(version int) error {
	return fmt.Errorf("%w: the export's version is %d and this program knows %d: use the newer program", ErrNewer,
		version,
		ExportVersion)
}

// read returns the next line without its line feed. At the end of the input it returns io.EOF.
func (lr *lineReader) read() ([]byte, error) {
	var line []byte
	for {
		part, err := lr.r.ReadSlice('\n')
		if len(line)+len(part) > MaxExportLineBytes {
			return nil, fmt.Errorf("it is longer than %d bytes", MaxExportLineBytes)
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("reading: %w", err)
		default:
			return bytes.TrimRight(line, "\r\n"), nil
		}
	}
}
