package chat

import (
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

// hears shows a chunk of the turn as the feed does.
func (s *stage) hears(kind turn.ChunkKind, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		s.Fatal(err)
	}
	s.Model.show([]item{{chunk: turn.Chunk{Turn: "t", Step: 1, Kind: kind, At: s.clock, Data: b}}})
	s.take(tickMsg{})
}

func elicitation(q turn.Elicitation) turn.RequestChunk {
	return turn.RequestChunk{Request: turn.Request{ID: "e1.0.1", Kind: turn.RequestElicitation, Step: 1,
		Tool: "mcp/git/commit", Call: "1.0", Elicitation: &q}}
}

func (s *stage) replies() []client.RespondInput {
	s.Helper()
	s.until("a reply is sent", func() bool { return len(s.requests.responses) > 0 })
	return s.requests.responses
}

func TestAServersQuestionIsAskedFieldByField(t *testing.T) {
	s := newStage(t, 70, 24)
	s.hears(turn.ChunkQuestionAsked,
		elicitation(turn.Elicitation{Key: "k", Message: "Who \x1b[2Jare you?", Schema: json.RawMessage(fewFields)}))
	s.prints(`? the server git asks during call 1.0 of mcp/git/commit: │ Who \x1b[2Jare you?`)
	s.prints("passwords")
	s.shows("1/3 name (text, required)")
	s.press(enter)
	s.shows("this field is required")
	s.press(enter)
	s.says("Ann")
	s.shows("2/3 colour (one of the choices, required)")
	assert.Contains(t, s.live(), "2 blue")
	s.says("green")
	s.shows(`"green" is not one of the choices: red, blue`)
	s.press(tea.KeyPressMsg{Code: 'u', Mod: tea.ModCtrl}, esc)
	s.shows("1/3 name")
	s.says("Bob")
	s.says("2")
	s.press(enter)
	s.shows(`{"name":"Bob","colour":"blue","sure":true}`)
	s.says("y")
	assert.Equal(t, []client.RespondInput{{Session: "s", Turn: "t", Request: "e1.0.1", By: "me",
		Response: turn.ElicitationResponse{Key: "k", Action: turn.ElicitationAccept,
			Content: json.RawMessage(`{"name":"Bob","colour":"blue","sure":true}`)}}}, s.replies())
	s.says("more")
	s.shows("the answer is being sent")
	ruled := elicitation(turn.Elicitation{Message: "Who \x1b[2Jare you?"})
	ruled.Decision = &turn.Decision{ID: "e1.0.1", Status: turn.StatusAnswered, By: "me",
		Response: &s.requests.responses[0].Response}
	s.hears(turn.ChunkQuestionAnswered, ruled)
	s.prints("? the server git: Who [2Jare you? · answered by me")
	assert.NotContains(t, s.live(), "asks")
	assert.NotContains(t, strings.Join(s.printed, "\n"), "Bob", "what a server is told is not shown again")
}

func TestAServersQuestionIsDeclined(t *testing.T) {
	s := newStage(t, 70, 24)
	s.says("/decline")
	s.prints("no server asks for anything")
	s.press(tea.KeyPressMsg{Code: 'u', Mod: tea.ModCtrl})
	s.hears(turn.ChunkQuestionAsked,
		elicitation(turn.Elicitation{Key: "k", Message: "Who?", Schema: json.RawMessage(oneField)}))
	s.press(esc)
	s.shows("/decline declines; Ctrl-D leaves the request open")
	s.says("/decline")
	assert.Equal(t, turn.ElicitationResponse{Key: "k", Action: turn.ElicitationDecline}, s.replies()[0].Response)
}

func TestAnAddressIsShownWholeAndNotOpened(t *testing.T) {
	s := newStage(t, 40, 16)
	long := "http://bank.example@evil.example/" + strings.Repeat("x", 100)
	s.hears(turn.ChunkQuestionAsked, elicitation(turn.Elicitation{Message: "Log in.", URL: long}))
	s.prints("evil.example:")
	s.drained()
	assert.Contains(t, strings.ReplaceAll(strings.Join(s.printed, ""), "│ ", ""), long)
	s.prints("warning: it is not an https address")
	s.shows("have you opened it")
	s.says("perhaps")
	assert.Empty(t, s.requests.responses)
	s.press(tea.KeyPressMsg{Code: 'u', Mod: tea.ModCtrl})
	s.says("y")
	assert.Equal(t, turn.ElicitationResponse{Action: turn.ElicitationAccept}, s.replies()[0].Response)
}

func TestWhatWasWrittenBeforeAServerAskedIsNotItsAnswer(t *testing.T) {
	s := newStage(t, 70, 24)
	s.types("my secret plan")
	s.hears(turn.ChunkQuestionAsked, elicitation(turn.Elicitation{Message: "Who?", Schema: json.RawMessage(oneField)}))
	s.press(enter)
	s.shows("your text goes to the server git: press Enter again to send it")
	assert.Empty(t, s.requests.responses)
	s.press(enter)
	assert.JSONEq(t, `{"name":"my secret plan"}`, string(s.replies()[0].Response.Content))
}

func TestAReplyThatDidNotArriveIsAskedForAgain(t *testing.T) {
	s := newStage(t, 70, 24)
	s.requests.err = errors.New("no Temporal answers")
	s.hears(turn.ChunkQuestionAsked, elicitation(turn.Elicitation{Message: "Who?", Schema: json.RawMessage(oneField)}))
	s.says("Ann")
	s.prints("sending the decision: no Temporal answers")
	s.requests.err = nil
	s.says("Bob")
	s.until("it is sent again", func() bool { return len(s.requests.responses) == 2 })
	assert.JSONEq(t, `{"name":"Bob"}`, string(s.requests.responses[1].Response.Content))
}

func TestProgressAndLateResultsAreShown(t *testing.T) {
	s := newStage(t, 70, 24)
	s.hears(turn.ChunkToolCallStarted, turn.CallChunk{CallID: "1.0", Tool: "mcp/x/long", Arguments: "{}"})
	s.hears(turn.ChunkToolProgress, turn.ProgressChunk{CallID: "1.0", Tool: "mcp/x/long",
		ToolProgress: turn.ToolProgress{Done: 1, Total: 3, Message: "load\x1bing"}})
	s.hears(turn.ChunkToolProgress, turn.ProgressChunk{CallID: "1.0", Tool: "mcp/x/long",
		ToolProgress: turn.ToolProgress{Done: 2, Total: 3}})
	s.shows("→ mcp/x/long 67% (2 of 3)")
	assert.NotContains(t, s.live(), "loading", "it is one line")
	s.hears(turn.ChunkToolCallCompleted, turn.CallChunk{CallID: "1.0", Tool: "mcp/x/long", Outcome: turn.OutcomeUnknown})
	s.prints("? mcp/x/long {} · unknown: it may or may not have taken effect")
	s.hears(turn.ChunkToolCallLateResult, turn.CallChunk{CallID: "1.0", Tool: "mcp/x/long", Outcome: turn.OutcomeOK})
	s.prints("late result: ✓ mcp/x/long · ok")
}

func TestPicturesAndNoticesAreShownInAWord(t *testing.T) {
	s := newStage(t, 100, 24)
	s.begin("m1", "Draw.")
	c := toolCall("1.0", "{}")
	attempt := s.infer(nil)
	s.settle(attempt, "", c)
	s.settleCall(c, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "drawn",
		Media: []turn.Media{{Type: "image/png", Data: make([]byte, 34_200)}}})
	s.prints("✓ mcp/disk/write {} · ok · 5 B · 1.5s [image/png, 34 kB]")
	attempt = s.infer([]turn.CallOutcome{{CallID: c.ID}})
	s.settle(attempt, "Here.")
	s.finish(turn.StateCompleted, turn.FinishAnswered, "")
	s.prints("1 tool call")
	s.printed = nil
	s.enter("s", 100, 24)
	s.prints("✓ mcp/disk/write {} · ok [image/png, 34 kB]")
	notice := turn.Message{ID: "late:turn-1:1.0:1", Role: turn.RoleUser, Text: "Notice of the system.", Step: 2}
	s.Model.showPast(openedMsg{found: true,
		past: []turn.Message{notice, {ID: "late:x", Role: turn.RoleUser, Text: "My words."}}})
	s.take(tickMsg{})
	s.drained()
	assert.Contains(t, s.printed, "Notice of the system.")
	assert.Contains(t, s.printed, "› My words.")
}

func TestWhyACallIsAskedForIsAKeyAway(t *testing.T) {
	s := newStage(t, 20, 10)
	s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "mcp/disk/write",
		Arguments: "{}", Why: "the conversation holds what mcp/web/get has said"}, turn: "t", complete: true})
	s.press(tab)
	s.types("?")
	s.prints("reason: the conversation holds what mcp/web/get has said")
}
