package telemetry

import (
	"encoding/json"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// maxContent bounds each text in a span, in bytes.
const maxContent = 32 << 10

// content returns a text in the form in which spans contain it: redacted and bounded.
func (t *Telemetry) content(text string) string {
	return turn.Truncate(t.options.Redact(text), maxContent)
}

// arguments returns the arguments of a call in the form in which spans contain them: like content, without the values
// of sensitive arguments.
func (t *Telemetry) arguments(cfg turn.Config, c turn.ToolCall) string {
	tool, _ := cfg.Find(c.Tool)
	return t.content(turn.BlankArguments(c.Arguments, tool.Sensitive))
}

// messages returns the messages as JSON in the form that the semantic conventions prescribe for
// gen_ai.input.messages. role is the role of all of them. cfg is the config of their turn.
func (t *Telemetry) messages(cfg turn.Config, role string, list []turn.Message) string {
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
		if text := m.Text; text != "" {
			if strings.HasPrefix(strings.TrimSpace(text), "{") && role == "assistant" { // possibly a call in JSON mode
				text = turn.BlankArguments(text, nil)
			}
			out[i].Parts = append(out[i].Parts, part{Type: "text", Content: t.content(text)})
		}
		for _, c := range m.ToolCalls {
			out[i].Parts = append(out[i].Parts,
				part{Type: "tool_call", ID: c.ID, Name: c.Tool, Arguments: t.arguments(cfg, c)})
		}
	}
	b, _ := json.Marshal(out)
	return string(b)
}
