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
	// Text is empty only in an assistant message with calls, and in a message with Media.
	Text string
	// Calls are those of an assistant message, with their WireID, the wire name as Tool, and arguments that are a JSON
	// object.
	Calls []turn.ToolCall
	// Items are the items of an assistant message that are sent back to the prompt's model, which has produced them.
	Items []turn.ProviderItem
	// CallID is the WireID of the call whose result a tool message contains; Failed means that the call did not succeed.
	CallID string
	Failed bool
	// Media are the images and audio of a user message.
	Media []Shown
}

// Shown is an image, audio or PDF that the model receives. About is a line of text that precedes it and says to which
// message it belongs.
type Shown struct {
	turn.Media
	About string
}

// Conversation returns the messages of a prompt in the form for a wire API: the transcript, followed by the note. A
// tool's result whose call is not in the prompt becomes a user message, because providers refuse a result without its
// call.
//
// A tool's result can contain only text (OpenAI), and no message may come between the results of one completion. Media
// of results therefore follow the last of these results, in a user message of their own.
func Conversation(p turn.Prompt, r Rules, api turn.API) []Entry {
	c := conversation{rules: r, owner: turn.ProviderItems{Provider: r.Provider, API: api, Model: p.Model},
		wireIDs: map[string]string{}, entries: make([]Entry, 0, len(p.Messages)+2)}
	for _, m := range p.Messages {
		c.add(m)
	}
	c.flushMedia()
	if p.Note != "" {
		c.entries = append(c.entries, Entry{Role: turn.RoleUser, Text: notePrefix + p.Note})
	}
	return c.entries
}

// notePrefix begins each note, so that the model, and tests, can tell it from the user's words. A note is a user
// message because many chat templates refuse a system message that is not the first message.
const notePrefix = "(Automatic note, not from the user) "

// conversation builds the entries of a prompt, message by message.
type conversation struct {
	rules        Rules
	owner        turn.ProviderItems // the prompt's provider, API and model; no items
	wireIDs      map[string]string  // our call ID → the provider's, of the last assistant message with calls
	entries      []Entry
	pendingMedia []Shown // media of results, which follow the last result
}

// add appends a message of the transcript. Media that the model does not accept, or whose data the caller has not
// loaded, become a line of the message's text.
func (c *conversation) add(m turn.Message) {
	if m.Role != turn.RoleTool { // the results before this message are complete
		c.flushMedia()
	}
	for _, media := range m.Media {
		switch {
		case len(media.Data) > 0 && c.rules.Modalities.Accepts(media.Type):
			c.pendingMedia = append(c.pendingMedia, Shown{media, mediaNote(m, media)})
		case media.Hash == "" || !strings.Contains(m.Text, media.Hash): // a text with the hash already describes it
			m.Text = strings.TrimPrefix(m.Text+"\n"+omittedNote(media), "\n")
		}
	}
	e := c.entry(m)
	c.entries = append(c.entries, e)
	if e.Role != turn.RoleTool { // entry may have made a result a user message
		c.flushMedia()
	}
}

// flushMedia appends a user message with the pending media, if there are any.
func (c *conversation) flushMedia() {
	if len(c.pendingMedia) > 0 {
		c.entries = append(c.entries, Entry{Role: turn.RoleUser, Media: c.pendingMedia})
		c.pendingMedia = nil
	}
}

// entry converts a message of the transcript. A tool's result without its call in the prompt becomes a user message.
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

// assistant converts an assistant message, and records the IDs of its calls for the results that follow.
func (c *conversation) assistant(m turn.Message) Entry {
	if len(m.ToolCalls) > 0 { // results belong to the last message with calls
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
	i := m.Items
	if i != nil && !c.rules.NoItems && i.Provider == c.owner.Provider && i.API == c.owner.API && i.Model == c.owner.Model {
		e.Items = i.Items // from the same model of the same provider
	}
	return e
}

// Part is a part of an assistant message: its text, a call, or an item of the provider.
type Part struct {
	Text string
	Call *turn.ToolCall
	Raw  json.RawMessage // the provider's item; for a text or a call only the fields that these lack, maybe none
}

// Parts returns the parts of an assistant message in the order in which the provider sent them; if that is unknown, its
// text and then its calls. It omits items of the provider at the end, because providers refuse reasoning that is not
// followed by a text or a call.
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
	end := len(out)
	for end > 0 && out[end-1].Text == "" && out[end-1].Call == nil {
		end--
	}
	return slices.Clip(out[:end])
}

// orPlaceholder returns text, or a placeholder if text is empty, because providers refuse a message without content.
func orPlaceholder(text string) string {
	if text == "" {
		return "(no content)"
	}
	return text
}

// wireID returns the provider's ID of a call, or one made from the call's own ID if the provider gave none.
func wireID(c turn.ToolCall) string {
	if c.WireID != "" {
		return c.WireID
	}
	return "call_" + strings.ReplaceAll(c.ID, ".", "_")
}

// arguments returns a call's arguments as the model sent them, if they are a JSON object. It wraps others in an object,
// because some servers parse the arguments and would refuse the whole conversation; blank ones become an empty object.
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

// Schema returns the JSON schema of a tool's arguments; for a tool without one, that of an empty object.
func Schema(t turn.WireTool) json.RawMessage {
	if len(t.Schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Schema
}

// mediaNote returns the line of text that precedes an image or audio: see Shown.
func mediaNote(m turn.Message, media turn.Media) string {
	subject := "this message"
	if m.CallID != "" {
		subject = "the result of call " + m.CallID
	}
	return fmt.Sprintf("%sOf %s: %s", notePrefix, subject, media.Type)
}

// omittedNote returns the line of text that replaces media which the model does not accept.
func omittedNote(m turn.Media) string {
	kept := ""
	if m.Hash != "" {
		kept = ", kept as artifact " + m.Hash
	}
	return fmt.Sprintf("[%s, %s%s; you cannot see it]", turn.Truncate(m.Type, 80), printable.Size(m.Bytes), kept)
}
