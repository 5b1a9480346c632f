package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// chat is a request's body in the protocol's format.
type chat struct {
	Messages []chatMessage `json:"messages"`
}

type chatMessage struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	ToolCalls []struct {
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// shown checks I3 against the provider: each prompt shows the transcript as it stands, and each answer in the
// transcript is one that the provider gave.
func (c *checker) shown() {
	for _, t := range c.sortedTurns() {
		for _, inf := range t.inferences {
			inJSON := false // the transcript has the action, and not its text
			for _, r := range c.asked(t, inf.Key.Step) {
				if inJSON = r.inJSON(); !inJSON {
					c.prompt(t, inf, r)
				}
			}
			if inf.Settled && !inf.Completion.Plan && !inJSON {
				c.spoken(t, inf)
			}
		}
	}
}

// prompt compares what a request shows with the transcript up to the inference's base.
func (c *checker) prompt(t *turnLedger, inf journal.ExportInference, r Request) {
	var body chat
	if err := json.Unmarshal(r.Body, &body); err != nil {
		c.breaks(I3, "step %d of turn %s: the provider was sent no chat: %v", inf.Key.Step, t.record.ID, err)
		return
	}
	var messages []chatMessage
	for _, m := range body.Messages {
		if m.Role != "system" && !strings.HasPrefix(m.Content, "(Automatic note") {
			messages = append(messages, m)
		}
	}
	all := t.transcript[:min(int(inf.Base.Seq), len(t.transcript))]
	if len(messages) > 0 && compactedTo(messages[0]) > 0 {
		n := min(compactedTo(messages[0]), len(all))
		messages, all = c.behindCompaction(t, messages, all[:n]), all[n:]
	}
	want := c.window(t, reported(all), len(messages))
	if len(messages) != len(want) {
		c.breaks(I3, "step %d of turn %s: the provider was shown %d messages and the transcript has %d", inf.Key.Step,
			t.record.ID, len(messages), len(want))
		return
	}
	for i, m := range want {
		if !sameMessage(messages[i], m) {
			c.breaks(I3, "step %d of turn %s: the provider was shown %q as message %d, and the transcript has %s %q",
				inf.Key.Step, t.record.ID, messages[i].Content, i+1, m.Role, m.Text)
		}
	}
}

// behindCompaction returns the messages of a compacted prompt that follow the compaction. It checks that the prompt has
// the turn's own request whole, in the compaction's text or right behind it, if it is one of those compacted.
func (c *checker) behindCompaction(t *turnLedger, messages []chatMessage, compacted []turn.Message) []chatMessage {
	i := requestOf(t, compacted)
	if i < 0 || strings.Contains(messages[0].Content, compacted[i].Text) {
		return messages[1:]
	}
	if len(messages) > 1 && sameMessage(messages[1], compacted[i]) {
		return messages[2:]
	}
	c.breaks(I3, "a compacted prompt of turn %s lacks the turn's request", t.record.ID)
	return messages[1:]
}

// requestOf returns the index of the message that began the turn, or -1 if messages lacks it.
func requestOf(t *turnLedger, messages []turn.Message) int {
	return slices.IndexFunc(messages, func(m turn.Message) bool {
		return m.Role == turn.RoleUser && m.TurnID == t.record.ID
	})
}

// compactedTo returns the number of the last message for which the first one of a compacted prompt stands; 0 if the
// prompt is not compacted.
func compactedTo(first chatMessage) (to int) {
	if n, err := fmt.Sscanf(first.Content, "[Messages 1 to %d", &to); n < 1 || err != nil {
		return 0
	}
	return to
}

// window returns the part of a transcript that a prompt of n messages must show. That is all of it or, if it exceeds
// what a prompt may hold, its end, with the turn's own request in front if that was cut off. The kept part is as long
// as the configuration says, without any results at its beginning whose calls were cut off.
func (c *checker) window(t *turnLedger, all []turn.Message, n int) []turn.Message {
	if c.Run.Window == 0 || len(all) <= c.Run.Window || n < 2 || n > len(all) {
		return all
	}
	request := requestOf(t, all)
	var front []turn.Message
	if request >= 0 && request < len(all)-n {
		front, n = all[request:request+1:request+1], n-1
	}
	from := len(all) - n
	begin := from
	for begin > 0 && all[begin-1].Role == turn.RoleTool {
		begin--
	}
	if len(all)-begin < c.Run.Kept {
		return all
	}
	return append(front, all[from:]...)
}

// reported returns a transcript as prompts show it: what a plan has carried out is a report at the end of the result
// before it.
func reported(all []turn.Message) (out []turn.Message) {
	byPlan := false
	var calls []turn.ToolCall
	for _, m := range all {
		switch {
		case m.Role == turn.RoleAssistant:
			byPlan, calls = m.ByPlan(), m.ToolCalls
		case m.Role == turn.RoleTool && byPlan && len(out) > 0:
			call := calls[slices.IndexFunc(calls, func(c turn.ToolCall) bool { return c.ID == m.CallID })]
			last := &out[len(out)-1]
			last.Text += fmt.Sprintf("\n\n[The plan has carried out %s %s as written. Its result (%s):]\n%s", call.Tool,
				call.Arguments, m.Outcome, m.Text)
			continue
		}
		if m.Role != turn.RoleAssistant || !byPlan {
			out = append(out, m)
		}
	}
	return out
}

func sameMessage(shown chatMessage, m turn.Message) bool {
	if shown.Role != string(m.Role) || len(shown.ToolCalls) != len(m.ToolCalls) {
		return false
	}
	for i, call := range m.ToolCalls {
		if shown.ToolCalls[i].Function.Arguments != call.Arguments {
			return false
		}
	}
	if m.Role == turn.RoleAssistant && m.Outcome != "" { // the beginning of an answer, with a mark
		return strings.HasPrefix(shown.Content, m.Text+"\n\n[")
	}
	return strings.TrimPrefix(shown.Content, "Error: ") == strings.TrimPrefix(m.Text, "Error: ") || m.Text == "" &&
		shown.Content == "(no content)"
}

// spoken looks for the answer that settled an inference among those that the provider gave whole.
func (c *checker) spoken(t *turnLedger, inf journal.ExportInference) {
	if inf.Head.Seq < 1 || int(inf.Head.Seq) > len(t.transcript) {
		c.breaks(I3, "step %d of turn %s: its answer, message %d, is not in the transcript", inf.Key.Step, t.record.ID,
			inf.Head.Seq)
		return
	}
	m := t.transcript[inf.Head.Seq-1]
	for _, r := range c.asked(t, inf.Key.Step) {
		if r.Outcome == sent && r.Answer == m.Text && sameCalls(r.Calls, m.ToolCalls) {
			return
		}
	}
	c.breaks(I3, "step %d of turn %s: the transcript has %q and the provider gave no such answer whole", inf.Key.Step,
		t.record.ID, m.Text)
}

func sameCalls(output []RequestCall, kept []turn.ToolCall) bool {
	if len(output) != len(kept) {
		return false
	}
	for i := range output {
		if output[i].Arguments != kept[i].Arguments {
			return false
		}
	}
	return true
}
