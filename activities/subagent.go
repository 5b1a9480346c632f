package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// inlineTask bounds the task that a history carries, in bytes. A longer one is a blob.
const inlineTask = 8 << 10

// BeginSubagent claims a call of an agent's tool. A claimed call may be claimed again: the agent's session and the ID of its
// message derive from the call, so its turn runs once. Session and message have the same ID.
func (a *Activities) BeginSubagent(ctx context.Context, in workflows.SubagentInput) (workflows.BeginSubagentResult, error) {
	ctx = withWork(ctx, in.Turn, in.Step, in.Call.ID)
	res, err := a.beginSubagent(ctx, in)
	return res, a.failure(ctx, err)
}

func (a *Activities) beginSubagent(ctx context.Context,
	in workflows.SubagentInput) (res workflows.BeginSubagentResult, err error) {
	call, pinned, claim, err := a.claim(ctx, in.CallInput,
		&journal.Subagent{Granted: in.Granted, Background: in.Call.Background})
	if err != nil {
		return res, err
	}
	switch in.Tool = pinned; {
	case claim.State == journal.ClaimSettled:
		receipt, err := a.subagentReceipt(ctx, in.CallInput, claim.Record)
		res.Receipt = &receipt
		return res, err
	case claim.State == journal.ClaimStale:
		return res, turn.Errorf(turn.CodeToolOutcomeUnknown, journal.ErrStale, "a later attempt has this call")
	case claim.Subagent == nil || claim.Subagent.Background != isBackground(call):
		return res, turn.Errorf(turn.CodeInternal, nil, "the journal has another subagent of this call")
	}
	res.Granted = claim.Subagent.Granted
	var arguments struct {
		Task string `json:"task"`
	}
	if err := json.Unmarshal([]byte(call.Arguments), &arguments); err != nil {
		return res, turn.Errorf(turn.CodeInvalidAction, err, "the call's arguments cannot be read")
	}
	cfg, err := a.configOf(ctx, in.Turn)
	if err != nil {
		return res, err
	}
	res.Message, err = a.messageOf(ctx, turn.SubagentSession(in.Turn, in.Call.ID), arguments.Task)
	res.Message.Background, res.Message.TraceParent = cfg.Background, cfg.TraceParent
	return res, err
}

// isBackground reports whether a call asks for a subagent that works in the background.
func isBackground(c turn.ToolCall) bool {
	var arguments struct {
		Background bool `json:"background"`
	}
	return strings.HasPrefix(c.Tool, turn.AgentTools) && json.Unmarshal([]byte(c.Arguments), &arguments) == nil &&
		arguments.Background
}

// SettleSubagent settles a call with the answer of the agent's turn, which has ended or could not begin.
func (a *Activities) SettleSubagent(ctx context.Context, in workflows.SettleSubagentInput) (workflows.CallResult, error) {
	ctx = withWork(ctx, in.Turn, in.Step, in.Call.ID)
	res, err := a.settleSubagent(ctx, in)
	return res, a.failure(ctx, err)
}

func (a *Activities) settleSubagent(ctx context.Context, in workflows.SettleSubagentInput) (workflows.CallResult, error) {
	if in.Started || in.Deliver { // an answer must not settle a call that its turn reports as started
		settled, err := a.journal.SettleCall(ctx, settlement(in.CallInput, turn.ToolResult{Outcome: turn.OutcomeOK,
			Text: "The agent works on it in the background. Its answer will be a message of this conversation."}))
		if err != nil || in.Started {
			return a.receipt(in.CallInput, settled), err
		}
	}
	tenantJournal := a.journal.Tenant(in.Tenant)
	agent := strings.TrimPrefix(in.Tool.ID, turn.AgentTools)
	session := turn.SubagentSession(in.Turn, in.Call.ID)
	subagent, err := tenantJournal.Delivered(ctx, session, session)
	result := turn.ToolResult{Outcome: turn.OutcomeError,
		Text: fmt.Sprintf("the agent %s could not begin: %s", agent, cmp.Or(in.Problem, "it was stopped"))}
	switch {
	case errors.Is(err, journal.ErrNotFound):
	case err != nil:
		return workflows.CallResult{}, fmt.Errorf("reading the agent's turn: %w", err)
	default:
		if result, err = a.subagentResult(ctx, tenantJournal, agent, subagent); err != nil {
			return workflows.CallResult{}, err
		}
		changes, err := changesCanvas(ctx, tenantJournal, subagent.ID)
		if err != nil {
			return workflows.CallResult{}, err
		}
		if changes {
			result.Text += fmt.Sprintf("\n\n[Its canvas has changes. Look at them with canvas_diff and take them with "+
				"canvas_take, both with {\"from\":%q}.]", session)
		}
		taint, err := tenantJournal.Taint(ctx, subagent.ID)
		if err != nil {
			return workflows.CallResult{}, fmt.Errorf("reading the agent's taint: %w", err)
		}
		in.Tool.Taints, result.FromServer = taint != nil, taint != nil
	}
	result = a.presentable(result)
	settled, err := a.journal.SettleCall(ctx, settlement(in.CallInput, result))
	if err != nil {
		return workflows.CallResult{}, err
	}
	res, err := a.subagentReceipt(ctx, in.CallInput, settled)
	if in.Deliver && err == nil {
		m, merr := a.messageOf(ctx, turn.SubagentAnswerID(session), record.SubagentAnswer(agent, result.Text))
		res.Message, err = &m, merr
	}
	return res, err
}

// messageOf returns a message with a text that a history may carry, or a reference to it.
func (a *Activities) messageOf(ctx context.Context, id, text string) (m workflows.Message, err error) {
	m = workflows.Message{ID: id, Text: text}
	if len(text) > inlineTask {
		m.Text = ""
		m.Blob, err = a.journal.PutBlob(ctx, "text/plain", []byte(text))
	}
	return m, err
}

// changesCanvas reports whether a turn has changed its canvas.
func changesCanvas(ctx context.Context, j *journal.DB, turnID string) (bool, error) {
	calls, err := j.Calls(ctx, turnID)
	if err != nil {
		return false, fmt.Errorf("reading the agent's calls: %w", err)
	}
	return slices.ContainsFunc(calls, func(c journal.CallRecord) bool {
		return c.Outcome == turn.OutcomeOK && slices.Contains(canvasChanges, c.Call.Tool)
	}), nil
}

// canvasChanges are the tools that change a canvas.
var canvasChanges = []string{"local/canvas_write", "local/canvas_edit", "local/canvas_patch", "local/canvas_delete",
	"local/canvas_take"}

// subagentResult returns what the caller of an agent learns of its turn: the answer, or why there is none.
func (a *Activities) subagentResult(ctx context.Context, j *journal.DB, agent string,
	t journal.TurnRecord) (turn.ToolResult, error) {
	answer := t.Answer
	if len(answer) > answerKept-len("…") && t.Steps > 0 {
		m, err := j.StepMessage(ctx, journal.StepKey{Turn: t.ID, Step: t.Steps})
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return turn.ToolResult{}, fmt.Errorf("reading the agent's answer: %w", err)
		}
		if strings.HasPrefix(m.Text, strings.TrimSuffix(answer, "…")) {
			answer = m.Text
		}
	}
	if t.State == turn.StateCompleted && t.Reason == turn.FinishAnswered {
		return turn.ToolResult{Outcome: turn.OutcomeOK, Text: answer}, nil
	}
	text := fmt.Sprintf("the agent %s did not finish: %s (%s)", agent, cmp.Or(t.Message, string(t.State)), t.Reason)
	if answer != "" {
		text += ". It said: " + answer
	}
	return turn.ToolResult{Outcome: turn.OutcomeError, Text: text}, nil
}

// subagentReceipt returns the receipt of a settled call, with what its subagent and those below it have used.
func (a *Activities) subagentReceipt(ctx context.Context, in workflows.CallInput,
	settled journal.CallRecord) (workflows.CallResult, error) {
	res := a.receipt(in, settled)
	used, err := a.journal.Tenant(in.Tenant).SpentBySubagent(ctx, in.Turn, in.Call.ID)
	if errors.Is(err, journal.ErrNotFound) { // the call was settled before it was claimed
		return res, nil
	}
	res.Used = &used
	return res, err
}

// note shows a message in the stream of a turn, as the progress of one of its calls. The stream of a turn that does not
// wait for the call gets none.
func noteProgress(ctx context.Context, j *journal.DB, turnID, callID string, p turn.ToolProgress) error {
	call, err := j.Call(ctx, turnID, callID)
	if err == nil && call.Outcome == "" {
		err = j.NoteCall(ctx, turnID, callID, call.Attempt, p, time.Now())
	}
	return err
}

// notifyCallers notes in the streams of the turns above a subagent's turn that its pending requests have changed: users
// follow those.
func (a *Activities) notifyCallers(ctx context.Context, session, turnID, message string) {
	if _, _, ok := turn.ParentCall(session); !ok {
		return
	}
	t, err := a.begunTurn(ctx, turnID)
	for p := (turn.ToolProgress{Message: message, Session: session}); err == nil; {
		turnID, callID, ok := turn.ParentCall(session)
		if !ok {
			return
		}
		tenantJournal := a.journal.Tenant(t.Tenant)
		if err = noteProgress(ctx, tenantJournal, turnID, callID, p); err == nil {
			var parent journal.TurnConfig
			parent, err = tenantJournal.TurnConfig(ctx, turnID)
			session = parent.Session
		}
	}
	logFailure(ctx, asTurnError(err))
}

// caller is the turn whose call started a session.
type caller struct {
	agents  []string // the agents from the caller up to the root
	config  turn.Config
	granted turn.Allowance // of the session's turn
}

// callerOf returns the caller of a subagent session; nil for a session that no call has started. The journal must have the
// call, and it must be of the tool of this agent: nothing that a client sends makes a session a subagent.
func (a *Activities) callerOf(ctx context.Context, in workflows.BeginInput) (*caller, error) {
	var c *caller
	for session, agent := in.Session, in.Agent; ; {
		turnID, callID, ok := turn.ParentCall(session)
		if !ok {
			return c, nil
		}
		tenantJournal := a.journal.Tenant(in.Tenant)
		call, err := tenantJournal.Call(ctx, turnID, callID)
		if errors.Is(err, journal.ErrNotFound) || err == nil && call.Call.Tool != turn.AgentTools+agent {
			return nil, turn.Errorf(turn.CodeInputInvalid, err, fmt.Sprintf(
				"session %q belongs to an agent that a call of another turn starts, and there is no such call of agent %q; "+
					"choose another session", turn.Truncate(session, 80), turn.Truncate(agent, 60)))
		}
		if err != nil {
			return nil, fmt.Errorf("reading the call that started the session: %w", err)
		}
		rec, err := tenantJournal.TurnConfig(ctx, turnID)
		if err != nil {
			return nil, fmt.Errorf("reading the turn that started the session: %w", err)
		}
		cfg, err := decodeConfig(rec.Config)
		if err != nil {
			return nil, err
		}
		if c == nil {
			its, err := tenantJournal.Subagent(ctx, turnID, callID)
			if err != nil {
				return nil, fmt.Errorf("reading what the call has granted: %w", err)
			}
			c = &caller{config: cfg, granted: its.Granted}
		}
		c.agents = append(c.agents, cfg.Agent)
		session, agent = rec.Session, cfg.Agent
	}
}

// callerSession returns the session whose turn has called the agent whose turn makes a call; "" for other turns.
func (a *Activities) callerSession(ctx context.Context, in workflows.CallInput) (string, error) {
	turnID, _, ok := turn.ParentCall(in.Session)
	if !ok {
		return "", nil
	}
	rec, err := a.journal.Tenant(in.Tenant).TurnConfig(ctx, turnID)
	if err != nil {
		return "", fmt.Errorf("reading the turn that called the agent: %w", behindIfMissing(err))
	}
	return rec.Session, nil
}

// narrowTo leaves a subagent those of its tools that its caller has, and the agents that it may call itself. It adds the
// calls that its caller must not make or must ask for.
func (c *caller) narrow(cfg *turn.Config) {
	if c == nil {
		return
	}
	inheritDenyAndAsk(cfg, c.config.Policy)
	keepTools(cfg, func(t turn.Tool) bool {
		_, has := c.config.Find(t.ID)
		return (has || t.Activity == turn.ActivityAgent) && cfg.Policy.Offered(t)
	})
}

// narrowBy adds the calls that another policy denies or asks for.
func inheritDenyAndAsk(cfg *turn.Config, other turn.Policy) {
	cfg.Policy.Deny = slices.Concat(cfg.Policy.Deny, other.Deny)
	cfg.Policy.Ask = slices.Concat(cfg.Policy.Ask, other.Ask)
}

// addAgents adds the tools of the agents that the agent may call: not itself, none that led to its turn, and none below
// the maximum depth.
func (a *Activities) addAgents(agent Agent, c *caller, cfg *turn.Config, descriptors []turn.Descriptor) []turn.Descriptor {
	above := []string{agent.Name}
	if c != nil {
		above = append(above, c.agents...)
	}
	if len(above) > agent.MaxDepth {
		return descriptors
	}
	for _, id := range agent.Agents {
		i := slices.IndexFunc(a.agents, func(o Agent) bool { return o.Name == id })
		if i < 0 || slices.Contains(above, id) {
			continue
		}
		d := agentTool(a.agents[i], c == nil && cfg.Answers < agent.MaxDepth)
		only := cfg.Policy
		only.Allow = append(slices.Clone(only.Allow), d.ID)
		if !only.Offered(d.Pinned()) {
			continue
		}
		cfg.Policy.Allow = only.Allow
		cfg.Tools = append(cfg.Tools, d.Pinned())
		descriptors = append(descriptors, d)
	}
	return descriptors
}

// agentTool describes an agent to the model of another one. The agent's own calls have their own permissions and
// approvals, so the call itself changes nothing.
func agentTool(a Agent, background bool) turn.Descriptor {
	id := turn.AgentTools + a.Name
	description := "Gives a task to the agent " + a.Name + " and returns its answer"
	if a.Description != "" {
		description += ": " + a.Description
	}
	description += ". The agent sees nothing but the task, so write down all that it needs to know."
	also := ""
	if background { // the answer is a message, and users cannot send messages to the session of an agent
		also = `"background":{"description":"go on at once: the answer will be a message of this conversation","type":` +
			`"boolean"},`
	}
	schema := json.RawMessage(`{"additionalProperties":false,"properties":{` + also + `"task":{"description":"what the agent is to ` +
		`do, with all that it needs to know","minLength":1,"type":"string"}},"required":["task"],"type":"object"}`)
	return turn.Descriptor{
		ID: id, Wire: turn.WireName(id), Description: description, Schema: schema, Activity: turn.ActivityAgent,
		Risk: turn.RiskLow, Repeatable: true, Effects: turn.Effects{ReadOnly: true},
		Hash: record.HashOf([]byte(id + "\n" + description + "\n" + string(schema))),
	}
}
