package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/internal/items"
	"github.com/everturn/everturn/workflows/turn"
)

// chatRequest is a request of OpenAI's Chat Completions. Fields that are not listed have no effect.
type chatRequest struct {
	open
	Session        string            `header:"Everturn-Session" json:"-" jsonschema:"the session; if it is not set, that of the conversation in messages"`
	Key            string            `header:"Idempotency-Key" json:"-" jsonschema:"a request that is sent again under it is answered once"`
	Retry          int               `header:"X-Stainless-Retry-Count" json:"-" jsonschema:"how often an OpenAI SDK has sent the request before"`
	Model          string            `json:"model" jsonschema:"everturn, or agent/ID: see GET /v1/models"`
	Messages       []chatMessage     `json:"messages"`
	Stream         bool              `json:"stream,omitempty"`
	StreamOptions  chatStream        `json:"stream_options,omitzero"`
	Temperature    *float64          `json:"temperature,omitempty"`
	TopP           *float64          `json:"top_p,omitempty"`
	Stop           texts             `json:"stop,omitempty"`
	Seed           *int              `json:"seed,omitempty"`
	Effort         turn.Effort       `json:"reasoning_effort,omitempty"`
	Verbosity      string            `json:"verbosity,omitempty"`
	ResponseFormat chatFormat        `json:"response_format,omitzero"`
	N              *int              `json:"n,omitempty"`
	Tools          functions         `json:"tools,omitempty"`
	ToolChoice     toolChoice        `json:"tool_choice,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
}

// chatStream are the options of a stream.
type chatStream struct {
	IncludeUsage bool `json:"include_usage,omitempty"`
}

// chatFormat is the form of the answer.
type chatFormat struct {
	Type       string `json:"type"`
	JSONSchema struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema,omitzero"`
}

// chatCompletion is the response, or a chunk of a stream.
type chatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

type chatChoice struct {
	Index        int        `json:"index"`
	Message      *chatDelta `json:"message,omitempty"`
	Delta        *chatDelta `json:"delta,omitempty"`
	FinishReason *string    `json:"finish_reason"`
}

type chatDelta struct {
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	Reasoning string  `json:"reasoning_content,omitempty"`
	Refusal   *string `json:"refusal,omitempty"`
	// ToolCalls are those that the client runs.
	ToolCalls []chatCall `json:"tool_calls,omitempty"`
}

type chatCall struct {
	Index    *int   `json:"index,omitempty"` // in a stream
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatUsage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	PromptDetails    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// The headers that name the session and the turn of a completion.
const (
	headerSession = "Everturn-Session"
	headerTurn    = "Everturn-Turn"
)

// chat answers a Chat Completion: the last message is sent to the session of the conversation, and the completion is
// what the turn says, until it has ended or waits for a decision or for the client. If the last messages are results of
// calls, the turn that waits for them goes on.
func (c *call) chat(ctx context.Context, in chatRequest) error {
	q, err := in.question()
	if err != nil {
		return err
	}
	v := &chatView{call: c, in: in, handed: handouts{}}
	t, from, err := v.begin(ctx, q)
	if err != nil {
		return err
	}
	v.head = chatCompletion{ID: "chatcmpl-" + t.ID, Object: "chat.completion", Created: time.Now().Unix(),
		Model: in.Model}
	c.w.Header().Set(headerSession, t.Session)
	c.w.Header().Set(headerTurn, t.ID)
	if in.Stream {
		end, err := c.openStream()
		if err != nil {
			return err
		}
		defer end()
		v.head.Object = "chat.completion.chunk"
		v.stream = c.stream(ctx)
		defer v.stream.close()
		if err := v.chunk(chatDelta{Role: "assistant", Content: new(string)}, nil); err != nil {
			return nil // the client is gone, and the turn goes on
		}
	}
	ended, err := v.follow(ctx, t, from)
	if err != nil {
		return v.fail(err)
	}
	if q.session == "" {
		if err := c.keepConversation(ctx, v.name.with("assistant", v.visible()), t, ended); err != nil {
			return v.fail(err)
		}
	}
	return v.end()
}

// begin sends what the client has sent to its turn, and returns the turn and the index of the first event that the
// completion shows.
func (v *chatView) begin(ctx context.Context, q question) (t client.Turn, from int64, err error) {
	if outputs := v.in.outputs(); len(outputs) > 0 {
		v.name = v.nameOf(q.model, q.messages)
		rec, from, err := v.settleOutputs(ctx, outputs)
		return client.Turn{Session: rec.Session, ID: rec.ID}, from, err
	}
	conv, err := v.conversation(q)
	if err != nil {
		return t, 0, err
	}
	v.name = conv.before.with(conv.last.Role, conv.last.Content.Text)
	chosen, err := v.exchange(ctx, conv)
	if err != nil {
		return t, 0, err
	}
	t, err = v.call.send(ctx, conv, chosen)
	return t, 0, err
}

// outputs returns the results of calls with which the messages end.
func (in chatRequest) outputs() (list []output) {
	for _, m := range slices.Backward(in.Messages) {
		if m.Role != "tool" {
			break
		}
		list = append(list, output{m.Call, m.Content.Text})
	}
	return list
}

// question returns what the request asks.
func (in chatRequest) question() (q question, err error) {
	switch {
	case in.N != nil && *in.N != 1:
		return q, invalid("n", "n is %d; a turn has one answer", *in.N)
	}
	q = question{key: in.Key, retry: in.Retry, session: cmp.Or(in.Session, in.Metadata["session"]), model: in.Model,
		messages: in.Messages, settings: turn.ModelSettings{Temperature: in.Temperature, TopP: in.TopP, Stop: in.Stop,
			Seed: in.Seed, Effort: in.Effort, Verbosity: in.Verbosity, ToolChoice: string(in.ToolChoice)}}
	if q.tools, err = in.Tools.tools(); err != nil {
		return q, err
	}
	if in.ResponseFormat.Type == "json_schema" {
		q.schema = in.ResponseFormat.JSONSchema.Schema
	}
	return q, nil
}

// follow reads the turn until it has ended or waits, and reports whether it has ended.
func (v *chatView) follow(ctx context.Context, t client.Turn, from int64) (ended bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.server.stopping, cancel)()
	var fold items.Fold
	for e, err := range v.Follow(ctx, t, from-1) {
		if err != nil {
			return false, err
		}
		for _, change := range fold.Add(e) {
			v.handed.add(change)
			if err := v.change(change); err != nil {
				return false, err
			}
		}
		if fold.Waiting() {
			if waits, err := v.ask(ctx, e.Turn, e.Step); waits || err != nil {
				return false, err
			}
		}
	}
	if v.done.State == "" { // the journal has no end of it: its message is a duplicate, or it was terminated
		result, err := v.Wait(ctx, t)
		if err != nil {
			return false, err
		}
		v.done = turn.DoneEvent{State: result.State, FinishReason: result.FinishReason, Message: result.Message,
			Usage: result.Usage}
		err = v.add(result.Answer)
		return true, err
	}
	return true, nil
}

// models are the agents, as OpenAI lists models.
type models struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// The names of agents as models: the default agent, and the others by their IDs.
const (
	defaultModel = "everturn"
	agentModel   = "agent/"
)

func (c *call) listModels(context.Context, none) (models, error) {
	list := models{Object: "list"}
	for i, a := range c.server.Config.AllAgents() {
		m := model{ID: agentModel + a.ID, Object: "model", OwnedBy: "everturn"}
		if i == 0 {
			m.ID = defaultModel
		}
		list.Data = append(list.Data, m)
	}
	return list, nil
}

type modelInput struct {
	Model string `path:"model" json:"-"`
}

func (c *call) getModel(ctx context.Context, in modelInput) (model, error) {
	list, _ := c.listModels(ctx, none{})
	for _, m := range list.Data {
		if m.ID == in.Model {
			return m, nil
		}
	}
	return model{}, noModel(in.Model)
}

func noModel(name string) *problem {
	return &problem{status: http.StatusNotFound, kind: kindNotFound, code: "model_not_found", param: "model",
		message: "there is no model " + turn.Truncate(name, 100) + ": GET /v1/models lists them"}
}
