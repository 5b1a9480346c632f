package httpapi

import (
	"context"
	"encoding/json"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// messageInput is a message to a session. The comments of turn.UserMessage describe its fields.
type messageInput struct {
	sessionInput
	Key  string `header:"Idempotency-Key" json:"-" jsonschema:"the message's ID: a message that is sent again under it is answered once"`
	Text string `json:"text"`
	// The settings of the turn that begins with the message. They have no effect on a message that is merged into a
	// running turn.
	Agent        string                   `json:"agent,omitempty" jsonschema:"the agent; the worker's if it is not set"`
	Model        string                   `json:"model,omitempty" jsonschema:"as provider:model or a name; the agent's if it is not set"`
	Tools        []string                 `json:"tools,omitempty" jsonschema:"patterns that narrow the tools of the turn"`
	Plan         plan.Confirm             `json:"plan,omitempty" jsonschema:"work by a plan: what users must confirm of it, plan, step or never"`
	Limits       *workflows.LimitsRequest `json:"limits,omitempty"`
	OutputSchema json.RawMessage          `json:"output_schema,omitempty" jsonschema:"the JSON schema of the answer, an object"`
	Context      json.RawMessage          `json:"context,omitempty" jsonschema:"a value for the tools of the turn, at most 4 KiB, that the model does not see"`
	ClientTools  []turn.ClientTool        `json:"client_tools,omitempty" jsonschema:"tools of the turn whose calls the client runs: it sends their results"`
	turn.ModelSettings
	Attachments []attachment `json:"attachments,omitempty"`
	// What happens if a turn of the session is running.
	Queue bool `json:"queue,omitempty" jsonschema:"wait for the end of a running turn instead of being merged into it"`
	Alone bool `json:"alone,omitempty" jsonschema:"refuse the message if a turn is running"`
	// Background marks a message for whose answer no user waits.
	Background bool `json:"background,omitempty" jsonschema:"let the turns of users go first"`
}

type attachment struct {
	Type string `json:"type" jsonschema:"image/png, image/jpeg, image/gif, image/webp or application/pdf"`
	Data []byte `json:"data" jsonschema:"base64, at most 8 MiB"`
}

func (c *call) sendMessage(ctx context.Context, in messageInput) (client.Turn, error) {
	m := client.SendInput{
		Session: in.Session, Agent: in.Agent, Limits: in.Limits, Alone: in.Alone, OutputSchema: in.OutputSchema,
		Message: turn.UserMessage{ID: in.Key, Text: in.Text, Model: in.Model, Tools: in.Tools, Plan: in.Plan,
			ModelSettings: in.ModelSettings, ClientTools: in.ClientTools, Queue: in.Queue, Background: in.Background},
	}
	if len(in.Context) > 0 {
		m.Context = in.Context
	}
	for _, a := range in.Attachments {
		m.Attachments = append(m.Attachments, client.Attachment{Type: a.Type, Data: a.Data})
	}
	return c.Send(ctx, m)
}
