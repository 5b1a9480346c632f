package chat

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var answers = []string{
	styled, "plain", "\x1b[2J\x1b]52;c;aGk=\x07", "&#27;[2J&#x9b;1m&amp;#27;[8m&lrm;&#8238;",
	"[a](javascript:x\x1b[2J) <http://x/?a&b> ![i](u)",
	"```\ncode\n~~~\n```\n~~~~\nx\n```\n~~~~", "- a\n\n  b\n\n      c\n- d\n1) e\n\n2) f", "| a |\n|--\n| b \\| c |",
	"> > > deep\n> > \n>", "# \n## \n######### x",
	"世界世界世界世界 🙂👩‍🚀 e\u0301\u0301", "\uf5a6\uf5a7\uf5a8&<-", "a\tb\r\nc\x00",
	"[^1]: x\n\n[x]: /y\n\n[x] [^1]", "<script>alert(1)</script>\n\n<!-- hidden -->", strings.Repeat("long", 3000),
	strings.Repeat("- ", 300), "",
}

// FuzzMarkdown checks that any text of a model is laid out in lines that fit, which hold only text and SGR sequences.
func FuzzMarkdown(f *testing.F) {
	for i, a := range answers {
		f.Add(a, uint8(20+i), i%2 == 0)
		f.Add(a, uint8(i), true)
	}
	f.Fuzz(func(t *testing.T, text string, width uint8, colours bool) {
		requireLines(t, newTheme(colours, colours).render(text, max(int(width), 2)), max(int(width), 2))
	})
}

// sgr matches the escape sequences that a line may have (ECMA-48, 8.3.117).
var sgr = regexp.MustCompile("\x1b\\[[0-9;:]*m")

func requireLines(t *testing.T, lines []string, width int) {
	t.Helper()
	for _, line := range lines {
		requireShape(t, sgr.ReplaceAllString(line, ""), width, 0)
	}
}

// FuzzModel: whatever the events of a session hold, in whatever order they come, and whatever is typed meanwhile, the
// live part and what is printed are text that fits the terminal.
func FuzzModel(f *testing.F) {
	for i, a := range answers {
		f.Add(a, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0x11, 0x28, 0x3b, 0xff}, uint8(20+7*i),
			uint8(10))
		f.Add(a, []byte{0, 1, 1, 8, 13, 13, 15, 9, 1, 12}, uint8(i), uint8(i))
		f.Add(a, []byte{0, 0xc3, 3, 0xc4, 1, 8, 8, 13, 15, 15, 0x2f, 15, 9}, uint8(i), uint8(i))
	}
	f.Fuzz(func(t *testing.T, text string, script []byte, width, height uint8) {
		if len(script) > 200 {
			script = script[:200]
		}
		text = strings.ToValidUTF8(text, "\uFFFD")
		m := NewModel(context.Background(), Options{Session: "s", Client: &requests{}})
		m.later = func(time.Duration, func(time.Time) tea.Msg) tea.Cmd { return nil }
		m.Update(tea.WindowSizeMsg{Width: int(width) + 2, Height: int(height) + 1})
		for i, b := range script {
			m.Update(happening(text, b, int64(i)))
			requireShape(t, sgr.ReplaceAllString(m.View().Content, ""), m.width, m.height)
		}
	})
}

// happening is something that a chat is told of: an event with the text in all its fields, a key, or a size.
func happening(text string, b byte, index int64) tea.Msg {
	kinds := []turn.EventKind{turn.EventTurnStarted, turn.EventTextDelta, turn.EventReasoningDelta,
		turn.EventToolCallStarted, turn.EventToolCallCompleted,
		turn.EventMessageAdded, turn.EventApprovalRequested, turn.EventApprovalDecided, turn.EventQuestionAsked,
		turn.EventQuestionAnswered,
		turn.EventAttemptRestarted, turn.EventTurnCompleted, turn.EventError}
	switch k := int(b & 15); {
	case k < len(kinds):
		kind := kinds[k]
		if other, ok := others[kind]; ok && b>>6 == 3 {
			kind = other
		}
		e := turn.Event{Turn: "t" + string('0'+b>>6), Index: index, Step: int(b >> 4 & 3), Kind: kind, Text: text,
			Data: dataOf(kind, text, index%2 == 0)}
		return itemsMsg{items: []item{{event: e, message: &turn.Message{ID: text, Text: text}}}}
	case k == 13:
		return tea.PasteMsg{Content: text}
	case k == 14:
		return tea.WindowSizeMsg{Width: int(b) + 2, Height: int(b)/8 + 1}
	}
	return []tea.Msg{enter, tab, esc, up, ctrlC, tea.KeyPressMsg{Code: 'y', Text: "y"},
		tea.KeyPressMsg{Code: 'n', Text: "n"}, tea.KeyPressMsg{Code: tea.KeyEnd}}[b>>4&7]
}

// others are the kinds that have no number of their own.
var others = map[turn.EventKind]turn.EventKind{turn.EventToolCallStarted: turn.EventToolProgress,
	turn.EventToolCallCompleted: turn.EventToolCallLateResult}

// elicitationOf is a server's question with the text in all its fields; the text itself may be the schema.
func elicitationOf(text string) *turn.Elicitation {
	q := &turn.Elicitation{Key: text, Message: text}
	switch {
	case strings.HasPrefix(text, "http"):
		q.URL = text
	case json.Valid([]byte(text)):
		q.Schema = json.RawMessage(text)
	default:
		q.Schema, _ = json.Marshal(map[string]any{"properties": map[string]any{
			text: map[string]any{"type": "string", "title": text, "description": text, "enum": []string{text, "y"}}}})
	}
	return q
}

func dataOf(kind turn.EventKind, text string, servers bool) json.RawMessage {
	var v any
	switch kind {
	case turn.EventToolCallStarted, turn.EventToolCallCompleted:
		v = turn.CallEvent{CallID: "1.0", Tool: text, Arguments: text, Outcome: turn.Outcome(text), Preview: text}
	case turn.EventToolProgress:
		v = turn.ProgressEvent{CallID: "1.0", Tool: text,
			ToolProgress: turn.ToolProgress{Done: float64(len(text)), Total: 7, Message: text}}
	case turn.EventToolCallLateResult:
		v = turn.CallEvent{CallID: "1.0", Tool: text, Outcome: turn.Outcome(text)}
	case turn.EventMessageAdded:
		v = turn.MessageEvent{MessageID: text, Text: text}
	case turn.EventTurnCompleted:
		v = turn.DoneEvent{State: turn.State(text), FinishReason: turn.FinishReason(text), Message: text}
	case turn.EventApprovalRequested:
		v = turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: text, Arguments: text,
			Risk: turn.Risk(text), Why: text, ArgumentsHash: journal.HashOf([]byte(text))}
	case turn.EventQuestionAsked:
		v = turn.Request{ID: "q1", Kind: turn.RequestQuestion, Question: text}
		if servers {
			v = turn.Request{ID: "q1", Kind: turn.RequestElicitation, Tool: text,
				Elicitation: elicitationOf(text)}
		}
	default:
		v = turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: text,
			Decision: &turn.Decision{ID: "1.0", Status: turn.DecisionStatus(text), By: text, Reason: text}}
		if servers {
			v = turn.Request{ID: "q1", Kind: turn.RequestElicitation, Tool: text,
				Decision: &turn.Decision{ID: "q1", Status: turn.DecisionStatus(text), By: text,
					Response: &turn.ElicitationResponse{}}}
		}
	}
	b, _ := json.Marshal(v) // always marshals
	return b
}

func TestWildMarkdownIsShownAsItStands(t *testing.T) {
	for _, text := range []string{strings.Repeat(">", 2000) + "x", strings.Repeat("> ", 2000) + "x",
		strings.Repeat("- > ", 1000), strings.Repeat("1. ", 1000) + "x", strings.Repeat("long ", 20_000),
		"|" + strings.Repeat("a|", 1000) + "\n|" + strings.Repeat("-|", 1000) + "\n|x\n"} {
		requireLines(t, newTheme(true, true).render(text, 80), 80)
		_, complex := complexity(text)
		require.True(t, complex)
	}
	_, complex := complexity(styled)
	require.False(t, complex, "text that is written by hand is rendered")
}
