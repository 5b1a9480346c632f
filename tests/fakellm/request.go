package fakellm

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Outcome is how the answer to a request ended.
type Outcome string

// The outcomes.
const (
	Open    Outcome = "open"    // under way
	Sent    Outcome = "sent"    // everything in the reply was sent
	Cut     Outcome = "cut"     // broken off, as the script said
	Aborted Outcome = "aborted" // the client gave up, or the server was closed
)

// Request is an entry of the ledger.
type Request struct {
	Index  int // from 0, in order of arrival
	At     time.Time
	Header http.Header
	Body   []byte
	// Step counts the model's answers since the user's last message, from 0. Notes and results do not count as user
	// messages. If the beginning of the turn is no longer shown, tool-call IDs of this server ("call_s2_0") and results
	// that name their call keep the count right.
	Step int
	// Attempt counts requests with exactly this body, from 1.
	Attempt int
	API     string // chat, responses or messages
	Chat    Chat

	Reply   string // the kind of reply
	Outcome Outcome
	Events  int // number of events sent
	// Finished: the event with the finish reason was sent, and with it the whole answer except its usage.
	Finished bool
	Duration time.Duration
}

// Chat is what a request's body says, in the form of Chat Completions for all APIs.
type Chat struct {
	Model         string    `json:"model"`
	Messages      []Message `json:"messages"`
	Stream        bool      `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	Temperature         *float64 `json:"temperature"`
	MaxTokens           int      `json:"max_tokens"`
	MaxCompletionTokens int      `json:"max_completion_tokens"`

	// Schema is the field with the schema of the answer, nil if there is none.
	Schema   json.RawMessage `json:"response_format"`
	CacheKey string          `json:"-"` // of the Responses API
}

func (c *Chat) offer(name string) {
	c.Tools = append(c.Tools, struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}{struct {
		Name string `json:"name"`
	}{name}})
}

// Message is one message of a request. If it has several parts, Content holds the text parts, one per line, and Media
// holds the addresses of images and the data of audio.
type Message struct {
	Role       string   `json:"role"`
	Content    string   `json:"content"`
	Media      []string `json:"-"`
	ToolCallID string   `json:"tool_call_id"`
	ToolCalls  []called `json:"tool_calls"`
	Reasoning  []string `json:"-"` // of the model, that has come back
}

type called struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (m *Message) call(id, name, arguments string) {
	c := called{ID: id}
	c.Function.Name, c.Function.Arguments = name, arguments
	m.ToolCalls = append(m.ToolCalls, c)
}

func (m *Message) addText(text string) { m.Content = strings.TrimPrefix(m.Content+"\n"+text, "\n") }

// addParts reads the content of the Responses API: a string or parts.
func (m *Message) addParts(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		m.addText(text)
		return nil
	}
	var parts []struct {
		Type, Text string
		ImageURL   string `json:"image_url"`
		FileData   string `json:"file_data"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		switch p.Type {
		case "input_text", "output_text":
			m.addText(p.Text)
		case "input_image":
			m.Media = append(m.Media, p.ImageURL)
		case "input_file":
			m.Media = append(m.Media, p.FileData)
		default:
			return fmt.Errorf("a part of the type %q is not known", p.Type)
		}
	}
	return nil
}

// UnmarshalJSON reads content as a string or as a list of parts.
func (m *Message) UnmarshalJSON(b []byte) error {
	type plain Message
	var in struct {
		plain
		Content   json.RawMessage `json:"content"`
		Reasoning *string         `json:"reasoning_content"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*m = Message(in.plain)
	if in.Reasoning != nil { // an empty one has come back, too
		m.Reasoning = []string{}
	}
	if in.Reasoning != nil && *in.Reasoning != "" {
		m.Reasoning = append(m.Reasoning, *in.Reasoning)
	}
	switch {
	case len(in.Content) == 0:
		return nil
	case in.Content[0] == '[':
		return m.parts(in.Content)
	}
	return json.Unmarshal(in.Content, &m.Content)
}

func (m *Message) parts(b []byte) error {
	var parts []struct {
		Type  string
		Text  string
		Image struct {
			URL string
		} `json:"image_url"`
		Audio struct {
			Data string
		} `json:"input_audio"`
		File struct {
			Data string `json:"file_data"`
		}
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			m.addText(p.Text)
		case "image_url":
			m.Media = append(m.Media, p.Image.URL)
		case "input_audio":
			m.Media = append(m.Media, p.Audio.Data)
		case "file":
			m.Media = append(m.Media, p.File.Data)
		default:
			return fmt.Errorf("a part of the type %q is not known", p.Type)
		}
	}
	return nil
}

// Last returns the last message with this role, or the zero Message if there is none.
func (c Chat) Last(role string) Message {
	for i := len(c.Messages) - 1; i >= 0; i-- {
		if c.Messages[i].Role == role {
			return c.Messages[i]
		}
	}
	return Message{}
}

// ToolNames returns the names of the offered tools.
func (c Chat) ToolNames() []string {
	var names []string
	for _, t := range c.Tools {
		names = append(names, t.Function.Name)
	}
	return names
}

// Asked returns the user's last message that is neither a note nor a result.
func (c Chat) Asked() string {
	for i := len(c.Messages) - 1; i >= 0; i-- {
		if m := c.Messages[i]; m.Role == "user" && !synthetic(m.Content) {
			return m.Content
		}
	}
	return ""
}

// The marks of user messages that the product writes itself.
const (
	noteMark   = "(Automatic note"
	resultMark = "Result of call "
	noticeMark = "Notice of the system"
	// compactedMark begins the message that stands for the beginning of the conversation.
	compactedMark = "[Messages 1 to "
)

func synthetic(content string) bool {
	return strings.HasPrefix(content, noteMark) || strings.HasPrefix(content, resultMark) ||
		strings.HasPrefix(content, noticeMark) || strings.HasPrefix(content, compactedMark)
}

var (
	ownCall   = regexp.MustCompile(`^call_s(\d+)_\d+$`)
	namedCall = regexp.MustCompile(`^` + resultMark + `(\d+)\.\d+ `)
)

// step counts answers; see Request.Step.
func (c Chat) step() int {
	step := 0
	for _, m := range c.Messages {
		switch {
		case m.Role == "user" && !synthetic(m.Content):
			step = 0
		case m.Role == "assistant":
			step++
			for _, call := range m.ToolCalls {
				step = max(step, number(ownCall, call.ID)+1)
			}
		case m.Role == "user":
			step = max(step, number(namedCall, m.Content))
		}
	}
	return step
}

// number returns what the pattern's group captures, or -1.
func number(pattern *regexp.Regexp, s string) int {
	m := pattern.FindStringSubmatch(s)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return n
}

func parseChat(body []byte) (Chat, error) {
	var c Chat
	if err := json.Unmarshal(body, &c); err != nil {
		return c, err
	}
	for _, m := range c.Messages {
		if strings.HasPrefix(c.Model, "deepseek") && len(m.ToolCalls) > 0 && m.Reasoning == nil {
			return c, errors.New("the reasoning_content in the thinking mode must be passed back")
		}
	}
	return c, nil
}

func fingerprint(body []byte) [32]byte { return sha256.Sum256(body) }
