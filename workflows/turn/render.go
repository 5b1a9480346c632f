package turn

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Render returns the prompt that plan specifies: the system prompt, the anchor and the window in the form that the
// mode requires. anchor is nil if the window contains it. With the same plan, a longer transcript only extends the
// prompt's messages.
func Render(plan PromptSpec, promptConfig PromptConfig, anchor *Message, window []Message) Prompt {
	window = Align(window)
	messages := make([]Message, 0, len(window)+1)
	if anchor != nil {
		messages = append(messages, renderMessage(plan.Mode, *anchor))
	}
	messages = append(messages, renderWindow(plan.Mode, window)...)
	p := Prompt{
		Model: plan.Model, System: promptConfig.System, Messages: messages, Note: plan.Note,
		MaxTokens: plan.MaxTokens,
	}
	if plan.Catalogue {
		p.Note = strings.TrimSpace(p.Note + "\n" + catalogue(promptConfig.Descriptors))
	}
	if s := promptConfig.OutputSchema; len(s) > 0 {
		p.System = strings.TrimSpace(p.System + "\n\n" + outputProtocol(plan.Mode, s))
	}
	if plan.Mode == ModeJSON {
		p.System = strings.TrimSpace(p.System + "\n\n" + jsonProtocol(promptConfig.Descriptors))
		p.ActionSchema = actionSchema
		return p.withEnvironment(promptConfig.Environment)
	}
	p.OutputSchema = promptConfig.OutputSchema
	for _, d := range promptConfig.Descriptors {
		p.Tools = append(p.Tools, WireTool{Name: d.Wire, Description: d.Description, Schema: d.Schema})
	}
	p.Tools = append(p.Tools, askUser)
	return p.withEnvironment(promptConfig.Environment)
}

// withEnvironment returns the prompt with the environment at the end of the system prompt.
func (p Prompt) withEnvironment(environment string) Prompt {
	if p.System != "" && environment != "" {
		environment = "\n\n" + environment
	}
	p.System, p.Environment = p.System+environment, environment
	return p
}

// actionSchema is the JSON schema of the actions of jsonProtocol.
var actionSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"type":{"type":"string","enum":["final","tool_call","ask_user"]},"content":{"type":"string"},"name":{"type":` +
	`"string"},"arguments":{"type":"object"},"question":{"type":"string"}},"required":["type"],` +
	`"additionalProperties":false}`)

// outputProtocol returns the instructions for an answer that matches the output schema. All models get them, because
// a provider may ignore the schema in a request.
func outputProtocol(mode Mode, schema json.RawMessage) string {
	intro := "Your final answer must be one JSON object of the following JSON schema, with nothing around it:\n"
	if mode == ModeJSON {
		intro = "The content of your final answer must be a string that holds one JSON object of the following JSON schema:\n"
	}
	return intro + string(schema)
}

// OutputText returns the JSON of an answer that must match an output schema, without the Markdown code fence that
// models often add.
func OutputText(text string) string {
	s := strings.TrimSpace(text)
	inner, fenced := strings.CutPrefix(s, "```")
	if inner, ended := strings.CutSuffix(inner, "```"); fenced && ended {
		return strings.TrimSpace(strings.TrimPrefix(inner, "json"))
	}
	return s
}

var askUser = WireTool{
	Name:        AskUserTool,
	Description: "Ask the user one question when the request cannot be answered without it. Use it alone.",
	Schema: json.RawMessage(
		`{"type":"object","properties":{"question":{"type":"string"}},"required":["question"],"additionalProperties":false}`),
}

// renderWindow returns the messages of a window in the form that the mode requires. What a plan has carried out is a
// report at the end of the tool result before it, because the model has not requested it: providers that want a model's
// reasoning back with its calls refuse calls without. A report at the beginning of the window is a message of its own.
func renderWindow(mode Mode, window []Message) []Message {
	out := make([]Message, 0, len(window))
	var reported Message // the plan's message whose calls have their results next
	after := -1          // the index in out of the message at whose end a report belongs
	for _, m := range window {
		switch {
		case m.Role == RoleAssistant && m.ByPlan():
			reported = m
			if after < 0 {
				out = append(out, Message{Role: RoleUser, Text: "(The plan's report.)"})
				after = len(out) - 1
			}
		case m.Role == RoleTool && reported.requests(m):
			out[after].Text += "\n\n" + reportText(reported, m)
			out[after].Media = append(slices.Clip(out[after].Media), m.Media...)
		default:
			out = append(out, renderMessage(mode, m))
			if reported, after = (Message{}), -1; m.Role == RoleTool {
				after = len(out) - 1
			}
		}
	}
	return out
}

// requests reports whether the result is that of a call of the message.
func (m Message) requests(result Message) bool {
	return m.TurnID == result.TurnID && slices.ContainsFunc(m.ToolCalls, func(c ToolCall) bool { return c.ID == result.CallID })
}

// reportText describes a call that a plan has made, and its result, for the model.
func reportText(m, result Message) string {
	i := slices.IndexFunc(m.ToolCalls, func(c ToolCall) bool { return c.ID == result.CallID })
	c := m.ToolCalls[i]
	return fmt.Sprintf("[The plan has carried out %s %s as written. Its result (%s):]\n%s", c.Tool, c.Arguments, result.Outcome,
		result.Text)
}

// renderMessage returns a message of the transcript in the form that the mode requires. Providers reject assistant
// messages without content, so it gives them some.
func renderMessage(mode Mode, m Message) Message {
	switch {
	case m.Role == RoleAssistant && m.Text == "" && len(m.ToolCalls) == 0:
		m.Text = "(no content)"
	case m.Role == RoleAssistant && m.Outcome != "":
		m.Text += cutOffNote(m.Outcome)
	case m.Role == RoleTool && m.Outcome == OutcomeError && mode == ModeNative:
		m.Text = "Error: " + m.Text // providers have no other way to mark an error
	case mode != ModeJSON: // unchanged
	case m.Role == RoleAssistant && len(m.ToolCalls) > 0:
		m = Message{Role: RoleAssistant, Text: callsAsText(m)}
	case m.Role == RoleTool:
		m = Message{Role: RoleUser, Text: fmt.Sprintf("Result of call %s (%s):\n%s", m.CallID, m.Outcome, m.Text),
			Media: m.Media}
	}
	return m
}

// cutOffNote returns the note that follows the text of an incomplete answer, so that the model knows that it ends
// early.
func cutOffNote(outcome Outcome) string {
	if outcome == OutcomeCancelled {
		return "\n\n[The user interrupted this answer here.]"
	}
	return "\n\n[This answer was cut off here.]"
}

// callsAsText returns an assistant message as text: its text, followed by its tool calls as JSON objects in the form
// of jsonProtocol. Arguments that are not valid JSON become a JSON string.
func callsAsText(m Message) string {
	parts := make([]string, 0, len(m.ToolCalls)+1)
	if m.Text != "" {
		parts = append(parts, m.Text)
	}
	for _, c := range m.ToolCalls {
		args := c.Arguments
		if CheckJSON(args) != nil {
			quoted, _ := json.Marshal(args) // a string always marshals
			args = string(quoted)
		}
		name, _ := json.Marshal(c.Tool)
		parts = append(parts, fmt.Sprintf(`{"type":"tool_call","name":%s,"arguments":%s}`, name, args))
	}
	return strings.Join(parts, "\n")
}

// jsonProtocol returns the instructions for a model without native tool calls.
func jsonProtocol(tools []Descriptor) string {
	var b strings.Builder
	b.WriteString("Answer with exactly one JSON object and nothing around it, in one of these forms:\n")
	b.WriteString(`{"type":"final","content":"your answer"}` + "\n")
	if len(tools) > 0 {
		b.WriteString(`{"type":"tool_call","name":"a tool's name","arguments":{}}` + "\n")
	}
	b.WriteString(`{"type":"ask_user","question":"one question"}` + "\n")
	if len(tools) == 0 {
		return b.String()
	}
	b.WriteString("\n" + toolsIntro)
	for _, t := range tools {
		b.WriteString(toolEntry(t))
	}
	return b.String()
}

const toolsIntro = "The tools, each with the JSON schema of its arguments:\n"

// toolEntry describes a tool in a list of tools.
func toolEntry(t Descriptor) string {
	return fmt.Sprintf("- %s: %s\n  %s\n", t.Wire, t.Description, t.Schema)
}

// maxCatalogue bounds the descriptions and schemas in catalogue, in bytes.
const maxCatalogue = 8 << 10

// catalogue lists the tools for a model that called an unknown one. Of tools whose entries exceed maxCatalogue, it has
// only the names, as long as these fit as well.
func catalogue(tools []Descriptor) string {
	if len(tools) == 0 {
		return "There are no tools: answer without one."
	}
	var full, names strings.Builder
	left := 0
	for _, t := range tools {
		switch entry := toolEntry(t); {
		case full.Len()+len(entry) <= maxCatalogue:
			full.WriteString(entry)
		case names.Len()+len(t.Wire) < maxCatalogue/2:
			names.WriteString(" " + t.Wire)
		default:
			left++
		}
	}
	out := toolsIntro + full.String()
	if names.Len() > 0 {
		out += "Further tools:" + names.String()
	}
	if left > 0 {
		out += fmt.Sprintf(" and %d more", left)
	}
	return out
}
