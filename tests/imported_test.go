package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/script"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// forged changes an export's lines and computes its checksums again, which is possible because the checksums have no
// key.
func forged(t *testing.T, export []byte, change func(l *journal.Line)) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	e := journal.NewExporter(&out)
	for raw := range bytes.Lines(export) {
		var l journal.Line
		require.NoError(t, json.Unmarshal(raw, &l))
		if change(&l); l.End == nil {
			require.NoError(t, e.Write(l))
		}
	}
	require.NoError(t, e.Close())
	return &out
}

// TestAnImportBringsNoPermission covers finding 3 of the attacks: neither a grant made elsewhere nor a file without its
// taint lets a call run here without an approval.
func TestAnImportBringsNoPermission(t *testing.T) {
	t.Parallel()
	ask := func(c *config.Config) { c.Policy.Ask = []string{"mcp/ledger/append"} }
	taint := func(c *config.Config) { c.Policy.Taint = turn.TaintOn }
	l := newLedger(t)
	r := newRig(t, script.Steps(appendText("before"), script.Text("Done.")), l.host(config.MCPTool{}), ask)
	r.work()
	begun := r.say(t.Name(), workflows.Message{Text: "the first"})
	r.allow(t.Name(), r.waits(begun.ID, 1)[0], turn.GrantTool)
	assert.Equal(t, "Done.", r.ended(begun.ID).Answer)
	var export bytes.Buffer
	require.NoError(t, r.store.Export(t.Context(), t.Name(), &export))

	for name, policy := range map[string]func(*config.Config){"rule": ask, "no mark": taint} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := session(t)
			file := forged(t, export.Bytes(), func(l *journal.Line) {
				if l.Header != nil {
					l.Header.Session.ID, l.Header.TaintSource = id, nil
				}
			})
			l := newLedger(t)
			r := newRig(t, script.Steps(appendText("after"), script.Text("Done again.")), l.host(config.MCPTool{}), policy)
			r.work()
			imported, err := r.store.Import(t.Context(), file)
			require.NoError(t, err)
			require.NotNil(t, imported.TaintSource)
			require.Len(t, imported.DroppedPermissions, 1)
			out := imported.DroppedPermissions[0]
			assert.Equal(t, []any{"mcp/ledger/append", turn.GrantTool, "ann"}, []any{out.Tool, out.Scope, out.By})
			begun := r.say(id, workflows.Message{Text: "the second"})
			request := r.waits(begun.ID, 1)[0]
			assert.Zero(t, l.count("effect", "after"))
			r.allow(id, request, "")
			assert.Equal(t, "Done again.", r.ended(begun.ID).Answer)
			assert.Equal(t, 1, l.count("effect", "after"))
			r.sound(id)
		})
	}
}

// TestALargeImportedSessionFailsItsTurn imports a session of 40 MB; the import succeeds because turns could have
// written that session. Its prompt is refused once, before it is loaded, and the session can be forked.
func TestALargeImportedSessionFailsItsTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, script.Steps(script.Text("never asked")))
	r.work()
	id := session(t)
	_, err := r.store.Import(t.Context(), largeSession(t, id))
	require.NoError(t, err)
	_, res := r.failure(r.start(id, map[string]any{"message": map[string]any{"text": "go on"}}))
	assert.Equal(t, turn.CodeLLMRejected, res.Code)
	assert.Contains(t, res.Message, "fork the session before message 3")
	steps, err := r.store.Inferences(t.Context(), res.Turn)
	require.NoError(t, err)
	require.Len(t, steps, 1)
	assert.Equal(t, 1, steps[0].Attempt, "it is not tried again")
	_, err = r.store.Fork(t.Context(), journal.ForkInput{Session: id, At: 2, ID: id + "-fork"})
	assert.NoError(t, err)
}

// largeSession returns an export of a session with four answers of 10 MB.
func largeSession(t *testing.T, id string) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	e := journal.NewExporter(&out)
	at := time.Now().UTC()
	record := journal.TurnRecord{ID: "of-" + id, MessageID: "m", MessageSeq: 1, State: turn.StateRunning, StartedAt: at}
	content := bytes.Repeat([]byte("a"), 10<<20)
	lines := []journal.Line{{Turn: &journal.ExportTurn{TurnRecord: record}}}
	head := turn.Head{}
	for i := range 5 {
		m := turn.Message{Role: turn.RoleAssistant, Text: string(content), TurnID: record.ID, Step: i}
		if i == 0 {
			m.ID, m.Role, m.Text = "m", turn.RoleUser, ""
		}
		head = journal.Next(head, m)
		lines = append(lines, journal.Line{Message: &journal.ExportMessage{Seq: head.Seq, Hash: head.Hash, Message: m}})
	}
	header := journal.ExportHeader{Format: journal.ExportFormat, Version: journal.ExportVersion}
	header.Session = journal.SessionRecord{ID: id, Agent: "default", Head: head, CreatedAt: at}
	for _, l := range append([]journal.Line{{Header: &header}}, lines...) {
		require.NoError(t, e.Write(l))
	}
	require.NoError(t, e.Close())
	return &out
}

func TestCLIListsWhatAnImportLeavesOut(t *testing.T) {
	t.Parallel()
	kept, err := os.ReadFile("../journal/testdata/requests.jsonl")
	require.NoError(t, err)
	said := newHome(t, "").begin(bytes.NewReader(kept), "import", "-").exits(0).out.String()
	assert.Contains(t, said, "\ntainted: ")
	assert.Contains(t, said, "\nnot imported: ")
	assert.Regexp(t, `(?m)^  (tool|call)  local/write_file  `, said)

	h := newHome(t, "")
	hostile := forged(t, kept, func(l *journal.Line) {
		if l.Chunk != nil && l.Chunk.Text != "" {
			l.Chunk.Text = "\x1b[2J"
		}
		if l.Grant != nil {
			l.Grant.Tool, l.Grant.By, l.Grant.ArgumentsHash = "mcp/x/\x1b[2Jsend\u202e\n  tool  local/x", "\x1b]0;x\a", ""
		}
	}).String()
	said = h.begin(strings.NewReader(hostile), "import", "-").exits(0).out.String()
	assert.NotContains(t, said, "\x1b")
	assert.Contains(t, said, `  tool  mcp/x/\x1b[2Jsend\u202e\n  tool  local/x  any arguments`)

	assert.NotContains(t, h.starter("show", "s2").exits(0).out.String(), "\x1b")

	again := decoded[journal.Imported](h.begin(strings.NewReader(hostile), "import", "-o", "json", "-").exits(0))
	assert.True(t, again.Unchanged)
	listed := decoded[journal.Imported](newHome(t, "").begin(strings.NewReader(hostile), "import", "-o", "json",
		"-").exits(0))
	require.NotEmpty(t, listed.DroppedPermissions)
	assert.Equal(t, "mcp/x/\x1b[2Jsend\u202e\n  tool  local/x", listed.DroppedPermissions[0].Tool)
	assert.NotNil(t, listed.TaintSource)
}
