package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

// chatMessage is one message of a conversation that a client sends.
type chatMessage struct {
	Role    string      `json:"role"`
	Content chatContent `json:"content"`
	Call    string      `json:"tool_call_id,omitempty"` // of a message of the role tool
}

// chatContent is the text of a message, with its images and files. In JSON it is a string or a list of parts.
type chatContent struct {
	Text        string
	Attachments []client.Attachment
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *chatContent) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, &c.Text) // null is no text
	}
	var parts []chatPart
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	var all []string
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text":
			all = append(all, p.Text)
		case "image_url", "input_image", "file", "input_file":
			a, err := dataURL(p.url())
			if err != nil {
				return err
			}
			c.Attachments = append(c.Attachments, a)
		default:
			return fmt.Errorf("content has a part of type %.40q; text, image_url and file are known", p.Type)
		}
	}
	c.Text = strings.Join(all, "\n")
	return nil
}

// chatPart is a part of a message, of Chat Completions or of Responses.
type chatPart struct {
	Type     string   `json:"type"`
	Text     string   `json:"text"`
	ImageURL imageURL `json:"image_url"`
	FileData string   `json:"file_data"`
	File     struct {
		Data string `json:"file_data"`
	} `json:"file"`
}

// url returns the data URL of an image or a file.
func (p chatPart) url() string { return cmp.Or(string(p.ImageURL), p.FileData, p.File.Data) }

// imageURL is an address. In JSON it is a text or an object.
type imageURL string

// UnmarshalJSON implements json.Unmarshaler.
func (u *imageURL) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, (*string)(u)) == nil {
		return nil
	}
	var o struct {
		URL string `json:"url"`
	}
	err := json.Unmarshal(b, &o)
	*u = imageURL(o.URL)
	return err
}

// dataURL returns the content of a data URL. The server fetches nothing for a client.
func dataURL(url string) (a client.Attachment, err error) {
	media, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	if !ok || !strings.HasPrefix(url, "data:") {
		return a, errors.New("an image or a file must be a data URL in base64: the server fetches nothing")
	}
	a.Type = media
	if a.Data, err = base64.StdEncoding.DecodeString(data); err != nil {
		return a, fmt.Errorf("a data URL is not base64: %w", err)
	}
	return a, nil
}

// texts is a list of texts. In JSON it may be one string.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// question is what a client asks in a protocol of OpenAI: a conversation whose last message is new.
type question struct {
	key      string // of the request; "": none
	retry    int    // how often an SDK has sent the request before
	session  string // "": that of the conversation
	model    string
	messages []chatMessage
	settings turn.ModelSettings
	schema   json.RawMessage // of the answer; nil: none
	tools    []turn.ClientTool
}

// conversation is what a client has sent: the messages before the last one, and that one.
type conversation struct {
	question
	agent string
	prior []chatMessage
	last  chatMessage
	// before names the conversation without its last message, among those of the caller.
	before conversationName
}

// conversationName is the hash of a conversation, of its principal and of its model. Each message extends it.
type conversationName [sha256.Size]byte

// with returns the name of the conversation with one more message. Space around texts does not count, because clients
// remove it.
func (n conversationName) with(role, text string) conversationName {
	h := sha256.New()
	h.Write(n[:])
	fmt.Fprintf(h, "%d:%s", len(role), role)
	h.Write([]byte(strings.TrimSpace(text)))
	return conversationName(h.Sum(nil))
}

// String returns the name of its exchange.
func (n conversationName) String() string { return "conversation:" + hex.EncodeToString(n[:]) }

// The bounds of what a client sends.
const maxChatMessages = 10_000

// conversation returns the conversation of a question.
func (c *call) conversation(q question) (conv conversation, err error) {
	n := len(q.messages)
	switch {
	case n == 0 || q.messages[n-1].Role != "user":
		return conv, invalid("messages", "the last message must be one of the user")
	case n > maxChatMessages:
		return conv, invalid("messages", "there are %d messages; the maximum is %d", n, maxChatMessages)
	}
	conv = conversation{question: q, prior: q.messages[:n-1], last: q.messages[n-1]}
	if conv.agent, err = c.agentOf(q.model); err != nil {
		return conv, err
	}
	conv.before = c.nameOf(q.model, conv.prior)
	return conv, nil
}

// nameOf returns the name of a conversation of the caller.
func (c *call) nameOf(model string, messages []chatMessage) conversationName {
	name := conversationName{}.with("principal", c.token.Principal).with("model", model)
	for _, m := range messages {
		name = name.with(m.Role, m.Content.Text)
	}
	return name
}

// agentOf returns the agent of a model's name: empty for the default agent.
func (c *call) agentOf(name string) (string, error) {
	if name == defaultModel || name == "" {
		return "", nil
	}
	id, ok := strings.CutPrefix(name, agentModel)
	known := slices.ContainsFunc(c.server.Config.AllAgents(), func(a turn.Agent) bool { return a.ID == id })
	if !ok || !known {
		return "", noModel(name)
	}
	return id, nil
}

// send sends the last message of a conversation to its session. A new session begins with what the client tells of the
// conversation.
func (c *call) send(ctx context.Context, conv conversation, chosen client.Exchange) (client.Turn, error) {
	taken, err := c.Journal().Delivered(ctx, chosen.Session, chosen.Message)
	if err == nil { // the request was sent before
		return client.Turn{Session: chosen.Session, ID: taken.ID, MessageID: chosen.Message}, nil
	}
	m := client.SendInput{Session: chosen.Session, Agent: conv.agent, Attachments: conv.last.Content.Attachments,
		OutputSchema: conv.schema, Message: turn.UserMessage{ID: chosen.Message, Text: conv.last.Content.Text,
			ModelSettings: conv.settings, ClientTools: conv.tools}}
	if m.Message.Effort == "none" { // OpenAI's word
		m.Message.Effort = turn.EffortOff
	}
	if chosen.Seq == newSession {
		m.Message.Text = conv.told()
	}
	return c.Send(ctx, m)
}

// newSession is the Exchange.Seq of the message that begins a session.
const newSession = -1

// exchange returns the session for a request and the ID of its message. A request that is sent again gets the same:
// under its key or, if an SDK has sent it before, by its content.
func (c *call) exchange(ctx context.Context, conv conversation) (client.Exchange, error) {
	name := conversationName{}.with("principal", c.token.Principal)
	asked := conv.before.with("user", conv.last.Content.Text).String()
	keep := conv.key != "" || conv.retry > 0
	if conv.key != "" {
		name = name.with("key", conv.key)
	} else {
		name = name.with("body", asked).with("session", conv.session)
	}
	request := "request:" + hex.EncodeToString(name[:])
	if keep {
		known, err := c.Journal().Exchange(ctx, request)
		if err == nil && known.Body != asked {
			return known, invalid("Idempotency-Key", "another request has this key already; send this one under another key")
		}
		if err == nil || !errors.Is(err, client.ErrNotFound) {
			return known, err
		}
	}
	chosen, err := c.sessionOf(ctx, conv)
	if err != nil {
		return chosen, err
	}
	chosen.Name, chosen.Message, chosen.Body = request, client.NewMessageID(), asked
	return c.Journal().PutExchange(ctx, chosen, keep)
}

// sessionOf returns an exchange with the session for a conversation: the one that the request names, or the one in
// which the caller had the conversation so far, or a new one. If the conversation has gone on since without this
// message, it is a fork.
func (c *call) sessionOf(ctx context.Context, conv conversation) (client.Exchange, error) {
	if conv.session != "" {
		return client.Exchange{Session: conv.session}, nil
	}
	fresh := client.Exchange{Session: client.NewSessionID(), Seq: newSession}
	had, err := c.Journal().Exchange(ctx, conv.before.String())
	if errors.Is(err, client.ErrNotFound) {
		return fresh, nil
	}
	if err != nil {
		return had, err
	}
	s, err := c.Journal().Session(ctx, had.Session)
	switch {
	case errors.Is(err, client.ErrNotFound): // it was deleted
		return fresh, nil
	case err != nil:
		return had, err
	case s.LastTurn.ID == had.Turn || had.Seq == 0:
		return client.Exchange{Session: had.Session}, nil
	}
	fork, err := c.Fork(ctx, client.ForkInput{Session: had.Session, At: had.Seq})
	return client.Exchange{Session: fork.ID}, err
}

// told returns the text that begins a new session: the last message, after what the client tells of the conversation.
func (conv conversation) told() string {
	if len(conv.prior) == 0 {
		return conv.last.Content.Text
	}
	var b strings.Builder
	told := false
	for _, m := range conv.prior {
		text := strings.TrimSpace(m.Content.Text)
		if m.Role == "system" || m.Role == "developer" {
			fmt.Fprintf(&b, "Instructions of the client for this conversation:\n%s\n\n", text)
			continue
		}
		if !told {
			told = true
			b.WriteString("The conversation so far, as the client tells it:\n\n")
		}
		fmt.Fprintf(&b, "[%s]\n%s\n\n", turn.Truncate(m.Role, 40), text)
	}
	if told {
		b.WriteString("[user, now]\n")
	}
	return b.String() + conv.last.Content.Text
}

// keepConversation records where the conversation is now, so that the next request of the client finds it. name is that
// of the conversation with the answer.
func (c *call) keepConversation(ctx context.Context, name conversationName, t client.Turn, ended bool) error {
	e := client.Exchange{Name: name.String(), Session: t.Session, Message: t.MessageID}
	s, err := c.Journal().Session(ctx, t.Session)
	if err != nil {
		return err
	}
	if e.Turn = s.LastTurn.ID; ended {
		e.Seq = s.Head.Seq
	}
	_, err = c.Journal().PutExchange(ctx, e, false)
	return err
}
