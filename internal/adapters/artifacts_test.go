package adapters

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// shelf holds artifacts by turn and hash.
type shelf map[string]string

func (s shelf) Artifact(_ context.Context, turnID, hash string) (string, []byte, error) {
	b, ok := s[turnID+"/"+hash]
	if !ok {
		return "", nil, fmt.Errorf("artifact %s: %w", hash, journal.ErrNotFound)
	}
	return "text/plain", []byte(b), nil
}

// reader returns a function that calls local/read_artifact as the given turn.
func reader(t *testing.T, s Artifacts, maxResult int) func(turnID string, in readArtifactInput) turn.ToolResult {
	t.Helper()
	h := tools.New(tools.Options{MaxResultBytes: maxResult}, nil)
	require.NoError(t, registerArtifacts(h, func() Artifacts { return s }, maxResult))
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	d := h.Catalogues(t.Context())[0].Tools[0]
	assert.Equal(t, turn.ActivityLocal, d.Activity)
	assert.True(t, d.ReadOnly)
	return func(turnID string, in readArtifactInput) turn.ToolResult {
		arguments, err := json.Marshal(in)
		require.NoError(t, err)
		r, err := h.Call(t.Context(), turn.ToolRequest{Tool: d.ID, Hash: d.Hash, Arguments: arguments, Session: "s",
			Turn: turnID, CallID: "1.0", Attempt: 1})
		require.NoError(t, err)
		return r
	}
}

var name = strings.Repeat("ab", 32)

func TestAnArtifactIsReadPartByPart(t *testing.T) {
	whole := strings.Repeat("grüße 世界 👩‍👩‍👧\n", 9000)
	read := reader(t, shelf{"s/" + name: whole}, 10_000)
	var got strings.Builder
	for in := (readArtifactInput{Artifact: name}); ; {
		r := read("s", in)
		require.Equal(t, turn.OutcomeOK, r.Outcome, r.Text)
		assert.LessOrEqual(t, len(r.Text), 10_000)
		assert.Nil(t, r.Full, "a part is shown whole")
		cut := strings.LastIndex(r.Text, "\n[bytes ")
		require.True(t, utf8.ValidString(r.Text[:cut]))
		got.WriteString(r.Text[:cut])
		if strings.HasSuffix(r.Text, "; end]") {
			break
		}
		_, err := fmt.Sscanf(r.Text[strings.LastIndex(r.Text, "offset"):], "offset %d]", &in.Offset)
		require.NoError(t, err)
	}
	assert.Equal(t, whole, got.String(), "the parts are the whole")

	r := read("s", readArtifactInput{Artifact: name, Offset: 3, Length: 1})
	assert.True(t, strings.HasPrefix(r.Text, "üß") || strings.HasPrefix(r.Text, "ü"),
		"it begins with a whole character: %q", r.Text)
}

func TestWhatCannotBeReadSaysWhy(t *testing.T) {
	read := reader(t, shelf{"s/" + name: "\x89PNG\x00", "s/" + strings.Repeat("0", 64): "short"}, 64<<10)
	for want, r := range map[string]turn.ToolResult{
		"[text/plain, 5 bytes; not text": read("s", readArtifactInput{Artifact: name}),
		"no such artifact":               read("other", readArtifactInput{Artifact: name}),
		"64 hexadecimal digits":          read("s", readArtifactInput{Artifact: "../../etc/passwd"}),
		"is 5 bytes":                     read("s", readArtifactInput{Artifact: strings.Repeat("0", 64), Offset: 6}),
		"not be negative":                read("s", readArtifactInput{Artifact: strings.Repeat("0", 64), Offset: -1}),
	} {
		assert.Contains(t, r.Text, want)
	}
	assert.Contains(t, reader(t, nil, 1000)("s", readArtifactInput{Artifact: name}).Text, "no journal")
}
