package turn

import (
	"encoding/json"
	"time"
)

// The inputs with which a turn's workflow changes the journal. The workflow leaves At unset: the activity sets it. The
// journal writes each input in one transaction, and the same input again changes nothing.

// BeginInput opens a turn.
type BeginInput struct {
	Session string `json:"session"`
	// Tenant is the session's tenant; empty is the default tenant.
	Tenant     string `json:"tenant,omitempty"`
	Turn       string `json:"turn"` // the first run ID of the workflow chain
	WorkflowID string `json:"workflow_id"`
	RunID      string `json:"run_id"` // the run that begins the turn; a later run of the chain replaces it
	Agent      string `json:"agent,omitempty"`
	// Caller is set for the turn of a subagent that its caller starts.
	Caller Caller `json:"caller,omitzero"`
	// Message is the user's message. An empty ID gets one derived from the turn.
	Message UserMessage `json:"message"`
	// Config is the turn config as it was when the turn began. The activity sets it. A resuming run gets it back
	// unchanged.
	Config json.RawMessage `json:"config,omitempty"`
	// PromptConfig is the turn's PromptConfig, whose hash is in Config; nil if the journal has it already. The activity
	// sets it.
	PromptConfig json.RawMessage `json:"prompt_config,omitempty"`
	// OutOfOrder begins the turn even if the session has late messages that come before this one.
	OutOfOrder bool `json:"out_of_order,omitempty"`
	// NothingLeft means that the turn would begin with a subagent's answer, but that the limits of the user's message
	// are used up. The activity sets it.
	NothingLeft bool `json:"nothing_left,omitempty"`
	// Skills are the skills that the activity selected for the turn; nil if there are none.
	Skills *SkillsEvent `json:"skills,omitempty"`
	// Settings report the settings of the turn's first model. The activity sets it.
	Settings FittedSettings `json:"settings,omitzero"`
	At       time.Time      `json:"at,omitzero"`
}

// FinishInput settles a turn.
type FinishInput struct {
	Session  string        `json:"session"`
	Turn     string        `json:"turn"`
	Outcomes []CallOutcome `json:"outcomes,omitempty"`
	// Messages are messages that the turn accepted but could not answer, because it was stopped. The transcript keeps
	// them.
	Messages []UserMessage `json:"messages,omitempty"`
	// Left are the messages that the turn accepted but did not use. The session's next turn takes them first.
	Left     []UserMessage `json:"left,omitempty"`
	Result   `json:"result"`
	Counters Counters  `json:"counters"`
	At       time.Time `json:"at,omitzero"`
}
