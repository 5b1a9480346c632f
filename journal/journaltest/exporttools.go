package journaltest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var exportToolPromises = []promise{
	{"artifacts of calls are exported and imported", toolsExported},
	{"an export leaves out the continuation of a suspended call", continuationStays},
	{"a late result is told to the model of the imported session", dueImported},
}

// toolSessions are sessions in which calls have left artifacts, each in a different way.
func toolSessions(t *testing.T, open func() *journal.DB) map[string]*script {
	all := map[string]*script{}
	begin := func(name string) (*script, turn.ToolCall) {
		s, list := asked(t, open, 1)
		s.claim(list[0], 1)
		all[name] = s
		return s, list[0]
	}
	s, c := begin("media")
	s.settleMedia(c, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "look", Media: []turn.Media{picture},
		Full: []byte("the whole"), MediaType: "text/plain"})
	s.start(2, turn.CallOutcome{CallID: c.ID})
	s, c = begin("mark")
	s.settleTainting(c, 1, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "words"})
	s, c = begin("suspended")
	s.suspend(c, 1, "between us")
	s, c = begin("elicitation")
	s.ask(elicitationOf(c, "1"), elicitationOf(c, "2"))
	s.decide(replyOf(`{"name":"<` + strings.Repeat("x", 2000) + `>"}`))
	s, c = begin("due")
	s.settleCall(c, 1, turn.OutcomeUnknown, "")
	s.settleCall(c, 1, turn.OutcomeOK, "late")
	s, c = begin("late media")
	s.settleCall(c, 1, turn.OutcomeOK, "in time")
	s.settleMedia(c, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "late", Media: []turn.Media{picture}})
	s, c = begin("code")
	s.start(2, turn.CallOutcome{CallID: c.ID, Outcome: turn.OutcomeError, Code: turn.CodeToolDrift,
		Text: "it is not what it was"})
	s, c = begin("widest")
	r := approvalOf(c)
	r.MaxGrant = turn.GrantCall
	s.ask(r)
	return all
}

func toolsExported(t *testing.T, open func() *journal.DB) {
	for name, s := range toolSessions(t, open) {
		s.finish()
		b := exportOf(t, s.DB, "s")
		other := *s
		other.DB = open()
		importInto(t, other.DB, b)
		again := exportOf(t, other.DB, "s")
		assert.Equal(t, history(t, b), history(t, again), name)
		mine, theirs := s.state(), other.state()
		for i := range mine.Calls {
			mine.Calls[i].Continuation = nil
		}
		assert.Equal(t, mine, theirs, name)
		for _, c := range mine.Calls {
			for _, hash := range hashes(c) {
				_, _, err := other.Artifact(t.Context(), "t1", hash)
				assert.NoError(t, err, name)
			}
		}
	}
}

// hashes returns the hashes of the artifacts of a call.
func hashes(c journal.CallRecord) (list []string) {
	if c.FullBlob != "" {
		list = append(list, c.FullBlob)
	}
	for _, m := range c.Media {
		list = append(list, m.Hash)
	}
	return list
}

func continuationStays(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	s.suspend(list[0], 1, "a canary of the server")
	b := exportOf(t, s.DB, "s")
	assert.NotContains(t, string(b), "canary")
	other := *s
	other.DB = open()
	importInto(t, other.DB, b)
	assert.Equal(t, journal.ClaimSettled, other.claim(list[0], 2).Claim, "it cannot continue, and must not run again")
	rec := must(other.Call(t.Context(), "t1", list[0].ID))(t)
	assert.Equal(t, turn.OutcomeUnknown, rec.Outcome)
}

func dueImported(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.unknown(list[0])
	s.settleCall(list[0], 1, turn.OutcomeOK, "after all")
	b := exportOf(t, s.DB, "s")
	other := *s
	other.DB = open()
	importInto(t, other.DB, b)
	other.turn = "t2"
	other.begin()
	other.start(1)
	assert.Len(t, other.notices(), 1)
}
