package journaltest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var samplePromises = []promise{
	{"what a server asks the model is kept and paid once", sampled},
	{"the model is asked for a server what a person has allowed, byte for byte", sampleAllowed},
	{"a server asks the model in the name of a call that ran, and so often", sampleRefused},
	{"a sample ends once, and with its turn", sampleEnds},
}

// sampleText is what a server asks the model.
const sampleText = `{"messages":[{"role":"user","text":"a <b> & c"}],"max_tokens":5}`

func (s *script) sampleInput(c turn.ToolCall, n string) journal.SampleInput {
	return journal.SampleInput{
		Turn: s.turn, CallID: c.ID, ID: "s" + c.ID + ".1." + n, Server: "mcp/x", Request: []byte(sampleText), Most: 2, At: s.now(),
	}
}

func (s *script) askSample(in journal.SampleInput) journal.SampleRecord {
	s.Helper()
	rec, err := s.AskSample(s.Context(), in)
	require.NoError(s, err)
	return rec
}

func (s *script) startSample(rec journal.SampleRecord) (journal.SampleRecord, error) {
	return s.StartSample(s.Context(), journal.StartSample{Session: s.session, Turn: s.turn, ID: rec.ID, Hash: rec.Hash, Model: "m", At: s.now()})
}

// startedSample is one that needs nobody's word, and whose first attempt runs.
func startedSample(t T, open func() journal.Store) (*script, journal.SampleRecord) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	in := s.sampleInput(list[0], "1")
	in.Free = true
	rec, err := s.startSample(s.askSample(in))
	require.NoError(t, err)
	require.Equal(t, 1, rec.Attempt)
	return s, rec
}

func sampleWaitOf(c turn.ToolCall, rec journal.SampleRecord) turn.Wait {
	return turn.Wait{
		ID: rec.ID, Kind: turn.WaitApproval, Step: stepOf(c), Tool: "what the caller says", Arguments: "what the caller says", ArgumentsHash: rec.Hash,
		Call: c.ID, Widest: turn.AlwaysNever, Inquiry: &turn.Inquiry{Key: "k", Message: "m", Sample: &turn.Sampling{ID: rec.ID, Hash: rec.Hash, MaxTokens: 5, Most: 2}},
	}
}

func sampled(t T, open func() journal.Store) {
	s, rec := startedSample(t, open)
	again, err := s.startSample(rec)
	require.NoError(t, err)
	assert.Equal(t, 2, again.Attempt, "the worker died")
	failures, err := s.FailSample(t.Context(), s.turn, rec.ID, 2)
	require.NoError(t, err)
	assert.Equal(t, 1, failures)
	failures, err = s.FailSample(t.Context(), s.turn, rec.ID, 2)
	require.NoError(t, err)
	assert.Equal(t, 1, failures, "an attempt's failure counts once")

	answer := turn.Sampled{Text: strings.Repeat("a <b> & c", 1000), Model: "m-1", StopReason: "endTurn", Usage: turn.Usage{InputTokens: 7, OutputTokens: 3}}
	settle := journal.SettleSample{Turn: s.turn, ID: rec.ID, Attempt: 2, Answer: &answer, At: s.now()}
	done, err := s.SettleSample(t.Context(), settle)
	require.NoError(t, err)
	assert.Equal(t, &answer, done.Answer)
	s.unchanged(func() {
		for _, again := range []func() (journal.SampleRecord, error){
			func() (journal.SampleRecord, error) { return s.SettleSample(t.Context(), settle) },
			func() (journal.SampleRecord, error) { return s.startSample(rec) },
			func() (journal.SampleRecord, error) { return s.Sample(t.Context(), s.turn, rec.ID) },
		} {
			same, err := again()
			require.NoError(t, err)
			assert.Equal(t, done, same)
		}
	})
	list, err := s.Samples(t.Context(), s.turn)
	require.NoError(t, err)
	assert.Equal(t, []journal.SampleRecord{done}, list)
	var told []string
	for _, c := range s.chunks() {
		if c.Kind == turn.ChunkSampleMade {
			told = append(told, string(c.Data))
		}
	}
	require.Len(t, told, 1, "readers are told once")
	assert.JSONEq(t, `{"id":"s1.0.1.1","call_id":"1.0","tool":"local/read_file","model":"m-1","stop_reason":"endTurn","usage":{"input_tokens":7,"output_tokens":3}}`, told[0])
}

func sampleAllowed(t T, open func() journal.Store) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	rec := s.askSample(s.sampleInput(list[0], "1"))
	denied := s.askSample(s.sampleInput(list[0], "2"))
	unapproved := func(rec journal.SampleRecord) {
		t.Helper()
		_, err := s.startSample(rec)
		assert.ErrorIs(t, err, journal.ErrUnapproved)
	}
	unapproved(rec)
	w := sampleWaitOf(list[0], rec)
	s.unchanged(func() {
		other := w
		other.ArgumentsHash = journal.HashOf([]byte("x"))
		assert.Error(t, s.askFails(s.askInput(other)), "a person would decide about what is not sent")
		other = w
		other.ID = "s1.0.1.7"
		assert.Error(t, s.askFails(s.askInput(other)))
	})
	s.ask(w, sampleWaitOf(list[0], denied))
	unapproved(rec)
	waits, err := s.Waits(t.Context(), s.turn)
	require.NoError(t, err)
	w.Tool, w.Arguments = "local/read_file", sampleText // the ledger's words
	assert.Equal(t, w, waits[0].Wait)
	shown := s.said(turn.ChunkApprovalRequested)
	require.Len(t, shown, 2)
	assert.Equal(t, sampleText, shown[0].Arguments)
	always := turn.Ruling{ID: rec.ID, Verdict: turn.VerdictAllowed, Allowed: true, ArgumentsHash: rec.Hash, Always: turn.AlwaysTool}
	assert.Error(t, s.Decide(t.Context(), s.decideInput(always)), "that would allow the tool")
	s.decide(turn.Ruling{ID: rec.ID, Verdict: turn.VerdictAllowed, Allowed: true, ArgumentsHash: rec.Hash},
		turn.Ruling{ID: denied.ID, Verdict: turn.VerdictDenied, ArgumentsHash: denied.Hash})
	unapproved(denied)
	other := rec
	other.Hash = journal.HashOf([]byte("x"))
	unapproved(other)
	started, err := s.startSample(rec)
	require.NoError(t, err)
	assert.Equal(t, sampleText, string(started.Request))
}

func sampleRefused(t T, open func() journal.Store) {
	s, list := asked(t, open, 2)
	s.claim(list[0], 1)
	refused := func(change func(*journal.SampleInput)) error {
		t.Helper()
		in := s.sampleInput(list[0], "1")
		change(&in)
		var err error
		s.unchanged(func() { _, err = s.AskSample(t.Context(), in) })
		assert.Error(t, err)
		return err
	}
	assert.ErrorIs(t, refused(func(in *journal.SampleInput) { in.CallID = list[1].ID }), journal.ErrConflict)
	refused(func(in *journal.SampleInput) { in.Request = []byte("{") })
	refused(func(in *journal.SampleInput) {
		in.Request = []byte(`"` + strings.Repeat("x", journal.MaxSampleBytes) + `"`)
	})
	refused(func(in *journal.SampleInput) { in.ID = "" })
	assert.ErrorIs(t, refused(func(in *journal.SampleInput) { in.Turn = "none" }), journal.ErrNotFound)
	in := s.sampleInput(list[0], "1")
	s.askSample(in)
	s.unchanged(func() { s.askSample(in) })
	assert.ErrorIs(t, refused(func(in *journal.SampleInput) { in.Request = []byte("{}") }), journal.ErrConflict)
	s.askSample(s.sampleInput(list[0], "2"))
	assert.ErrorIs(t, refused(func(in *journal.SampleInput) { in.ID = "s1.0.1.3" }), journal.ErrSpent)
	elsewhere := s.sampleInput(list[0], "3")
	elsewhere.Server = "mcp/y"
	s.askSample(elsewhere)
	_, err := s.Sample(t.Context(), s.turn, "s9.9.9.9")
	assert.ErrorIs(t, err, journal.ErrNotFound)
}

func sampleEnds(t T, open func() journal.Store) {
	s, rec := startedSample(t, open)
	late := journal.SettleSample{Turn: s.turn, ID: rec.ID, Attempt: 1, Answer: &turn.Sampled{Text: "late"}, At: s.now()}
	s.unchanged(func() {
		for _, odd := range []journal.SettleSample{{Turn: s.turn, ID: rec.ID, Attempt: 1}, {Turn: s.turn, ID: rec.ID, Attempt: 9, Answer: late.Answer}} {
			_, err := s.SettleSample(t.Context(), odd)
			assert.Error(t, err)
		}
	})
	refused, err := s.SettleSample(t.Context(), journal.SettleSample{Turn: s.turn, ID: rec.ID, Refused: "the budget is used up", At: s.now()})
	require.NoError(t, err)
	assert.Equal(t, "the budget is used up", refused.Refused)
	s.unchanged(func() {
		stands, err := s.SettleSample(t.Context(), late)
		require.NoError(t, err)
		assert.Equal(t, refused, stands, "the first end stands")
	})

	s, rec = startedSample(t, open)
	s.finish()
	s.unchanged(func() {
		_, err := s.startSample(rec)
		assert.ErrorIs(t, err, journal.ErrClosed)
		late.ID, late.Turn = rec.ID, s.turn
		_, err = s.SettleSample(t.Context(), late)
		assert.ErrorIs(t, err, journal.ErrClosed)
		_, err = s.AskSample(t.Context(), journal.SampleInput{Turn: s.turn, CallID: rec.CallID, ID: "s1.0.1.2", Server: "mcp/x", Request: []byte("{}"), Most: 9})
		assert.ErrorIs(t, err, journal.ErrClosed)
	})
}
