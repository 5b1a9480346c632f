package journaltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var exportPromises = []promise{
	{"an export is imported as it was", exportRoundTrip},
	{"an import of a session that the journal has changes nothing", importTwice},
	{"a tampered or cut import is refused and leaves nothing", importTampered},
	{"an import that does not fit the journal is refused", importConflict},
	{"an imported session continues", importGoesOn},
}

// exported fills a journal with a session that has rows of every kind, and exports it.
func exported(t *testing.T, open func() *journal.DB) (*script, []byte) {
	t.Helper()
	s := newScript(t, open(), "t1")
	threeCalls(s)
	s.settleCall(turn.ToolCall{ID: "1.0"}, 1, turn.OutcomeError, bigText(2000, "late"))
	s.turn = "t2"
	s.begin()
	big := turn.ToolCall{ID: "1.0", Tool: "local/write_file", Arguments: bigText(3000, "arguments")}
	s.infer(1, bigText(4000, "thinking"), big)
	request := approvalOf(big)
	request.Beside = &turn.Beside{Count: 1, Calls: []turn.ToolCall{{ID: big.ID}}}
	s.ask(request)
	always := allowed(approvalOf(big))
	always.Grant = turn.GrantCall
	s.decide(always)
	s.run(big, bigText(5000, "output"))
	s.start(2, resultsOf(big)...)
	require.NoError(t, s.append(2, 1, "half"))
	_ = must(s.FailInference(t.Context(), s.key(2), 1, turn.CodeLLMTransport, "reset"))(t)
	s.start(2)
	_ = must(s.SettleInference(t.Context(), s.settleInput(2, 2, "done")))(t)
	s.finish()
	s.turn = "t3"
	s.begin()
	in := s.startInput(1)
	in.Messages = joined("j1")
	_ = must(s.StartInference(t.Context(), in))(t)
	s.ask(questionOf("q1", 1))
	return s, export(t, s.DB)
}

// history returns the lines of an export that an import takes over unchanged.
func history(t *testing.T, b []byte) (lines []journal.ExportLine) {
	t.Helper()
	for raw := range bytes.Lines(b) {
		var l journal.ExportLine
		require.NoError(t, json.Unmarshal(raw, &l))
		if l.Sum = ""; l.Header == nil && l.Grant == nil && l.End == nil {
			lines = append(lines, l)
		}
	}
	return lines
}

func export(t *testing.T, db *journal.DB) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, db.Export(t.Context(), "s", &b))
	return b.Bytes()
}

func exportRoundTrip(t *testing.T, open func() *journal.DB) {
	s, _ := exported(t, open)
	s.finish()
	b := export(t, s.DB)
	other := *s
	other.DB = open()
	assert.Equal(t, s.sessionRecord(), importInto(t, other.DB, b))
	for _, id := range []string{"t1", "t2", "t3"} {
		s.turn, other.turn = id, id
		want := s.state()
		want.Rules = nil
		assert.Equal(t, want, other.state())
	}
	assert.Equal(t, history(t, b), history(t, export(t, other.DB)))
	out := must(other.Begin(t.Context(), (&script{session: "s", turn: "t1", at: start}).beginInput()))(t)
	assert.JSONEq(t, `{"pin":"t1"}`, string(out.Config))
	assert.ErrorIs(t, s.Export(t.Context(), "none", &bytes.Buffer{}), journal.ErrNotFound)
}

func importTwice(t *testing.T, open func() *journal.DB) {
	s, b := exported(t, open)
	s.finish()
	s.turn = "t4"
	s.begin() // the session is now longer than its export
	s.unchanged(func() {
		out := must(s.Import(t.Context(), bytes.NewReader(b)))(t)
		assert.Equal(t, journal.Imported{Session: s.sessionRecord(), Unchanged: true}, out)
	})
}

func importTampered(t *testing.T, open func() *journal.DB) {
	_, b := exported(t, open)
	lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
	empty := open()
	refuse := func(what string, text string) {
		t.Helper()
		_, err := empty.Import(t.Context(), strings.NewReader(text))
		require.Error(t, err, what)
		assert.Contains(t, err.Error(), "line ", what)
		_, err = empty.Session(t.Context(), "s")
		assert.ErrorIs(t, err, journal.ErrNotFound, what)
	}
	for i, line := range lines {
		without := strings.Join(lines[:i], "")
		rest := strings.Join(lines[i+1:], "")
		refuse(fmt.Sprintf("line %d dropped", i+1), without+rest)
		refuse(fmt.Sprintf("line %d doubled", i+1), without+line+"\n"+line+rest)
		refuse(fmt.Sprintf("line %d changed", i+1), without+changeOne(line)+rest)
	}
	refuse("nothing", "")
	refuse("another file", "hello\n")
	refuse("another JSON", "{}\n")
	refuse("something after the end", string(b)+lines[1])
	_, err := empty.Import(t.Context(), bytes.NewReader(b))
	assert.NoError(t, err, "nothing of the refused ones is in the way")
}

// changeOne changes one digit or letter in the middle of a line.
func changeOne(line string) string {
	b := []byte(line)
	for i := len(b) / 2; i < len(b); i++ {
		switch {
		case b[i] >= '1' && b[i] <= '8', b[i] >= 'b' && b[i] <= 'y':
			b[i]++
			return string(b)
		}
	}
	return "x" + line
}

func importConflict(t *testing.T, open func() *journal.DB) {
	_, b := exported(t, open)
	other := newScript(t, open(), "another")
	other.unchanged(func() {
		_, err := other.Import(t.Context(), bytes.NewReader(b))
		assert.ErrorIs(t, err, journal.ErrConflict, "there is another session of that name")
	})
	taken := &script{T: t, DB: open(), session: "elsewhere", turn: "t2", at: start}
	taken.begin()
	taken.unchanged(func() {
		_, err := taken.Import(t.Context(), bytes.NewReader(b))
		assert.ErrorIs(t, err, journal.ErrConflict, "one of its turns is in another session")
	})
}

func importGoesOn(t *testing.T, open func() *journal.DB) {
	_, b := exported(t, open)
	j := open()
	rec := importInto(t, j, b)
	s := &script{T: t, DB: j, session: "s", turn: "t9", at: rec.UpdatedAt}
	out := s.begin()
	assert.Empty(t, out.Closed, "the turn that was running elsewhere was closed by the import")
	s.infer(1, "and on it goes")
	s.finish()
	assert.Equal(t, rec.Turns+1, s.sessionRecord().Turns)
	s.turn = "t3"
	s.events()
}
