package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// History is a session with everything that the journal has of it.
type History struct {
	Session  Session        `json:"session"` // with its Usage
	Messages []turn.Message `json:"messages"`
	Turns    []TurnHistory  `json:"turns"`
	// Compactions are all compactions of the session. The last one is in effect.
	Compactions []turn.Compaction `json:"compactions,omitempty"`
	Context     *ContextUse       `json:"context,omitempty"`
	// SubagentRequests are the open requests of subagents that work for the session.
	SubagentRequests []Request `json:"subagent_requests,omitempty"`
	// Waiting are accepted messages that the running turn has not used yet. Only its workflow has them: ReadHistory
	// leaves them out, and Client.Snapshot has them.
	Waiting []turn.UserMessage `json:"waiting,omitempty"`
	// Link is the Web UI's link to a turn that no worker has begun; ReadHistory leaves it out.
	Link string `json:"link,omitempty"`
}

// TurnHistory is a turn with its ledger and its requests.
type TurnHistory struct {
	Turn TurnRecord `json:"turn"`
	// Tools are the patterns to which the turn's message and its skills narrow its tools.
	Tools              []string          `json:"tools,omitempty"`
	turn.ModelSettings                   // those that the turn's message and agent asked for; Models have those that are sent
	Models             []turn.Model      `json:"models,omitempty"` // the turn's model and its fallbacks
	Skills             *turn.SkillsEvent `json:"skills,omitempty"`
	Inferences         []Inference       `json:"inferences"`
	Calls              []Call            `json:"calls"`
	Requests           []Request         `json:"requests,omitempty"`
	Plan               plan.Progress     `json:"plan,omitzero"`
	Live               *LiveState        `json:"live,omitempty"` // what a turn that has not ended does now
}

// ContextUse is how much of the model's context window a session's conversation fills.
type ContextUse struct {
	Tokens        int64 `json:"tokens"` // of the last prompt and its completion, or of the compacted prompt
	ContextTokens int64 `json:"context_tokens"`
	Percent       int64 `json:"percent"`
	// CompactsAt is the percentage from which prompts are compacted; 0 means that they are not.
	CompactsAt int64 `json:"compacts_at,omitempty"`
}

// ReadHistory reads a session from the journal. The error is ErrNotFound if the journal does not have it.
func ReadHistory(ctx context.Context, j Journal, session string) (h History, err error) {
	if h.Session, err = j.Session(ctx, session); err != nil {
		return h, err
	}
	if h.Session.Usage, err = j.SessionUsage(ctx, session); err != nil {
		return h, err
	}
	if h.Messages, err = j.Messages(ctx, session, 1, h.Session.Head.Seq); err != nil {
		return h, err
	}
	turns, err := j.Turns(ctx, session)
	if err != nil {
		return h, err
	}
	for _, t := range turns {
		th, err := ReadTurn(ctx, j, t)
		if err != nil {
			return h, err
		}
		h.Turns = append(h.Turns, th)
	}
	if n := h.Session.PendingRequests; n > 0 {
		open, err := j.PendingRequests(ctx, session, n)
		if err != nil {
			return h, err
		}
		h.SubagentRequests = slices.DeleteFunc(open, func(r Request) bool { return r.Session == session })
	}
	if h.Compactions, err = j.Compactions(ctx, session); err == nil {
		h.Context, err = readContext(ctx, j, h)
	}
	return h, err
}

// ReadTurn reads what the journal has of a turn.
func ReadTurn(ctx context.Context, j Journal, t TurnRecord) (h TurnHistory, err error) {
	h.Turn = t
	if h.Inferences, err = j.Inferences(ctx, t.ID); err != nil {
		return h, err
	}
	if h.Calls, err = j.Calls(ctx, t.ID); err != nil {
		return h, err
	}
	requests, err := j.Requests(ctx, t.ID)
	if h.Requests = requests; err != nil {
		return h, err
	}
	if cfg, err := readConfig(ctx, j, t.ID); err != nil {
		return h, err
	} else if cfg != nil {
		h.Models, h.Tools, h.ModelSettings, h.Skills = cfg.Models, cfg.Policy.Only, cfg.ModelSettings, cfg.Skills
		h.Plan = journal.PlanOf(h.Calls, h.Requests, cfg.PlanAgent())
	}
	if !t.State.Terminal() { // the turn's record has its usage only when it has ended
		if h.Turn.Usage, err = j.TurnUsage(ctx, t.ID); err != nil {
			return h, err
		}
		live, err := liveTurn(ctx, j, t)
		if err != nil {
			return h, err
		}
		h.Live = &live
	}
	return h, nil
}

// readConfig returns the turn config of a turn. It returns nil for a turn without a recorded config: an old version of
// Everturn began the turn, or Begin failed.
func readConfig(ctx context.Context, j Journal, turnID string) (*turn.Config, error) {
	frozen, err := j.TurnConfig(ctx, turnID)
	if err != nil || len(frozen.Config) == 0 {
		return nil, err
	}
	var cfg turn.Config
	return &cfg, json.Unmarshal(frozen.Config, &cfg)
}

// readContext returns the use of the context window after the session's last inference or compaction. It returns nil if
// the last turn does not compact its prompts, or if the size of the window is unknown.
func readContext(ctx context.Context, j Journal, h History) (*ContextUse, error) {
	if len(h.Turns) == 0 {
		return nil, nil
	}
	last := h.Turns[len(h.Turns)-1]
	c, err := compactingOf(ctx, j, last.Turn.ID)
	if err != nil || c == nil || c.ContextTokens == 0 {
		return nil, err
	}
	u := ContextUse{ContextTokens: c.ContextTokens, CompactsAt: turn.Percent(c.Trigger(), c.ContextTokens)}
	var upTo int64 // the sequence number of the last message in the last inference's prompt
	for _, i := range last.Inferences {
		if i.Settled {
			u.Tokens, upTo = i.Completion.Usage.Total(), i.Base.Seq
		}
	}
	if n := len(h.Compactions); n > 0 && h.Compactions[n-1].At.Seq > upTo { // compacted after the last inference
		u.Tokens = h.Compactions[n-1].After
	}
	u.Percent = turn.Percent(u.Tokens, u.ContextTokens)
	return &u, nil
}

// compactingOf returns the settings with which a turn compacts its prompts. It returns nil if the turn does not, or if
// its configuration cannot be read: that of an imported turn may be anything, and its blob stays where the turn ran.
func compactingOf(ctx context.Context, j Journal, turnID string) (*turn.CompactionSettings, error) {
	frozen, err := j.TurnConfig(ctx, turnID)
	if err != nil {
		return nil, err
	}
	var cfg turn.Config
	var prompt turn.PromptConfig
	if json.Unmarshal(frozen.Config, &cfg) != nil || cfg.PromptConfig == "" {
		return nil, nil
	}
	b, err := j.GetBlob(ctx, cfg.PromptConfig)
	if err != nil || json.Unmarshal(b, &prompt) != nil {
		return nil, nil
	}
	return prompt.Compaction, nil
}

// Live is what a session does at a moment.
type Live string

// What a session does.
const (
	LiveIdle         Live = "idle" // it has no turn that runs
	LiveInferring    Live = "inferring"
	LiveCallingTools Live = "calling_tools"
	LiveWaiting      Live = "waiting" // for a permission, an answer or a response
	// LiveWaitingForModel means that the turn waits for its provider, which is not available, or for a fleet limit.
	LiveWaitingForModel Live = "waiting_for_model"
)

// LiveState is what a session does, by its journal.
type LiveState struct {
	State Live   `json:"state"`
	Turn  string `json:"turn,omitempty"` // the session's last turn
	// Calls are the tools of the calls in progress, of LiveCallingTools.
	Calls []string `json:"calls,omitempty"`
	// Reason and Wait say what the turn waits for, of LiveWaitingForModel; At is when it last said so. Wait is nil if it
	// is a fleet limit.
	Reason string             `json:"reason,omitempty"`
	Wait   *turn.WaitingEvent `json:"wait,omitempty"`
	At     time.Time          `json:"at,omitzero"`
}

// Live returns what a session does now, as the journal has it. It needs neither Temporal nor a worker; a turn whose
// worker has died does what it did last.
//
// Errors: ErrNoJournal, ErrNotFound.
func (c *Client) Live(ctx context.Context, session string) (LiveState, error) {
	if c.journal == nil {
		return LiveState{}, ErrNoJournal
	}
	s, err := c.journal.Session(ctx, session)
	if err != nil {
		return LiveState{}, err
	}
	return ReadLive(ctx, c.journal, s)
}

// ReadLive is Client.Live for a session that was read.
func ReadLive(ctx context.Context, j Journal, s Session) (LiveState, error) {
	if s.LastTurn.ID == "" || s.LastTurn.State.Terminal() {
		return LiveState{State: LiveIdle, Turn: s.LastTurn.ID}, nil
	}
	return liveTurn(ctx, j, s.LastTurn)
}

// liveTurn returns what a turn does that has not ended.
func liveTurn(ctx context.Context, j Journal, t TurnRecord) (LiveState, error) {
	l := LiveState{State: LiveInferring, Turn: t.ID}
	if t.State == turn.StateWaiting {
		l.State = LiveWaiting
		return l, nil
	}
	calls, err := j.Calls(ctx, t.ID)
	if err != nil {
		return l, err
	}
	for _, c := range calls {
		if c.Outcome == "" {
			l.State = LiveCallingTools
			l.Calls = append(l.Calls, c.Call.Tool)
		}
	}
	last, err := j.LastEvent(ctx, t.ID)
	if errors.Is(err, ErrNotFound) || l.State != LiveInferring {
		return l, nil
	}
	var w turn.WaitingEvent
	switch {
	case err != nil:
		return l, err
	case last.Kind == turn.EventInferenceWaiting && json.Unmarshal(last.Data, &w) == nil:
		l.State, l.Reason, l.Wait, l.At = LiveWaitingForModel, last.Text, &w, last.At
	case last.Kind == turn.EventPhase && last.Text != "": // a fleet limit
		l.State, l.Reason, l.At = LiveWaitingForModel, last.Text, last.At
	}
	return l, nil
}
