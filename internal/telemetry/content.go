package telemetry

import (
	"encoding/json"

	"github.com/everturn/everturn/workflows/turn"
)

// maxContent bounds each text in a span, in bytes.
const maxContent = 32 << 10

// content returns a text in the form in which spans contain it: redacted and bounded.
func (t *Telemetry) content(text string) string {
	return turn.Truncate(t.options.Redact(text), maxContent)
}

// messages returns the messages as JSON in the form that the semantic conventions prescribe for
// gen_ai.input.messages. role is the role of all of them.
func (t *Telemetry) messages(role string, list []turn.Message) string {
	type part struct {
		Type      string `json:"type"`
		Content   string `json:"content,omitempty"`
		ID        string `json:"id,omitempty"`
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments,omitempty"`
	}
	type message struct {
		Role  string `json:"role"`
		Parts []part `json:"parts"`
	}
	out := make([]message, len(list))
	for i, m := range list {
		out[i].Role = role
		if m.Text != "" {
			out[i].Parts = append(out[i].Parts, part{Type: "text", Content: t.content(m.Text)})
		}
		for _, c := range m.ToolCalls {
			out[i].Parts = append(out[i].Parts,
				part{Type: "tool_call", ID: c.ID, Name: c.Tool, Arguments: t.content(c.Arguments)})
		}
	}
	b, _ := json.Marshal(out)
	return string(b)
}
