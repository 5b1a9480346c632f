package httpapi

import (
	"bytes"
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
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
		File struct {
			Data string `json:"file_data"`
		} `json:"file"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	var all []string
	for _, p := range parts {
		switch p.Type {
		case "text":
			all = append(all, p.Text)
		case "image_url", "file":
			a, err := dataURL(p.ImageURL.URL + p.File.Data)
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

// conversation is what a client has sent: the messages before the last one, and that one.
type conversation struct {
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

// conversation returns the conversation of a request.
func (c *call) conversation(in chatRequest) (conv conversation, err error) {
	switch {
	case len(in.Messages) == 0 || in.Messages[len(in.Messages)-1].Role != "user":
		return conv, invalid("messages", "the last message must be one of the user")
	case len(in.Messages) > maxChatMessages:
		return conv, invalid("messages", "there are %d messages; the maximum is %d", len(in.Messages), maxChatMessages)
	case in.N != nil && *in.N != 1:
		return conv, invalid("n", "n is %d; a turn has one answer", *in.N)
	case len(in.Tools) > 0:
		return conv, invalid("tools", "agents have the tools of their configuration; tools that a client runs are not supported")
	}
	if conv.agent, err = c.agentOf(in.Model); err != nil {
		return conv, err
	}
	conv.before = conversationName{}.with("principal", c.token.Principal).with("model", in.Model)
	conv.prior, conv.last = in.Messages[:len(in.Messages)-1], in.Messages[len(in.Messages)-1]
	for _, m := range conv.prior {
		conv.before = conv.before.with(m.Role, m.Content.Text)
	}
	return conv, nil
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

// sendChat sends the last message of a conversation to its session: the one that the request names, the one in which
// the caller had the conversation so far, or a new one, which begins with what the client tells of the conversation.
func (c *call) sendChat(ctx context.Context, in chatRequest, conv *conversation) (client.Turn, error) {
	m := client.SendInput{Agent: conv.agent, Attachments: conv.last.Content.Attachments, Message: turn.UserMessage{
		Text: conv.last.Content.Text, ModelSettings: turn.ModelSettings{Temperature: in.Temperature, TopP: in.TopP,
			Stop: in.Stop, Seed: in.Seed, Effort: in.Effort, Verbosity: in.Verbosity}}}
	if in.Effort == "none" { // OpenAI's word
		m.Message.Effort = turn.EffortOff
	}
	if in.ResponseFormat.Type == "json_schema" {
		m.OutputSchema = in.ResponseFormat.JSONSchema.Schema
	}
	chosen, err := c.exchange(ctx, in, *conv)
	if err != nil {
		return client.Turn{}, err
	}
	m.Session, m.Message.ID = chosen.Session, chosen.Message
	if taken, err := c.Journal().Delivered(ctx, m.Session, m.Message.ID); err == nil { // the request was sent before
		return client.Turn{Session: m.Session, ID: taken.ID, MessageID: m.Message.ID}, nil
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
func (c *call) exchange(ctx context.Context, in chatRequest, conv conversation) (client.Exchange, error) {
	name := conversationName{}.with("principal", c.token.Principal)
	keep := in.Key != "" || in.Retry > 0
	if in.Key != "" {
		name = name.with("key", in.Key)
	} else {
		name = name.with("body", conv.before.with("user", conv.last.Content.Text).String()).with("session", in.session())
	}
	request := "request:" + hex.EncodeToString(name[:])
	if keep {
		known, err := c.Journal().Exchange(ctx, request)
		if err == nil || !errors.Is(err, client.ErrNotFound) {
			return known, err
		}
	}
	chosen, err := c.session(ctx, in, conv)
	if err != nil {
		return chosen, err
	}
	chosen.Name, chosen.Message = request, client.NewMessageID()
	return c.Journal().PutExchange(ctx, chosen, keep)
}

// session returns the session that the request names, or "".
func (in chatRequest) session() string {
	if in.Session != "" {
		return in.Session
	}
	return in.Metadata["session"]
}

// session returns an exchange with the session for a conversation. If the conversation has gone on since without this
// message, that is a fork of its session.
func (c *call) session(ctx context.Context, in chatRequest, conv conversation) (client.Exchange, error) {
	if s := in.session(); s != "" {
		return client.Exchange{Session: s}, nil
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

// keepConversation records where the conversation is now, so that the next request of the client finds it.
func (c *call) keepConversation(ctx context.Context, conv conversation, t client.Turn, answer string, ended bool) error {
	e := client.Exchange{Name: conv.before.with("user", conv.last.Content.Text).with("assistant", answer).String(),
		Session: t.Session, Message: t.MessageID}
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
