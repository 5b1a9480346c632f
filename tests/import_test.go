package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
)

// forged changes an export's lines and computes its checksums again, which is possible because the checksums have no
// key.
func forged(t *testing.T, export []byte, change func(l *journal.ExportLine)) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	e := journal.NewExportWriter(&out)
	for raw := range bytes.Lines(export) {
		var l journal.ExportLine
		require.NoError(t, json.Unmarshal(raw, &l))
		if change(&l); l.End == nil {
			require.NoError(t, e.Write(l))
		}
	}
	require.NoError(t, e.Close())
	return &out
}

func TestCLIListsThePermissionsThatAnImportDrops(t *testing.T) {
	t.Parallel()
	kept, err := os.ReadFile("../journal/testdata/requests.jsonl")
	require.NoError(t, err)
	output := newUserFolder(t, "").begin(bytes.NewReader(kept), "import", "-").exits(0).out.String()
	assert.Contains(t, output, "\ntainted: ")
	assert.Contains(t, output, "\nnot imported: ")
	assert.Regexp(t, `(?m)^  (tool|call)  local/write_file  `, output)

	h := newUserFolder(t, "")
	hostile := forged(t, kept, func(l *journal.ExportLine) {
		if l.Event != nil && l.Event.Text != "" {
			l.Event.Text = "\x1b[2J"
		}
		if l.Grant != nil {
			l.Grant.Tool, l.Grant.By, l.Grant.ArgumentsHash = "mcp/x/\x1b[2Jsend\u202e\n  tool  local/x", "\x1b]0;x\a", ""
		}
	}).String()
	output = h.begin(strings.NewReader(hostile), "import", "-").exits(0).out.String()
	assert.NotContains(t, output, "\x1b")
	assert.Contains(t, output, `  tool  mcp/x/\x1b[2Jsend\u202e\n  tool  local/x  any arguments`)

	assert.NotContains(t, h.everturn("show", "s2").exits(0).out.String(), "\x1b")

	again := decoded[journal.Imported](h.begin(strings.NewReader(hostile), "import", "-o", "json", "-").exits(0))
	assert.True(t, again.Unchanged)
	listed := decoded[journal.Imported](newUserFolder(t, "").begin(strings.NewReader(hostile), "import", "-o", "json",
		"-").exits(0))
	require.NotEmpty(t, listed.DroppedPermissions)
	assert.Equal(t, "mcp/x/\x1b[2Jsend\u202e\n  tool  local/x", listed.DroppedPermissions[0].Tool)
	assert.NotNil(t, listed.TaintSource)
}
