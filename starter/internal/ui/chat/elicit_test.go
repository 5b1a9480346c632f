package chat

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

const (
	oneField  = `{"properties":{"name":{"type":"string"}},"required":["name"]}`
	fewFields = `{"properties":{"name":{"type":"string","description":"As in the passport"},"colour":{"type":"string","enum":["red","blue"]},"sure":{"type":"boolean","default":true}},"required":["name","colour"]}`
)

// hears shows an event of the turn as the feed does.
func (s *stage) hears(kind turn.EventKind, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		s.Fatal(err)
	}
	s.Model.showItem(item{event: turn.Event{Turn: cmp.Or(s.story.turn, "t"), Step: 1, Kind: kind, At: s.clock, Data: b}})
	s.take(noticeMsg{-1})
}

func elicitation(q turn.Elicitation) turn.Request {
	return turn.Request{ID: "e1.0.1", Kind: turn.RequestElicitation, Step: 1,
		Tool: "mcp/git/commit", Call: "1.0", Elicitation: &q}
}

func (s *stage) replies() []client.DecideInput {
	s.Helper()
	s.until("a reply is sent", func() bool { return len(s.decisions) > 0 })
	return s.decisions
}

func TestAServersFormIsFilledIn(t *testing.T) {
	s := newStage(t, 70, 24)
	s.hears(turn.EventQuestionAsked,
		elicitation(turn.Elicitation{Key: "k", Message: "Who \x1b[2Jare you?", Schema: json.RawMessage(fewFields)}))
	s.prints(`? the server git asks during call 1.0 of mcp/git/commit: │ Who \x1b[2Jare you?`)
	s.prints("passwords")
	s.shows("1/3 name (text, required)")
	s.press(tab)
	s.press(enter)
	s.shows("it is required")
	s.says("Ann")
	s.shows("2/3 colour (one of the choices, required)")
	s.press(down, enter)
	s.shows("3/3 sure")
	s.press(enter)
	s.shows(`{"name":"Ann","colour":"blue","sure":true}`)
	s.press(enter)
	assert.Equal(t, []client.DecideInput{{Session: "s", Turn: "t", Request: "e1.0.1", By: "me",
		Response: &turn.ElicitationResponse{Key: "k", Action: turn.ElicitationAccept,
			Content: json.RawMessage(`{"name":"Ann","colour":"blue","sure":true}`)}}}, s.replies())
	s.shows("answered; waiting for the turn")
	ruled := elicitation(turn.Elicitation{Message: "Who \x1b[2Jare you?"})
	ruled.Decision = &turn.Decision{ID: "e1.0.1", Status: turn.StatusAnswered, By: "me",
		Response: s.decisions[0].Response}
	s.hears(turn.EventQuestionAnswered, ruled)
	s.prints("? the server git: Who [2Jare you? · answered by me")
	assert.NotContains(t, s.bottom(), "asks")
	assert.NotContains(t, s.all(), "Ann", "the conversation does not repeat the response")
}

func TestAServersFormIsDeclined(t *testing.T) {
	s := newStage(t, 70, 24)
	s.says("/decline")
	s.prints("no server asks for anything")
	s.hears(turn.EventQuestionAsked,
		elicitation(turn.Elicitation{Key: "k", Message: "Who?", Schema: json.RawMessage(oneField)}))
	s.says("/decline")
	assert.Equal(t, &turn.ElicitationResponse{Key: "k", Action: turn.ElicitationDecline}, s.replies()[0].Response)
}

func TestAnAddressIsShownWholeAndNotOpened(t *testing.T) {
	s := newStage(t, 40, 24)
	long := "http://bank.example@evil.example/" + strings.Repeat("x", 100)
	s.hears(turn.EventQuestionAsked, elicitation(turn.Elicitation{Message: "Log in.", URL: long}))
	s.prints("evil.example:")
	assert.Contains(t, strings.Join(strings.Fields(strings.ReplaceAll(s.all(), "│ ", "")), ""), long)
	s.prints("warning: it is not an https address")
	s.shows("have you opened it")
	s.press(tab, enter)
	assert.Equal(t, &turn.ElicitationResponse{Action: turn.ElicitationAccept}, s.replies()[0].Response)
}

func TestTextTypedBeforeAServerAsksStaysInTheInput(t *testing.T) {
	s := newStage(t, 70, 24)
	s.types("my secret plan")
	s.hears(turn.EventQuestionAsked, elicitation(turn.Elicitation{Message: "Who?", Schema: json.RawMessage(oneField)}))
	s.press(enter)
	s.until("the text is sent as a message", func() bool { return len(s.messages) == 1 })
	assert.Empty(t, s.decisions)
	s.pass()
	s.pass()
	s.says("Ann")
	s.shows(`{"name":"Ann"}`)
	s.press(enter)
	assert.JSONEq(t, `{"name":"Ann"}`, string(s.replies()[0].Response.Content))
}

func TestAResponseThatDidNotArriveIsAskedForAgain(t *testing.T) {
	s := newStage(t, 70, 24)
	s.requests.err = errors.New("no Temporal answers")
	s.hears(turn.EventQuestionAsked, elicitation(turn.Elicitation{Message: "Who?", Schema: json.RawMessage(oneField)}))
	answer := func(name string) {
		s.press(tab)
		s.says(name)
		s.shows(`{"name":"` + name + `"}`)
		s.press(enter)
	}
	answer("Ann")
	s.prints("sending the decision: no Temporal answers")
	s.requests.err = nil
	answer("Bob")
	s.until("it is sent again", func() bool { return len(s.decisions) == 2 })
	assert.JSONEq(t, `{"name":"Bob"}`, string(s.decisions[1].Response.Content))
}

func TestProgressAndLateResultsAreShown(t *testing.T) {
	s := newStage(t, 70, 24)
	s.hears(turn.EventToolCallStarted, turn.CallEvent{CallID: "1.0", Tool: "mcp/x/long", Arguments: "{}"})
	s.hears(turn.EventToolProgress, turn.ProgressEvent{CallID: "1.0", Tool: "mcp/x/long",
		ToolProgress: turn.ToolProgress{Done: 1, Total: 3, Message: "load\x1bing"}})
	s.hears(turn.EventToolProgress, turn.ProgressEvent{CallID: "1.0", Tool: "mcp/x/long",
		ToolProgress: turn.ToolProgress{Done: 2, Total: 3}})
	s.shows("→ mcp/x/long {} · 67% (2 of 3)")
	assert.NotContains(t, s.live(), "loading", "it is one line")
	s.hears(turn.EventToolCallCompleted, turn.CallEvent{CallID: "1.0", Tool: "mcp/x/long", Outcome: turn.OutcomeUnknown})
	s.prints("? mcp/x/long {} · unknown: it may or may not have taken effect")
	s.hears(turn.EventToolCallLateResult, turn.CallEvent{CallID: "1.0", Tool: "mcp/x/long", Outcome: turn.OutcomeOK})
	s.prints("late result: ✓ mcp/x/long · ok")
}

func TestPicturesAndNoticesAreShownInAWord(t *testing.T) {
	s := newStage(t, 100, 24)
	s.begin("m1", "Draw.")
	c := callOf("1.0", "{}")
	attempt := s.infer(nil)
	s.settle(attempt, "", c)
	s.settleCall(c, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "drawn",
		Media: []turn.Media{{Type: "image/png", Data: make([]byte, 34_200)}}})
	s.prints("✓ mcp/disk/write {} · ok · 5 B · 1.5s [image/png, 34 kB]")
	attempt = s.infer([]turn.CallOutcome{{CallID: c.ID}})
	s.settle(attempt, "Here.")
	s.finish(turn.StateCompleted, turn.FinishAnswered, "")
	s.prints("1 tool call")
	s.enter("s", 100, 24)
	s.prints("✓ mcp/disk/write {} · ok [image/png, 34 kB]")
	notice := turn.Message{ID: "late:turn-1:1.0:1", Role: turn.RoleUser, Text: "Notice of the system.", Step: 2}
	s.Model.showPast(openedMsg{found: true,
		past: []turn.Message{notice, {ID: "late:x", Role: turn.RoleUser, Text: "My words."}}})
	s.take(noticeMsg{-1})
	assert.Contains(t, s.talkLines(), "Notice of the system.")
	assert.Contains(t, s.talkLines(), "› My words.")
}

func TestWhyACallIsAskedForIsAKeyAway(t *testing.T) {
	s := newStage(t, 20, 10)
	s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "mcp/disk/write",
		Arguments: "{}", Why: "the conversation holds what mcp/web/get has said"}, turn: "t"})
	s.press(tab)
	s.types("?")
	s.prints("reason: the conversation holds what mcp/web/get has said")
}

const manyFields = `{"properties":{"count":{"type":"integer","minimum":2},"size":{"type":"string",` +
	`"oneOf":[{"const":"s","title":"Small"},{"const":"l"}]},"days":{"type":"array","minItems":1,` +
	`"items":{"enum":["mon","tue"]},"default":["tue"]},"sure":{"type":"boolean"},"extra":{}},"required":["sure"]}`

func TestEveryKindOfFieldHasAPage(t *testing.T) {
	s := newStage(t, 80, 30)
	s.hears(turn.EventQuestionAsked, elicitation(turn.Elicitation{Message: "Fill it.",
		Schema: json.RawMessage(manyFields)}))
	s.shows("1/5 count (whole number, at least 2)")
	s.press(tab)
	s.says("1")
	s.shows("does not fit")
	s.press(ctrlU)
	s.says("3")
	s.shows("2/5 size")
	s.shows("> (no value)")
	s.press(up, up, enter)
	s.shows("3/5 days")
	s.shows("[•] tue")
	s.press(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}, enter)
	s.shows("4/5 sure")
	s.press(down, enter)
	s.shows("5/5 extra")
	s.press(enter)
	s.shows("send it?")
	s.press(enter)
	assert.JSONEq(t, `{"count":3,"size":"s","days":["mon","tue"],"sure":false}`,
		string(s.replies()[0].Response.Content))
}

func TestAFormThatCannotBeReadIsNotAccepted(t *testing.T) {
	s := newStage(t, 80, 30)
	s.hears(turn.EventQuestionAsked, elicitation(turn.Elicitation{Message: "Fill it.", Schema: json.RawMessage(`[]`)}))
	s.shows("it cannot be answered here")
	s.press(tab, enter)
	assert.Equal(t, turn.ElicitationDecline, s.replies()[0].Response.Action)
}
