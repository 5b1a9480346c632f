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
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// inlineTask bounds the text of a message in a workflow's history, in bytes. A longer text is a blob of the journal.
const inlineTask = 8 << 10

// BeginSubagent claims a call of an agent's tool and returns the message that begins the agent's turn. It may claim
// the same call several times: the agent's session and the ID of its message derive from the call, so only one turn
// runs. Session and message have the same ID.
func (a *Activities) BeginSubagent(ctx context.Context, in workflows.SubagentInput) (workflows.BeginSubagentResult, error) {
	ctx = withWork(ctx, in.Turn, in.Step, in.Call.ID)
	res, err := a.beginSubagent(ctx, in)
	return res, a.failure(ctx, err)
}

// beginSubagent claims the call and returns the message that begins the agent's turn, with what the turn is granted.
// If the call is settled already, it returns the call's receipt and no message.
func (a *Activities) beginSubagent(ctx context.Context,
	in workflows.SubagentInput) (res workflows.BeginSubagentResult, err error) {
	call, tool, claim, err := a.claim(ctx, in.CallInput,
		&journal.Subagent{Granted: in.Granted, Background: in.Call.Background})
	if err != nil {
		return res, err
	}
	in.Tool = tool // as the journal has it
	switch {
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

// isBackground reports whether a call requests a subagent that works in the background.
func isBackground(c turn.ToolCall) bool {
	var arguments struct {
		Background bool `json:"background"`
	}
	return strings.HasPrefix(c.Tool, turn.AgentTools) && json.Unmarshal([]byte(c.Arguments), &arguments) == nil &&
		arguments.Background
}

// SettleSubagent settles a call with the answer of the agent's turn, which has ended or could not begin. The call of a
// background subagent is settled when its turn has started (SettleSubagentInput.Started); its answer is then a late
// result, which SettleSubagent also returns as a message if SettleSubagentInput.Deliver is set.
func (a *Activities) SettleSubagent(ctx context.Context, in workflows.SettleSubagentInput) (workflows.CallResult, error) {
	ctx = withWork(ctx, in.Turn, in.Step, in.Call.ID)
	res, err := a.settleSubagent(ctx, in)
	return res, a.failure(ctx, err)
}

// settleSubagent records the result of a subagent's call: that it has started in the background (in.Started), or the
// answer of its turn or why there is none. With in.Deliver, it also returns that as a message for the caller's session.
func (a *Activities) settleSubagent(ctx context.Context, in workflows.SettleSubagentInput) (workflows.CallResult, error) {
	// The first settlement stands. The start is therefore recorded again before an answer is delivered: the answer must
	// not settle a call that the caller's turn has reported as started.
	if in.Started || in.Deliver {
		settled, err := a.journal.SettleCall(ctx, settlement(in.CallInput, turn.ToolResult{Outcome: turn.OutcomeOK,
			Text: "The agent works on it in the background. Its answer will be a message of this conversation."}))
		if err != nil || in.Started {
			return a.receipt(in.CallInput, settled), err
		}
	}
	tenantJournal := a.journal.Tenant(in.Tenant)
	agent := strings.TrimPrefix(in.Tool.ID, turn.AgentTools)
	session := turn.SubagentSession(in.Turn, in.Call.ID)
	agentTurn, err := tenantJournal.Delivered(ctx, session, session)
	result := turn.ToolResult{Outcome: turn.OutcomeError,
		Text: fmt.Sprintf("the agent %s could not begin: %s", agent, cmp.Or(in.Problem, "it was stopped"))}
	switch {
	case errors.Is(err, journal.ErrNotFound): // the agent's turn has not begun
	case err != nil:
		return workflows.CallResult{}, fmt.Errorf("reading the agent's turn: %w", err)
	default:
		if result, err = a.subagentResult(ctx, tenantJournal, agent, agentTurn); err != nil {
			return workflows.CallResult{}, err
		}
		changes, err := changesCanvas(ctx, tenantJournal, agentTurn.ID)
		if err != nil {
			return workflows.CallResult{}, err
		}
		if changes {
			result.Text += fmt.Sprintf("\n\n[Its canvas has changes. Look at them with canvas_diff and take them with "+
				"canvas_take, both with {\"from\":%q}.]", session)
		}
		taint, err := tenantJournal.Taint(ctx, agentTurn.ID)
		if err != nil {
			return workflows.CallResult{}, fmt.Errorf("reading the agent's taint: %w", err)
		}
		// If the agent's session is tainted, its answer taints the caller's.
		in.Tool.Taints, result.FromServer = taint != nil, taint != nil
	}
	result = a.presentable(result)
	settled, err := a.journal.SettleCall(ctx, settlement(in.CallInput, result))
	if err != nil {
		return workflows.CallResult{}, err
	}
	res, err := a.subagentReceipt(ctx, in.CallInput, settled)
	if in.Deliver && err == nil {
		m, merr := a.messageOf(ctx, turn.SubagentAnswerID(session), journal.SubagentAnswer(agent, result.Text))
		res.Message, err = &m, merr
	}
	return res, err
}

// messageOf returns a message with this text. If the text is too long for a workflow's history, it stores the text as
// a blob, and the message refers to it.
func (a *Activities) messageOf(ctx context.Context, id, text string) (m workflows.Message, err error) {
	m = workflows.Message{ID: id, Text: text}
	if len(text) > inlineTask {
		m.Text = ""
		m.Blob, err = a.journal.PutBlob(ctx, "text/plain", []byte(text))
	}
	return m, err
}

// changesCanvas reports whether a turn has changed the canvas of its session.
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

// subagentResult returns the result of a call of an agent whose turn has ended: its answer, or an error that says why
// there is none. The turn's record has only the beginning of a long answer; the message of its last step has all of
// it.
func (a *Activities) subagentResult(ctx context.Context, j *journal.DB, agent string,
	t journal.TurnRecord) (turn.ToolResult, error) {
	answer := t.Answer
	if len(answer) > answerKept-len("…") && t.Steps > 0 { // it may be truncated
		m, err := j.StepMessage(ctx, journal.StepKey{Turn: t.ID, Step: t.Steps})
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return turn.ToolResult{}, fmt.Errorf("reading the agent's answer: %w", err)
		}
		if strings.HasPrefix(m.Text, strings.TrimSuffix(answer, "…")) { // the answer need not be that of the last step
			answer = m.Text
		}
	}
	if t.State == turn.StateCompleted && t.Reason == turn.FinishAnswered {
		return turn.ToolResult{Outcome: turn.OutcomeOK, Text: answer}, nil
	}
	why := fmt.Sprintf("%s (%s)", cmp.Or(t.Message, string(t.State)), t.Reason)
	if !t.State.Terminal() { // the next message of the agent's session closes it
		why = "its turn was ended from outside"
	}
	text := fmt.Sprintf("the agent %s did not finish: %s", agent, why)
	if answer != "" {
		text += ". It said: " + answer
	}
	return turn.ToolResult{Outcome: turn.OutcomeError, Text: text}, nil
}

// subagentReceipt returns the receipt of a settled call, with what its subagent and the subagents below it have used.
func (a *Activities) subagentReceipt(ctx context.Context, in workflows.CallInput,
	settled journal.CallRecord) (workflows.CallResult, error) {
	res := a.receipt(in, settled)
	used, err := a.journal.Tenant(in.Tenant).SpentBySubagent(ctx, in.Turn, in.Call.ID)
	if errors.Is(err, journal.ErrNotFound) { // the call was settled without a claim, so there is no subagent
		return res, nil
	}
	res.Used = &used
	return res, err
}

// noteProgress appends p to the stream of a turn, as the progress of one of its calls. It does nothing if the call is
// settled, because the turn then does not wait for it.
func noteProgress(ctx context.Context, j *journal.DB, turnID, callID string, p turn.ToolProgress) error {
	call, err := j.Call(ctx, turnID, callID)
	if err == nil && call.Outcome == "" {
		err = j.NoteCall(ctx, turnID, callID, call.Attempt, p, time.Now())
	}
	return err
}

// notifyCallers writes message to the streams of all turns above a subagent's turn, because users follow those and not
// the subagent's. It does nothing if session is not a subagent's. An error is only logged.
func (a *Activities) notifyCallers(ctx context.Context, session, turnID, message string) {
	if !turn.ReservedSession(session) {
		return
	}
	t, err := a.begunTurn(ctx, turnID)
	for p := (turn.ToolProgress{Message: message, Session: session}); err == nil && !t.caller.IsZero(); {
		up := t.caller // the turn one level up
		if err = noteProgress(ctx, a.journal.Tenant(t.Tenant), up.Turn, up.Call, p); err == nil {
			t, err = a.begunTurn(ctx, up.Turn)
		}
	}
	logFailure(ctx, asTurnError(err))
}

// caller is the turn whose call started a subagent's session.
type caller struct {
	agents  []string       // the agents of the caller and of the turns above it, up to the user's turn
	config  turn.Config    // of the caller
	granted turn.Allowance // what the caller granted to the subagent
}

// callerOf returns the caller of a subagent's session, or nil if the session is not a subagent's. The caller is in the
// input of the session's first turn, which a client can write, and afterwards in the journal. So the journal must have
// the call, and the call must be of this agent's tool.
func (a *Activities) callerOf(ctx context.Context, in workflows.BeginInput) (*caller, error) {
	if !turn.ReservedSession(in.Session) && in.Caller.IsZero() {
		return nil, nil
	}
	tenantJournal := a.journal.Tenant(in.Tenant)
	forged := func(agent string, err error) error {
		return turn.Errorf(turn.CodeInputInvalid, err, fmt.Sprintf(
			"session %q belongs to an agent that a call of another turn starts, and there is no such call of agent %q; "+
				"choose another session", turn.Truncate(in.Session, 80), turn.Truncate(agent, 60)))
	}
	up := in.Caller
	if up.IsZero() {
		rec, err := tenantJournal.Session(ctx, in.Session)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return nil, fmt.Errorf("reading the session's caller: %w", err)
		}
		up = rec.Caller
	}
	if turn.SubagentSession(up.Turn, up.Call) != in.Session { // without a caller, too
		return nil, forged(in.Agent, nil)
	}
	var c *caller
	// Each round goes up one level, from a subagent's session to the session of its caller.
	for agent := in.Agent; !up.IsZero(); {
		call, err := tenantJournal.Call(ctx, up.Turn, up.Call)
		if errors.Is(err, journal.ErrNotFound) || err == nil && call.Call.Tool != turn.AgentTools+agent {
			return nil, forged(agent, err)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the call that started the session: %w", err)
		}
		rec, err := tenantJournal.TurnConfig(ctx, up.Turn)
		if err != nil {
			return nil, fmt.Errorf("reading the turn that started the session: %w", err)
		}
		cfg, err := decodeConfig(rec.Config)
		if err != nil {
			return nil, err
		}
		if c == nil { // in the first round, cfg is that of the caller itself
			subagent, err := tenantJournal.Subagent(ctx, up.Turn, up.Call)
			if err != nil {
				return nil, fmt.Errorf("reading what the call has granted: %w", err)
			}
			c = &caller{config: cfg, granted: subagent.Granted}
		}
		c.agents = append(c.agents, cfg.Agent)
		agent, up = cfg.Agent, rec.Caller
	}
	return c, nil
}

// callerSession returns the session of the turn that called the subagent whose turn makes this call. It returns "" if
// the call's turn is not a subagent's.
func (a *Activities) callerSession(ctx context.Context, in workflows.CallInput) (string, error) {
	if !turn.ReservedSession(in.Session) {
		return "", nil
	}
	t, err := a.begunTurn(ctx, in.Turn)
	if err != nil {
		return "", err
	}
	return t.caller.Session, nil
}

// narrow removes the subagent's tools that its caller does not have, except for the agents that the subagent may call,
// and adds what the caller's policy denies or asks for. For a nil caller it does nothing.
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

// inheritDenyAndAsk adds the deny and ask lists of another turn's policy to the turn's own.
func inheritDenyAndAsk(cfg *turn.Config, other turn.Policy) {
	cfg.Policy.Deny = slices.Concat(cfg.Policy.Deny, other.Deny)
	cfg.Policy.Ask = slices.Concat(cfg.Policy.Ask, other.Ask)
}

// addAgents adds to cfg a tool for each agent that the agent may call, and returns the descriptors with theirs. It
// leaves out the agent itself and the agents of the turns above, so that calls cannot go in circles, agents that policy
// denies or that this worker does not have, and at the maximum depth all. c is the caller of the turn, or nil.
func (a *Activities) addAgents(agent Agent, c *caller, cfg *turn.Config, descriptors []turn.Descriptor) []turn.Descriptor {
	above := []string{agent.Name}
	if c != nil {
		above = append(above, c.agents...)
	}
	if len(above) > agent.MaxDepth {
		return descriptors
	}
	// The answer of a call in the background is a message, which a subagent's session does not take. It begins another
	// turn, which may make such a call, too: MaxDepth bounds their number.
	background := c == nil && cfg.Answers < agent.MaxDepth
	for _, name := range agent.Agents {
		i := slices.IndexFunc(a.agents, func(o Agent) bool { return o.Name == name })
		if i < 0 || slices.Contains(above, name) {
			continue
		}
		d := agentTool(a.agents[i], background)
		// An agent that is configured as callable is allowed, unless the policy denies it or allows only other agents.
		policy := cfg.Policy
		if !namesAgents(agent.Policy.Allow) {
			policy.Allow = append(slices.Clone(policy.Allow), d.ID)
		}
		if !policy.Offered(d.Pinned()) {
			continue
		}
		cfg.Policy.Allow = policy.Allow
		cfg.Tools = append(cfg.Tools, d.Pinned())
		descriptors = append(descriptors, d)
	}
	return descriptors
}

// agentTool returns the descriptor of the tool with which another agent's model calls the agent a. background adds the
// argument with which the call does not wait for the answer. The tool is read-only, because the agent's own calls need
// permissions and approvals of their own.
func agentTool(a Agent, background bool) turn.Descriptor {
	id := turn.AgentTools + a.Name
	description := "Gives a task to the agent " + a.Name + " and returns its answer"
	if a.Description != "" {
		description += ": " + a.Description
	}
	description += ". The agent sees nothing but the task, so write down all that it needs to know."
	backgroundProperty := ""
	if background {
		backgroundProperty =
			`"background":{"description":"go on at once: the answer will be a message of this conversation","type":` +
				`"boolean"},`
	}
	schema := json.RawMessage(`{"additionalProperties":false,"properties":{` + backgroundProperty +
		`"task":{"description":"what the agent is to ` +
		`do, with all that it needs to know","minLength":1,"type":"string"}},"required":["task"],"type":"object"}`)
	return turn.Descriptor{
		ID: id, Wire: turn.WireName(id), Description: description, Schema: schema, Activity: turn.ActivityAgent,
		Risk: turn.RiskLow, Repeatable: true, Effects: turn.Effects{ReadOnly: true},
		Hash: journal.HashOf([]byte(id + "\n" + description + "\n" + string(schema))),
	}
}
