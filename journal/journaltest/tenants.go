package journaltest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/workflows/turn"
)

var tenantPromises = []promise{
	{"two tenants use one session name for two sessions", tenantNames},
	{"each tenant follows its own session", tenantFollows},
	{"a turn ID is one tenant's", tenantTurn},
	{"another tenant's sessions and turns do not exist", tenantView},
	{"a tenant's own sessions and turns exist", tenantWhole},
	{"an export is imported by its own tenant", tenantTransfers},
	{"an import reveals nothing of another tenant", tenantImport},
}

// begunFor begins a turn in a session of this name and tenant.
func begunFor(t *testing.T, j *journal.DB, tenant, session string) *script {
	t.Helper()
	s := &script{T: t, DB: j.Tenant(tenant), session: session, turn: "t-" + tenant + "-" + session, tenant: tenant,
		at: start}
	s.begin()
	return s
}

// sameName begins session "s" in three tenants, with the same message ID.
func sameName(t *testing.T, j *journal.DB) (list []*script) {
	t.Helper()
	for _, tenant := range []string{"", "acme", "other"} {
		s := &script{T: t, DB: j.Tenant(tenant), session: "s", turn: "t-" + tenant, tenant: tenant, at: start}
		in := s.beginInput()
		in.Message = turn.UserMessage{ID: "m", Text: "message of " + tenant}
		out := must(s.Begin(t.Context(), in))(t)
		require.Nil(t, out.DuplicateOf, "it is the first message of this session")
		s.head = out.Head
		list = append(list, s)
	}
	return list
}

func tenantNames(t *testing.T, open func() *journal.DB) {
	sessions := sameName(t, open())
	for _, s := range sessions {
		s.infer(1, "answer for "+s.tenant)
		s.ask(questionOf("q1", 1))
	}
	for _, s := range sessions {
		list := must(s.Sessions(t.Context(), 10))(t)
		require.Len(t, list, 1)
		assert.Equal(t, []string{s.tenant, "s", s.turn}, []string{list[0].Tenant, list[0].ID, list[0].LastTurn.ID})
		messages := s.transcript()
		require.Len(t, messages, 2)
		assert.Equal(t, "answer for "+s.tenant, messages[1].Text)
		taker := must(s.Delivered(t.Context(), "s", "m"))(t)
		assert.Equal(t, s.turn, taker.ID)
		for _, session := range []string{"", "s"} {
			open := must(s.PendingRequests(t.Context(), session, 10))(t)
			require.Len(t, open, 1)
			assert.Equal(t, s.turn, open[0].Turn)
		}
	}
	// What one tenant does changes no other session of that name.
	for i, s := range sessions {
		other := sessions[(i+1)%len(sessions)]
		other.unchanged(func() {
			s.decide(turn.Decision{ID: "q1", Status: turn.StatusAnswered})
			s.finish()
			s.fork(1, "f")
		})
		fork := must(s.Session(t.Context(), "f"))(t)
		assert.Equal(t, []string{s.tenant, "s"}, []string{fork.Tenant, fork.Parent})
		assert.Equal(t, "message of "+s.tenant, fork.FirstText)
	}
	n := must(sessions[0].PruneEvents(t.Context(), sessions[0].at.Add(time.Hour), 10))(t)
	assert.Equal(t, len(sessions), n, "pruning is for all tenants")
}

func tenantFollows(t *testing.T, open func() *journal.DB) {
	sessions := sameName(t, open())
	for _, s := range sessions {
		s.finish()
		for e, err := range follow.Session(t.Context(), s.DB, "s", follow.Cursor{}) {
			require.NoError(t, err)
			require.Equal(t, s.turn, e.Turn)
			if e.Kind == turn.EventTurnCompleted {
				break
			}
		}
		changed := s.Changed(t.Context(), journal.Topic{Session: "s"})
		s.turn = "next " + s.turn
		s.begin()
		select {
		case <-changed:
		case <-time.After(followTimeout):
			t.Errorf("the follower of tenant %q was not woken", s.tenant)
		}
	}
}

func tenantTurn(t *testing.T, open func() *journal.DB) {
	s := begunFor(t, open(), "acme", "s")
	in := s.beginInput()
	in.Tenant = "other"
	s.unchanged(func() {
		_, err := s.Begin(t.Context(), in)
		assert.ErrorIs(t, err, journal.ErrConflict)
	})
	_, err := s.DB.Tenant("other").Session(t.Context(), "s")
	assert.ErrorIs(t, err, journal.ErrNotFound)
}

func tenantTransfers(t *testing.T, open func() *journal.DB) {
	s := begunFor(t, open(), "acme", "s")
	s.infer(1, bigText(3000, "secret of acme"))
	s.finish()
	s.turn = "t2"
	s.begin()
	s.infer(1, "more")
	s.finish()
	s.fork(2, "f")
	whole, fork := exportOf(t, s.DB, "s"), exportOf(t, s.DB, "f")

	for _, tenant := range []string{"", "other"} { // where the past is, and where nothing is
		for _, j := range []*journal.DB{s.DB.Tenant(tenant), open().Tenant(tenant)} {
			for _, b := range [][]byte{whole, fork} {
				_, err := j.Import(t.Context(), bytes.NewReader(b))
				assert.ErrorIs(t, err, journal.ErrOtherTenant)
			}
			list := must(j.Sessions(t.Context(), 10))(t)
			assert.Empty(t, list)
		}
	}
	other := open().Tenant("acme")
	rec := importInto(t, other, whole)
	assert.Equal(t, "acme", rec.Tenant)
	assert.Equal(t, history(t, whole), history(t, exportOf(t, other, "s")))
	rec = importInto(t, other, fork)
	assert.Equal(t, "s", rec.Parent, "it shares the past that its tenant has")
	_, err := other.Import(t.Context(), strings.NewReader("no export"))
	assert.ErrorContains(t, err, "not an export of a session")
}

// tenantImport imports into a journal in which another tenant uses the same names: first of the session, then also of
// the turns, as a forged export could.
func tenantImport(t *testing.T, open func() *journal.DB) {
	s := begunFor(t, open(), "acme", "s")
	s.infer(1, "answer")
	s.finish()
	b := exportOf(t, s.DB, "s")

	target := open()
	mine := &script{T: t, DB: target, session: "s", turn: "t-mine", at: start}
	mine.begin()
	mine.unchanged(func() {
		rec := importInto(t, target.Tenant("acme"), b)
		assert.Equal(t, "acme", rec.Tenant)
	})
	forged := forge(t, b, func(l *journal.ExportLine) []journal.ExportLine {
		if l.Header != nil {
			l.Header.Tenant = "other"
		}
		return []journal.ExportLine{*l}
	})
	_, err := target.Tenant("other").Import(t.Context(), bytes.NewReader(forged))
	require.ErrorIs(t, err, journal.ErrConflict)
	assert.NotContains(t, err.Error(), "in session", "it names the session of the other tenant")
}

// everything returns the results of all methods of a view that take a session, a turn or a call.
func (s *script) everything(view *journal.DB, session, turnID string) (results []any) {
	ctx := s.Context()
	add := func(v any, err error) { results = append(results, v, kindOf(err)) }
	rec, err := view.Session(ctx, session)
	rec.ID = ""
	add(rec, err)
	row, err := view.Turn(ctx, turnID)
	row.ID = ""
	add(row, err)
	results = append(results, s.listed(view, session, turnID)...)
	call, err := view.Call(ctx, turnID, "1.0")
	add(call, err)
	row, err = view.Delivered(ctx, session, "m-"+turnID)
	add(row, err)
	fork, err := view.Fork(ctx, journal.ForkInput{Session: session, At: 1, ID: "copy of " + session, Time: s.now()})
	fork.ID = ""
	add(fork, err)
	add(nil, view.Export(ctx, session, io.Discard))
	add(nil, view.KeepLeft(ctx, session, []turn.UserMessage{{ID: "left", Text: "left"}}))
	add(nil, view.TakeBack(ctx, session, journal.TakenBack{Commit: "c"}))
	return results
}

func (s *script) listed(view *journal.DB, session, turnID string) (results []any) {
	add := func(n int, err error) { results = append(results, n, kindOf(err)) }
	ctx := s.Context()
	turns, err := view.Turns(ctx, session)
	add(len(turns), err)
	turns, err = view.TurnsAfter(ctx, session, "", 10)
	add(len(turns), err)
	turns, err = view.TurnsAfter(ctx, session, turnID, 10)
	add(len(turns), err)
	messages, err := view.Messages(ctx, session, 1, 10)
	add(len(messages), err)
	events, err := view.Events(ctx, turnID, -1, 10)
	add(len(events), err)
	_, err = view.LastEvent(ctx, turnID)
	add(0, err)
	_, err = view.HasEvent(ctx, turnID, turn.EventPhase)
	add(0, err)
	requests, err := view.Requests(ctx, turnID)
	add(len(requests), err)
	requests, err = view.PendingRequests(ctx, session, 10)
	add(len(requests), err)
	inferences, err := view.Inferences(ctx, turnID)
	add(len(inferences), err)
	used, err := view.TurnUsage(ctx, turnID)
	add(int(used.Total()), err)
	used, err = view.SessionUsage(ctx, session)
	add(int(used.Total()), err)
	usage, err := view.Usage(ctx, journal.UsageBySession, time.Time{})
	add(len(usage), err)
	calls, err := view.Calls(ctx, turnID)
	add(len(calls), err)
	_, err = view.CheckBudget(ctx, session, journal.ReserveInput{AttemptUsage: journal.AttemptUsage{At: time.Unix(0, 0)}})
	add(0, err)
	compactions, err := view.Compactions(ctx, session)
	add(len(compactions), err)
	_, err = view.Compacted(ctx, session, "r1")
	add(0, err)
	_, err = view.AddCompaction(ctx, session, "r1", turn.Compaction{At: turn.Head{Seq: 1000}})
	add(0, err)
	return append(results, s.subagents(view, session, turnID)...)
}

// subagents returns what a view has of the subagent of call 1.1.
func (s *script) subagents(view *journal.DB, session, turnID string) (results []any) {
	add := func(v any, err error) { results = append(results, v, kindOf(err)) }
	ctx, answer := s.Context(), turn.SubagentAnswerID(turn.SubagentSession(turnID, "1.1"))
	its, err := view.Subagent(ctx, turnID, "1.1")
	add(its, err)
	spent, err := view.SpentBySubagent(ctx, turnID, "1.1")
	add(spent, err)
	origin, err := view.Origin(ctx, session, answer, "")
	add(origin, err)
	kept, err := view.AnswerKept(ctx, session, answer)
	add(kept, err)
	requests, err := view.PendingOfTurn(ctx, turnID)
	add(len(requests), err)
	names, err := view.StopSubagents(ctx, session)
	add(len(names), err)
	return results
}

// kindOf returns an error without the names in its text, so that errors about different names can be compared.
func kindOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, journal.ErrNotFound):
		return "not found"
	}
	return err.Error()
}

func tenantView(t *testing.T, open func() *journal.DB) {
	s := fullFor(t, open())
	for _, tenant := range []string{"", "other", "Acme"} {
		view := s.DB.Tenant(tenant)
		unknown := s.everything(view, "nowhere", "never")
		s.unchanged(func() {
			assert.Equal(t, unknown, s.everything(view, "s", s.turn), "%q can tell it from a session that does not exist",
				tenant)
		})
		begunFor(t, s.DB, tenant, "mine")
		_, err := view.TurnsAfter(t.Context(), "mine", s.turn, 10)
		assert.ErrorIs(t, err, journal.ErrNotFound)
		list := must(view.Sessions(t.Context(), 10))(t)
		assert.Len(t, list, 1)
		requests := must(view.PendingRequests(t.Context(), "", 10))(t)
		assert.Empty(t, requests)
	}
}

// fullFor is a session of tenant acme with rows of each kind.
func fullFor(t *testing.T, j *journal.DB) *script {
	t.Helper()
	s := begunFor(t, j, "acme", "s")
	_ = must(s.AddCompaction(t.Context(), "s", "r1", s.compaction(s.sessionRecord().Head, 1, "notes")))(t)
	list := append(calls(1, 1), subagentCall("1.1"))
	s.infer(1, "look", list...)
	s.callInBackground(list[1], turn.Allowance{Steps: 1})
	s.settleCall(list[1], 1, turn.OutcomeOK, "its answer")
	s.ask(approvalOf(list[0]), questionOf("q1", 1))
	always := allowed(approvalOf(list[0]))
	always.Grant = turn.GrantCall
	s.decide(always)
	s.claim(list[0], 1)
	s.settleTainting(list[0], 1, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "cut", Full: []byte("artifact")})
	return s
}

func tenantWhole(t *testing.T, open func() *journal.DB) {
	s := fullFor(t, open())
	results := s.everything(s.DB.Tenant("other").Tenant("acme"), "s", s.turn)
	assert.NotContains(t, results, "not found")
	list := must(s.Sessions(t.Context(), 10))(t)
	assert.Len(t, list, 2, "the session and its fork")
	requests := must(s.PendingRequests(t.Context(), "", 10))(t)
	assert.NotEmpty(t, requests)
}
