package journaltest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var exportPermissionPromises = []promise{
	{"an import carries no permission, and lists those that it left out", importWithholds},
	{"every import is tainted, whatever it says, and so are its forks", importTaints},
	{"an import names no blob that it does not bring", importNamesItsBlobs},
	{"a forged import is refused and leaves nothing", importForged},
}

// forge changes an export's lines and recomputes the sums, as anyone can, because the sums have no key. A line for
// which change returns nil is left out.
func forge(t *testing.T, b []byte, change func(l *journal.ExportLine) []journal.ExportLine) []byte {
	t.Helper()
	var out bytes.Buffer
	e := journal.NewExportWriter(&out)
	for raw := range bytes.Lines(b) {
		var l journal.ExportLine
		require.NoError(t, json.Unmarshal(raw, &l))
		if l.End != nil {
			continue
		}
		for _, changed := range change(&l) {
			require.NoError(t, e.Write(changed))
		}
	}
	require.NoError(t, e.Close())
	return out.Bytes()
}

// permissive is a session in the middle of a turn that holds every kind of permission: grants for a tool and for a
// call, an open approval, an unused one, a claimed call and a suspended one.
func permissive(t *testing.T, open func() *journal.DB) (*script, []turn.ToolCall) {
	t.Helper()
	s, list := asked(t, open, 5)
	s.ask(approvalOf(list[0]), approvalOf(list[1]), approvalOf(list[2]))
	tool, call := allowed(approvalOf(list[0])), allowed(approvalOf(list[1]))
	tool.Grant, call.Grant = turn.GrantTool, turn.GrantCall
	s.decide(tool, call)
	s.run(list[0], "done")
	s.claim(list[3], 1)
	s.claim(list[4], 1)
	s.suspend(list[4], 1, "a continuation")
	return s, list
}

func importWithholds(t *testing.T, open func() *journal.DB) {
	s, list := permissive(t, open)
	b := exportOf(t, s.DB, "s")
	other := *s
	other.DB = open()
	out := must(other.Import(t.Context(), bytes.NewReader(b)))(t)
	assert.False(t, out.Unchanged)
	arguments := func(i int, w journal.DroppedPermission) journal.DroppedPermission {
		w.Tool, w.Arguments, w.ArgumentsBytes = list[i].Tool, list[i].Arguments, int64(len(list[i].Arguments))
		w.ArgumentsHash = journal.HashOf([]byte(list[i].Arguments))
		return w
	}
	at := start.Add(time.Minute)
	require.Len(t, out.DroppedPermissions, 4)
	waiting := arguments(2, journal.DroppedPermission{Scope: journal.ScopeOnce, At: out.DroppedPermissions[3].At})
	assert.Equal(t, []journal.DroppedPermission{
		{Tool: list[0].Tool, Scope: turn.GrantTool, By: "ada", At: at},
		arguments(1, journal.DroppedPermission{Scope: turn.GrantCall, By: "ada", At: at}),
		arguments(1, journal.DroppedPermission{Scope: journal.ScopeOnce, By: "ada", At: at}), waiting,
	}, out.DroppedPermissions)

	state := other.state()
	assert.Empty(t, state.Rules)
	assert.Equal(t, turn.StateClosed, state.Turns[0].State)
	assert.Equal(t, journal.ImportedMessage, state.Turns[0].Message)
	requests := must(other.PendingRequests(t.Context(), "", 10))(t)
	assert.Empty(t, requests)
	ends := []turn.Outcome{turn.OutcomeOK, turn.OutcomeCancelled, turn.OutcomeCancelled, turn.OutcomeUnknown,
		turn.OutcomeUnknown}
	for i, want := range ends {
		m := state.Messages[2+i]
		assert.Equal(t, []any{list[i].ID, want}, []any{m.CallID, m.Outcome})
		claim, err := other.ClaimCall(t.Context(), other.claimInput(list[i], 2), true)
		assert.NotEqual(t, journal.ClaimGranted, claim.Claim, "nothing of an imported turn runs")
		assert.True(t, err != nil || claim.Claim == journal.ClaimSettled)
	}
	begun := must(other.Begin(t.Context(), other.beginInput()))(t)
	assert.True(t, begun.Turn.State.Terminal(), "nor does the turn go on")

	other.turn = "t2"
	assert.Empty(t, other.begin().Closed)
	other.infer(1, "and on it goes")
	other.finish()
}

func importTaints(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	s.settleTainting(list[0], 1, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "words of others"})
	s.finish()
	b := exportOf(t, s.DB, "s")
	for name, mark := range map[string]*journal.TaintSource{
		"without a mark": nil, "as it was": s.mark("s"), "with another": {Turn: "x", CallID: "x", Tool: "local/harmless"},
	} {
		forged := forge(t, b, func(l *journal.ExportLine) []journal.ExportLine {
			if l.Header != nil {
				l.Header.TaintSource = mark
			}
			return []journal.ExportLine{*l}
		})
		other := *s
		other.DB = open()
		out, err := other.Import(t.Context(), bytes.NewReader(forged))
		require.NoError(t, err, name)
		require.NotNil(t, out.TaintSource, name)
		assert.Equal(t, journal.ImportTaint(out.TaintSource.At), *out.TaintSource, name)
		assert.Equal(t, out.TaintSource, other.mark("s"), name)
		other.fork(1, "f").fork(1, "g")
		assert.Equal(t, out.TaintSource, other.mark("g"), name)
		again := exportOf(t, other.DB, "g")
		third := *s
		third.DB = open()
		importInto(t, third.DB, again)
		assert.NotNil(t, third.mark("g"), name)
	}
}

// importNamesItsBlobs: an export must not name a hash without bringing its blob, because the import could then read a
// blob of another session.
func importNamesItsBlobs(t *testing.T, open func() *journal.DB) {
	s := toolSessions(t, open)["media"]
	b := exportOf(t, s.DB, "s")
	for _, hash := range blobsOf(t, b) {
		j := open()
		forged := forge(t, b, func(l *journal.ExportLine) []journal.ExportLine {
			if l.Blob == nil || l.Blob.Hash != hash {
				return []journal.ExportLine{*l}
			}
			_, err := j.PutBlob(t.Context(), l.Blob.MediaType, l.Blob.Bytes) // another session's
			require.NoError(t, err)
			return nil
		})
		_, err := j.Import(t.Context(), bytes.NewReader(forged))
		require.ErrorContains(t, err, "no blob")
		_, err = j.Session(t.Context(), "s")
		assert.ErrorIs(t, err, journal.ErrNotFound)
	}
}

func blobsOf(t *testing.T, b []byte) (hashes []string) {
	t.Helper()
	forge(t, b, func(l *journal.ExportLine) []journal.ExportLine {
		if l.Blob != nil {
			hashes = append(hashes, l.Blob.Hash)
		}
		return nil
	})
	require.NotEmpty(t, hashes)
	return hashes
}

func importForged(t *testing.T, open func() *journal.DB) {
	s, _ := permissive(t, open)
	b := exportOf(t, s.DB, "s")
	for name, change := range map[string]func(l *journal.ExportLine) []journal.ExportLine{
		"two turns that run": func(l *journal.ExportLine) []journal.ExportLine {
			if l.Turn == nil {
				return []journal.ExportLine{*l}
			}
			second := *l.Turn
			second.ID, second.MessageID, second.MessageSeq = "t2", "m-t2", 2
			return []journal.ExportLine{*l, {Turn: &second}}
		},
		"the open wait of a turn that is over": func(l *journal.ExportLine) []journal.ExportLine {
			if l.Turn != nil {
				l.Turn.State, l.Turn.EndedAt = turn.StateCompleted, start
			}
			return []journal.ExportLine{*l}
		},
		"a rule for a tool without end": func(l *journal.ExportLine) []journal.ExportLine {
			if l.Grant != nil {
				l.Grant.Tool = strings.Repeat("x", journal.MaxIDBytes+1)
			}
			return []journal.ExportLine{*l}
		},
	} {
		j := open()
		_, err := j.Import(t.Context(), bytes.NewReader(forge(t, b, change)))
		require.Error(t, err, name)
		list := must(j.Sessions(t.Context(), 10))(t)
		assert.Empty(t, list, name)
	}
	importBesideOthers(t, open, s, b)
}

// importBesideOthers imports b, the export of s, into a journal that has its turn, and with counts and times that are
// false.
func importBesideOthers(t *testing.T, open func() *journal.DB, s *script, b []byte) {
	taken := &script{T: t, DB: open(), session: "mine", turn: "t1", at: start}
	taken.begin()
	taken.unchanged(func() {
		_, err := taken.Import(t.Context(), bytes.NewReader(b))
		assert.ErrorIs(t, err, journal.ErrConflict, "a turn of another session is not taken over")
	})
	counted := *s
	counted.DB = open()
	importInto(t, counted.DB, forge(t, b, func(l *journal.ExportLine) []journal.ExportLine {
		if l.Header != nil {
			l.Header.Session.Turns = 1<<62 + 1<<61
			l.Header.Session.UpdatedAt = time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		return []journal.ExportLine{*l}
	}))
	assert.Equal(t, 1, counted.sessionRecord().Turns, "the turns are counted, not believed")
	assert.False(t, counted.sessionRecord().UpdatedAt.After(time.Now()), "a session is not updated in the future")
}
