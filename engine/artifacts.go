package engine

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/internal/plain"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// artifacts reads the artifacts of tool results from a journal: see journal.Journal.
type artifacts interface {
	Artifact(ctx context.Context, turnID, hash string) (mediaType string, b []byte, err error)
}

// The bounds of one read, in bytes. The text and the note around it must fit into one result.
const (
	maxRead     = 64 << 10
	roomForNote = 256
)

// readArtifact holds the arguments of local/read_artifact.
type readArtifact struct {
	Artifact string `json:"artifact" jsonschema:"the artifact's name, as the result says it"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"the byte to begin with; 0 where it is left out"`
	Length   int    `json:"length,omitempty" jsonschema:"how many bytes at most; as many as fit where it is left out"`
}

var artifactName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// artifacts returns the engine's journal, or nil if it has none.
func (e *Engine) artifacts() artifacts {
	if e.journal == nil {
		return nil
	}
	return e.journal
}

// registerArtifacts adds local/read_artifact, which reads the rest of a truncated result. The journal is opened after
// the tools are built, so the tool calls open when it needs it. maxResult bounds a result, in bytes.
func registerArtifacts(local *toolbox.Local, open func() artifacts, maxResult int) error {
	most := max(min(maxRead, maxResult)-roomForNote, roomForNote)
	read := func(ctx context.Context, in readArtifact) (string, error) {
		req, ok := toolbox.CallInfo(ctx)
		store := open()
		if !ok || store == nil {
			return "", errors.New("there is no journal to read it from")
		}
		if !artifactName.MatchString(in.Artifact) {
			return "", errors.New("an artifact's name is 64 hexadecimal digits: give it as the result says it")
		}
		mediaType, b, err := store.Artifact(ctx, req.Turn, in.Artifact)
		if errors.Is(err, journal.ErrNotFound) {
			return "", errors.New("this session has no such artifact: give its name as the result says it")
		}
		if err != nil {
			return "", fmt.Errorf("reading the artifact: %w", err)
		}
		return readPart(mediaType, b, in, most)
	}
	return toolbox.AddTool(local, "read_artifact",
		"Read on in a result that was too long to be shown whole, by its artifact's name and the byte to begin with.", read,
		toolbox.LocalActivity(), toolbox.ReadOnly(), toolbox.Risk(turn.RiskLow))
}

// readPart returns a part of a text, cut on character boundaries, with a line that gives its position. If the artifact
// is not text, it returns a description.
func readPart(mediaType string, b []byte, in readArtifact, most int) (string, error) {
	size := int64(len(b))
	switch {
	case !readable(b):
		return fmt.Sprintf("[%s, %d bytes; it is not text and cannot be read here]", mediaType, size), nil
	case in.Offset < 0 || in.Length < 0:
		return "", errors.New("offset and length are numbers of bytes from 0 on")
	case in.Offset > size:
		return "", fmt.Errorf("it has %d bytes: begin before that", size)
	}
	if in.Length == 0 || in.Length > most {
		in.Length = most
	}
	from := plain.Start(b, int(in.Offset))
	to := plain.Start(b, min(from+max(in.Length, utf8.UTFMax), len(b)))
	where := fmt.Sprintf("[bytes %d to %d of %d; that is the end]", from, to, size)
	if to < len(b) {
		where = fmt.Sprintf("[bytes %d to %d of %d; read on with offset %d]", from, to, size, to)
	}
	return string(b[from:to]) + "\n" + where, nil
}

// readable reports whether b is text.
func readable(b []byte) bool {
	for _, c := range b {
		if c == 0 {
			return false
		}
	}
	return utf8.Valid(b)
}
