package journaltest

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var tenantPromises = []promise{
	{"a session is its tenant's, and others are refused", tenantKept},
	{"sessions and waits are listed by tenant", tenantLists},
	{"forks and transfers stay with their tenant", tenantTransfers},
	{"a tenant's view has nothing of another's", tenantView},
	{"a tenant's view is whole", tenantWhole},
}

// ofTenant begins a turn in a session of this name and tenant.
func ofTenant(t T, store journal.Store, tenant, session string) *script {
	t.Helper()
	s := &script{T: t, Store: store, session: session, turn: "t-" + session, tenant: tenant, at: start}
	s.begin()
	return s
}

func tenantKept(t T, open func() journal.Store) {
	s := ofTenant(t, open(), "acme", "s")
	assert.Equal(t, "acme", s.sessionRecord().Tenant)
	s.finish()
	before := s.beginInput()
	for _, tenant := range []string{"", "other", "Acme", "acme "} {
		s.unchanged(func() {
			in := before
			in.Tenant, in.Turn, in.Message.ID = tenant, "t2", "m2"
			_, err := s.Begin(t.Context(), in)
			assert.ErrorIs(t, err, journal.ErrTaken, "%q", tenant)
			in.Message.ID = before.Message.ID
			out, err := s.Begin(t.Context(), in)
			assert.ErrorIs(t, err, journal.ErrTaken, "%q", tenant)
			assert.Nil(t, out.DuplicateOf, "it is told what became of another's message")
		})
	}
	s.turn = "t2"
	s.begin()
	mine := ofTenant(t, s.Store, "", "mine")
	assert.Empty(t, mine.sessionRecord().Tenant)
}

func tenantLists(t T, open func() journal.Store) {
	store := open()
	for _, c := range [][2]string{{"", "a"}, {"acme", "b"}, {"other", "c"}, {"acme", "d"}} {
		s := ofTenant(t, store, c[0], c[1])
		s.infer(1, "?")
		s.ask(questionOf("q1", 1))
	}
	for tenant, want := range map[string][]string{"": {"a"}, "acme": {"d", "b"}, "other": {"c"}, "nobody": nil} {
		list, err := store.SessionsOf(t.Context(), tenant, 10)
		require.NoError(t, err)
		requests, err := store.PendingRequestsOf(t.Context(), tenant, 10)
		require.NoError(t, err)
		var sessions, waiting []string
		for _, s := range list {
			sessions = append(sessions, s.ID)
			assert.Equal(t, tenant, s.Tenant)
		}
		for _, w := range requests {
			waiting = append([]string{w.Session}, waiting...)
		}
		assert.ElementsMatch(t, want, sessions, tenant)
		assert.Equal(t, want, waiting, "%s: the oldest first", tenant)
	}
	list, err := store.SessionsOf(t.Context(), "acme", 1)
	require.NoError(t, err)
	assert.Len(t, list, 1)
	list, err = store.Sessions(t.Context(), 10)
	require.NoError(t, err)
	assert.Len(t, list, 4)
}

func tenantTransfers(t T, open func() journal.Store) {
	s := ofTenant(t, open(), "acme", "s")
	s.infer(1, bigText(3000, "secret of acme"))
	s.finish()
	s.turn = "t2"
	s.begin()
	s.infer(1, "more")
	s.finish()
	f := s.fork(2, "f")
	assert.Equal(t, "acme", f.sessionRecord().Tenant)
	var whole, fork bytes.Buffer
	require.NoError(t, s.Export(t.Context(), "s", &whole))
	require.NoError(t, s.Export(t.Context(), "f", &fork))

	other := open()
	rec, err := other.Import(t.Context(), bytes.NewReader(whole.Bytes()))
	require.NoError(t, err)
	assert.Equal(t, "acme", rec.Session.Tenant)
	assert.Equal(t, history(t, whole.Bytes()), history(t, export(t, other)))

	// A journal in which another tenant has the name takes nothing of the export, and reveals nothing.
	third := open()
	mine := &script{T: t, Store: third, session: "s", turn: "t-mine", at: start}
	mine.begin()
	mine.unchanged(func() {
		_, err := third.Import(t.Context(), bytes.NewReader(whole.Bytes()))
		assert.ErrorIs(t, err, journal.ErrTaken)
	})
	// An import does not share the past of another tenant's session either, even if the past is the same.
	_, err = journal.ForTenant(s.Store, "other").Import(t.Context(), bytes.NewReader(fork.Bytes()))
	assert.ErrorIs(t, err, journal.ErrTaken)
	_, err = journal.ForTenant(third, "").Import(t.Context(), bytes.NewReader(fork.Bytes()))
	assert.ErrorIs(t, err, journal.ErrTaken)
	rec, err = journal.ForTenant(third, "acme").Import(t.Context(), bytes.NewReader(fork.Bytes()))
	require.NoError(t, err)
	assert.Equal(t, "acme", rec.Session.Tenant)
	_, err = journal.ForTenant(third, "acme").Import(t.Context(), strings.NewReader("no export"))
	assert.ErrorContains(t, err, "not an export of a session")
}

// everything returns the results of all methods of a view that take a session, a turn or a call.
func (s *script) everything(view journal.Store, session, turnID string) (answers []any) {
	ctx := s.Context()
	add := func(v any, err error) { answers = append(answers, v, kindOf(err)) }
	rec, err := view.Session(ctx, session)
	rec.ID = ""
	add(rec, err)
	row, err := view.Turn(ctx, turnID)
	row.ID = ""
	add(row, err)
	answers = append(answers, s.listed(view, session, turnID)...)
	mediaType, content, err := view.Artifact(ctx, session, journal.HashOf([]byte("artifact")))
	add(mediaType+string(content), err)
	call, err := view.Call(ctx, turnID, "1.0")
	add(call, err)
	message, err := view.StepMessage(ctx, journal.StepKey{Turn: turnID, Step: 1})
	add(message, err)
	row, err = view.Delivered(ctx, session, "m-"+turnID)
	add(row, err)
	mark, err := view.Taint(ctx, session)
	add(mark, err)
	fork, err := view.Fork(ctx, journal.ForkInput{Session: session, At: 1, ID: "copy of " + session, Time: s.now()})
	fork.ID = ""
	add(fork, err)
	add(nil, view.Export(ctx, session, io.Discard))
	return answers
}

func (s *script) listed(view journal.Store, session, turnID string) (answers []any) {
	add := func(n int, err error) { answers = append(answers, n, kindOf(err)) }
	ctx := s.Context()
	turns, err := view.Turns(ctx, session)
	add(len(turns), err)
	turns, err = view.TurnsAfter(ctx, session, "", 10)
	add(len(turns), err)
	turns, err = view.TurnsAfter(ctx, session, turnID, 10)
	add(len(turns), err)
	messages, err := view.Messages(ctx, session, 1, 10)
	add(len(messages), err)
	chunks, err := view.Chunks(ctx, turnID, -1, 10)
	add(len(chunks), err)
	requests, err := view.Requests(ctx, turnID)
	add(len(requests), err)
	requests, err = view.PendingRequests(ctx, session, 10)
	add(len(requests), err)
	inferences, err := view.Inferences(ctx, turnID)
	add(len(inferences), err)
	calls, err := view.Calls(ctx, turnID)
	add(len(calls), err)
	rules, err := view.Grants(ctx, session)
	add(len(rules), err)
	return answers
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

func tenantView(t T, open func() journal.Store) {
	s := fullOfTenant(t, open())
	for _, tenant := range []string{"", "other"} {
		view := journal.ForTenant(s.Store, tenant)
		nobody := s.everything(view, "nowhere", "never")
		s.unchanged(func() {
			assert.Equal(t, nobody, s.everything(view, "s", "t-s"), "%q can tell it from a session that is not there", tenant)
		})
		list, err := view.Sessions(t.Context(), 10)
		require.NoError(t, err)
		assert.Empty(t, list)
		list, err = view.SessionsOf(t.Context(), "acme", 10)
		require.NoError(t, err)
		assert.Empty(t, list)
		requests, err := view.PendingRequests(t.Context(), "", 10)
		require.NoError(t, err)
		assert.Empty(t, requests)
		requests, err = view.PendingRequestsOf(t.Context(), "acme", 10)
		require.NoError(t, err)
		assert.Empty(t, requests)
	}
}

// fullOfTenant is a session of tenant acme with rows of each kind.
func fullOfTenant(t T, store journal.Store) *script {
	t.Helper()
	s := ofTenant(t, store, "acme", "s")
	list := calls(1, 1)
	s.infer(1, "look", list...)
	s.ask(approvalOf(list[0]), questionOf("q1", 1))
	always := allowed(approvalOf(list[0]))
	always.Grant = turn.GrantCall
	s.decide(always)
	s.claim(list[0], 1)
	s.settleTainting(list[0], 1, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "cut", Full: []byte("artifact")})
	return s
}

func tenantWhole(t T, open func() journal.Store) {
	s := fullOfTenant(t, open())
	view := journal.ForTenant(s.Store, "acme")
	want := s.everything(s.Store, "s", "t-s")
	require.NotContains(t, want, "not found", "the fixture lacks something")
	_, err := view.Session(t.Context(), "copy of s")
	require.NoError(t, err)
	got := s.everything(view, "s", "t-s")
	fork := len(want) - 4
	assert.Contains(t, got[fork+1], journal.ErrExists.Error(), "the name was taken by the fork before")
	got[fork], got[fork+1] = want[fork], want[fork+1]
	assert.Equal(t, want, got)
	list, err := view.Sessions(t.Context(), 10)
	require.NoError(t, err)
	assert.Len(t, list, 2)
	requests, err := view.PendingRequests(t.Context(), "", 10)
	require.NoError(t, err)
	assert.NotEmpty(t, requests)
}
