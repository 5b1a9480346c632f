package turn

import (
	"encoding/json"
	"time"

	"github.com/everturn/everturn/workflows/plan"
)

// PromptConfig is the large part of a turn's configuration, stored as one blob.
type PromptConfig struct {
	System string `json:"system"`
	// Environment tells the model what it cannot know: the date, and where the tools work. It ends the system prompt, so
	// that the prompts of another day still begin with the same bytes.
	Environment string       `json:"environment,omitempty"`
	Descriptors []Descriptor `json:"descriptors"`
	// Policy is the turn's policy. The activity that has a call's arguments applies it.
	Policy Policy `json:"policy"`
	// OutputSchema is the JSON schema of the answer; nil means free text.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	// Plan says what users must confirm of the turn's plan; empty means that the turn works without a plan.
	Plan plan.Confirm `json:"plan,omitempty"`
	// Scopes are those of the plans' steps for which the turn of a subagent works: what its calls may change without an
	// approval.
	Scopes []plan.Scope `json:"scopes,omitempty"`
	// Compaction says when prompts are compacted; nil means never.
	Compaction *CompactionSettings `json:"compaction,omitempty"`
}

// Tools returns the tools without their schemas.
func (p PromptConfig) Tools() []Tool {
	tools := make([]Tool, len(p.Descriptors))
	for i, d := range p.Descriptors {
		tools[i] = d.Pinned()
	}
	return tools
}

// Find returns the descriptor of the tool with this ID, and whether the prompt config has it.
func (p PromptConfig) Find(id string) (Descriptor, bool) {
	for _, d := range p.Descriptors {
		if d.ID == id {
			return d, true
		}
	}
	return Descriptor{}, false
}

// BehaviorVersion is the version of the workflow code's decisions for turns that begin now. A turn keeps the version
// that Begin recorded for its whole life. Code of a later version must check Config.Version wherever it decides
// differently, so that older histories replay. Config.Version is 0 until Begin returns, so decisions before that, or
// about a turn whose Begin failed, must not depend on it.
const BehaviorVersion = 3

// Config is the configuration of a turn. Begin reads it once, and the history and the journal keep it.
type Config struct {
	Version      int       `json:"version"`
	Tenant       string    `json:"tenant,omitempty"` // the turn's tenant; empty: the default tenant
	Agent        string    `json:"agent"`
	Provider     string    `json:"provider"`
	Model        string    `json:"model"`
	Mode         Mode      `json:"mode"`
	PromptConfig string    `json:"prompt_config"` // blob of the PromptConfig
	Limits       Limits    `json:"limits"`
	Policy       Policy    `json:"policy"`
	Approvals    Approvals `json:"approvals,omitzero"`
	Tools        []Tool    `json:"tools,omitempty"`
	Background   bool      `json:"background,omitempty"` // see UserMessage
	// Context is the client's value for the tools: see ToolRequest.
	Context json.RawMessage `json:"context,omitempty"`
	// ModelSettings are what the message and the agent ask for. Models have what is sent.
	ModelSettings
	MaxTokens int `json:"max_output_tokens,omitempty"`
	// Unavailable are the optional servers whose tools the turn lacks, because they have been unavailable since it
	// began.
	Unavailable []string `json:"unavailable,omitempty"`
	Queues      Queues   `json:"queues,omitzero"`
	// Models are the models that the turn may use: the first one, and its fallbacks in order. Provider, Model and Mode
	// describe the first one. Models is empty for turns that began before models were recorded.
	Models []Model `json:"models,omitempty"`
	// RetryMax is the maximum number of retries of an inference within Limits.RetryFor; nil means no maximum.
	// FallbackAfter is how long an inference waits before a fallback takes over.
	RetryMax      *int          `json:"retry_max,omitempty"`
	FallbackAfter time.Duration `json:"fallback_after,omitempty"`
	// JournalRetryFor is how long the turn waits for a journal that is unavailable.
	JournalRetryFor time.Duration `json:"journal_retry_for,omitempty"`
	// TraceParent is UserMessage.TraceParent of the message that began the turn.
	TraceParent string `json:"traceparent,omitempty"`
	// Skills are the skills that were selected for the turn; nil if there are none.
	Skills *SkillsEvent `json:"skills,omitempty"`
	// MessageTools are UserMessage.Tools of the user's message for which the turn works.
	MessageTools []string `json:"message_tools,omitempty"`
	// Answers is the number of subagents' answers between the user's message and the turn: 0 if the message itself
	// began the turn, 1 if the answer of a subagent of that turn did, and so on.
	Answers int `json:"answers,omitempty"`
}

// PlanAgent returns the ID of the tool with which the turn's plan gives independent steps to agents of their own, each
// with a copy of the session's files; "" if the model does these steps itself. The tool calls the turn's own agent.
func (c Config) PlanAgent() string {
	id := AgentTools + c.Agent
	if _, ok := c.Find(id); ok {
		return id
	}
	return ""
}

// Queues are the task queues of a turn's inferences and tool calls. An empty one is the queue of the turn itself.
type Queues struct {
	Inference string `json:"inference,omitempty"`
	Tools     string `json:"tools,omitempty"`
}

// Find returns the turn's tool with this ID, and whether there is one.
func (c Config) Find(id string) (Tool, bool) {
	for _, t := range c.Tools {
		if t.ID == id {
			return t, true
		}
	}
	return Tool{}, false
}
