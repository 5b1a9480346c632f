package inference

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// Entry is a message of a prompt in the form that all wire APIs share.
type Entry struct {
	Role turn.Role
	// Text is not empty, except in an assistant message with calls, and beside Media.
	Text string
	// Calls are those of an assistant message, with their WireID, the wire name as Tool, and arguments that are a JSON
	// object.
	Calls []turn.ToolCall
	// Items are those of an assistant message that go back to the prompt's model.
	Items []turn.ProviderItem
	// CallID is the WireID of the call whose result a tool message is; Failed means that the call did not succeed.
	CallID string
	Failed bool
	// Media are the images and audio of a user message.
	Media []Shown
}

// Shown is an image or audio that the model gets. About says which message it belongs to, and precedes it.
type Shown struct {
	turn.Media
	About string
}

// Conversation returns the messages of a prompt: the transcript and the note, in this order. A result whose call is not
// in the prompt becomes text, because providers refuse a result without its call.
//
// A result can only hold text (OpenAI), and no message may come between the results of one completion. Images and audio
// therefore follow the last result in a user message.
func Conversation(p turn.Prompt, r Rules, api turn.API) []Entry {
	c := conversation{rules: r, owner: turn.ProviderItems{Provider: r.Provider, API: api, Model: p.Model},
		wireIDs: map[string]string{}, entries: make([]Entry, 0, len(p.Messages)+2)}
	for _, m := range p.Messages {
		c.add(m)
	}
	c.addMedia()
	if p.Note != "" {
		c.entries = append(c.entries, Entry{Role: turn.RoleUser, Text: notePrefix + p.Note})
	}
	return c.entries
}

// notePrefix tells the model, and tests, that a note does not come from the user. A note has the role user because many
// chat templates refuse a system message that is not the first.
const notePrefix = "(Automatic note, not from the user) "

// conversation builds entries one after the other.
type conversation struct {
	rules   Rules
	owner   turn.ProviderItems // without items
	wireIDs map[string]string  // our call ID → the provider's, of the last assistant message with calls
	entries []Entry
	pending []Shown // media of results, which follow the last result
}

// add appends a message of the transcript.
func (c *conversation) add(m turn.Message) {
	if m.Role != turn.RoleTool {
		c.addMedia()
	}
	for _, media := range m.Media {
		switch {
		case len(media.Data) > 0 && c.rules.Modalities.Accepts(media.Type):
			c.pending = append(c.pending, Shown{media, about(m, media)})
		case media.Hash == "" || !strings.Contains(m.Text, media.Hash): // otherwise the text already describes it
			m.Text = strings.TrimPrefix(m.Text+"\n"+omitted(media), "\n")
		}
	}
	e := c.entry(m)
	c.entries = append(c.entries, e)
	if e.Role != turn.RoleTool {
		c.addMedia()
	}
}

// addMedia appends a message with the pending media.
func (c *conversation) addMedia() {
	if len(c.pending) > 0 {
		c.entries = append(c.entries, Entry{Role: turn.RoleUser, Media: c.pending})
		c.pending = nil
	}
}

func (c *conversation) entry(m turn.Message) Entry {
	switch m.Role {
	case turn.RoleAssistant:
		return c.assistant(m)
	case turn.RoleTool:
		if id, ok := c.wireIDs[m.CallID]; ok {
			return Entry{Role: turn.RoleTool, CallID: id, Text: orPlaceholder(m.Text), Failed: m.Outcome != turn.OutcomeOK}
		}
		return Entry{Role: turn.RoleUser, Text: fmt.Sprintf("Result of call %s (%s):\n%s", m.CallID, m.Outcome, m.Text)}
	}
	return Entry{Role: turn.RoleUser, Text: orPlaceholder(m.Text)}
}

func (c *conversation) assistant(m turn.Message) Entry {
	if len(m.ToolCalls) > 0 {
		clear(c.wireIDs)
	}
	e := Entry{Role: turn.RoleAssistant, Text: m.Text}
	for _, call := range m.ToolCalls {
		c.wireIDs[call.ID] = wireID(call)
		e.Calls = append(e.Calls, turn.ToolCall{ID: call.ID, WireID: wireID(call), Tool: turn.WireName(call.Tool),
			Arguments: arguments(call.Arguments)})
	}
	if len(e.Calls) == 0 {
		e.Text = orPlaceholder(m.Text)
	}
	if i := m.Items; i != nil && i.Provider == c.owner.Provider && i.API == c.owner.API && i.Model == c.owner.Model {
		e.Items = i.Items
	}
	return e
}

// Part is a part of an assistant message: its text, a call, or an item of the provider.
type Part struct {
	Text string
	Call *turn.ToolCall
	Raw  json.RawMessage // for a text or a call, what the message lacks; may be empty
}

// Parts returns the parts of an assistant message in the order in which the provider sent them, or else its text and
// then its calls. A message does not end with an item of the provider: providers refuse reasoning that nothing follows.
func (e Entry) Parts() (out []Part) {
	text, calls := e.Text, e.Calls
	for _, item := range e.Items {
		switch item.Part {
		case turn.PartText:
			if text != "" {
				out, text = append(out, Part{Text: text, Raw: item.Raw}), ""
			}
		case turn.PartCall:
			if len(calls) > 0 {
				out, calls = append(out, Part{Call: &calls[0], Raw: item.Raw}), calls[1:]
			}
		default:
			out = append(out, Part{Raw: item.Raw})
		}
	}
	if text != "" {
		out = append(out, Part{Text: text})
	}
	for i := range calls {
		out = append(out, Part{Call: &calls[i]})
	}
	last := len(out)
	for last > 0 && out[last-1].Text == "" && out[last-1].Call == nil {
		last--
	}
	return slices.Clip(out[:last])
}

// orPlaceholder replaces empty content, without which providers refuse a message.
func orPlaceholder(text string) string {
	if text == "" {
		return "(no content)"
	}
	return text
}

func wireID(c turn.ToolCall) string {
	if c.WireID != "" {
		return c.WireID
	}
	return "call_" + strings.ReplaceAll(c.ID, ".", "_")
}

// arguments returns a call's arguments as the model sent them. It wraps arguments that are not a JSON object, because
// some servers parse them and would refuse the whole conversation.
func arguments(raw string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &object) == nil && object != nil {
		return raw
	}
	if strings.TrimSpace(raw) == "" {
		return "{}"
	}
	quoted, _ := json.Marshal(map[string]string{"invalid_arguments": raw}) // strings always marshal
	return string(quoted)
}

// Schema returns the schema of a tool's arguments.
func Schema(t turn.WireTool) json.RawMessage {
	if len(t.Schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Schema
}

// about returns the line that precedes an image or audio.
func about(m turn.Message, media turn.Media) string {
	of := "this message"
	if m.CallID != "" {
		of = "the result of call " + m.CallID
	}
	return fmt.Sprintf("%sOf %s: %s", notePrefix, of, media.Type)
}

// omitted describes media that the model does not accept.
func omitted(m turn.Media) string {
	kept := ""
	if m.Hash != "" {
		kept = ", kept as artifact " + m.Hash
	}
	return fmt.Sprintf("[%s, %s%s; you cannot see it]", turn.Truncate(m.Type, 80), printable.Size(m.Bytes), kept)
}
