package adapters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Artifacts reads the artifacts of tool results from a journal: see journal.DB.
type Artifacts interface {
	Artifact(ctx context.Context, turnID, hash string) (mediaType string, b []byte, err error)
}

// The bounds of one read, in bytes. The text and the note about its position must fit into one tool result.
const (
	maxRead   = 64 << 10
	noteBytes = 256 // room for the note
)

// readArtifactInput holds the arguments of local/read_artifact.
type readArtifactInput struct {
	Artifact string `json:"artifact" jsonschema:"the artifact's name, as the result gives it"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"the first byte to read; 0 by default"`
	Length   int    `json:"length,omitempty" jsonschema:"the maximum number of bytes; as many as fit by default"`
}

var artifactName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// registerArtifacts adds the tool local/read_artifact, which reads the rest of a truncated result. Each call gets
// the journal from source, which returns nil if there is none.
// maxResult is the maximum size of a tool result in bytes.
func registerArtifacts(r *tools.Registry, source func() Artifacts, maxResult int) error {
	most := max(min(maxRead, maxResult)-noteBytes, noteBytes)
	read := func(ctx context.Context, in readArtifactInput) (string, error) {
		req, ok := tools.CallInfo(ctx)
		j := source()
		if !ok || j == nil {
			return "", errors.New("this worker has no journal to read artifacts from")
		}
		if !artifactName.MatchString(in.Artifact) {
			return "", errors.New("an artifact's name is 64 hexadecimal digits: copy it from the result")
		}
		mediaType, b, err := j.Artifact(ctx, req.Turn, in.Artifact)
		if errors.Is(err, journal.ErrNotFound) {
			return "", errors.New("this session has no such artifact: copy its name from the result")
		}
		if err != nil {
			return "", fmt.Errorf("reading the artifact: %w", err)
		}
		return readPart(mediaType, b, in, most)
	}
	return tools.Add(r, "read_artifact",
		"Read more of a result that was too long to show, by its artifact's name and the first byte to read.", read,
		tools.LocalActivity(), tools.ReadOnly(), tools.Risk(turn.RiskLow))
}

// readPart returns the part of the artifact b that in selects, at most most bytes, cut on character boundaries. A last
// line tells the model the part's position and where to read on. If the artifact is not text, readPart returns only its
// media type and size.
func readPart(mediaType string, b []byte, in readArtifactInput, most int) (string, error) {
	size := int64(len(b))
	switch {
	case !readable(b):
		return fmt.Sprintf("[%s, %d bytes; not text, so it cannot be read here]", mediaType, size), nil
	case in.Offset < 0 || in.Length < 0:
		return "", errors.New("offset and length must not be negative")
	case in.Offset > size:
		return "", fmt.Errorf("the artifact is %d bytes; use a smaller offset", size)
	}
	if in.Length == 0 || in.Length > most {
		in.Length = most
	}
	from := printable.Start(b, int(in.Offset))
	// A part has room for one character at least: otherwise it could be empty, and reading on would not advance.
	to := printable.Start(b, min(from+max(in.Length, utf8.UTFMax), len(b)))
	note := fmt.Sprintf("[bytes %d to %d of %d; end]", from, to, size)
	if to < len(b) {
		note = fmt.Sprintf("[bytes %d to %d of %d; read on with offset %d]", from, to, size, to)
	}
	return string(b[from:to]) + "\n" + note, nil
}

// readable reports whether b is text.
func readable(b []byte) bool {
	return bytes.IndexByte(b, 0) < 0 && utf8.Valid(b)
}
