package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/authorize"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// inlineTask bounds the text of a message in a workflow's history, in bytes. A longer text is a blob of the journal.
const inlineTask = 8 << 10

// BeginSubagent claims a call of an agent's tool and returns the message that begins the agent's turn. It may claim
// the same call several times: the agent's session and the ID of its message derive from the call, so only one turn
// runs. Session and message have the same ID.
func (r *Runner) BeginSubagent(ctx context.Context, in workflows.CallInput) (workflows.CallResult, error) {
	ctx = attempt.WithWork(ctx, in.Turn, in.Step, in.Call.ID)
	res, err := r.beginSubagent(ctx, in)
	return res, r.attempts.Failure(ctx, err)
}

// beginSubagent claims the call and returns the message that begins the agent's turn, with what the turn is granted.
// If the call is settled already, it returns the call's receipt and no message.
func (r *Runner) beginSubagent(ctx context.Context, in workflows.CallInput) (res workflows.CallResult, err error) {
	call, tool, record, err := r.claim(ctx, in,
		&journal.Subagent{Granted: in.Granted, Background: in.Call.Background})
	if err != nil {
		return res, err
	}
	in.Tool = tool // as the journal has it
	switch {
	case record.Claim == journal.ClaimSettled:
		return r.subagentReceipt(ctx, in, record)
	case record.Claim == journal.ClaimStale:
		return res, turn.NewError(turn.CodeToolOutcomeUnknown, journal.ErrStale, "a later attempt has this call")
	case record.Subagent == nil || record.Subagent.Background != authorize.IsBackground(call):
		return res, turn.NewError(turn.CodeInternal, nil, "the journal has another subagent of this call")
	}
	res.CallID, res.Tool, res.Granted = in.Call.ID, in.Tool.ID, record.Subagent.Granted
	var arguments struct {
		Task string `json:"task"`
	}
	if err := json.Unmarshal([]byte(call.Arguments), &arguments); err != nil {
		return res, turn.NewError(turn.CodeInvalidAction, err, "the call's arguments cannot be read")
	}
	cfg, err := r.frozen.Config(ctx, in.Turn)
	if err != nil {
		return res, err
	}
	task, err := r.messageOf(ctx, turn.SubagentSession(in.Turn, in.Call.ID), arguments.Task)
	task.Background, task.TraceParent = cfg.Background, cfg.TraceParent
	res.Message = &task
	return res, err
}

// SettleSubagent settles a call with the answer of the agent's turn, which has ended or could not begin. The call of a
// background subagent is settled when its turn has started (CallInput.Started); its answer is then a late
// result, which SettleSubagent also returns as a message if CallInput.Deliver is set.
func (r *Runner) SettleSubagent(ctx context.Context, in workflows.CallInput) (workflows.CallResult, error) {
	ctx = attempt.WithWork(ctx, in.Turn, in.Step, in.Call.ID)
	res, err := r.settleSubagent(ctx, in)
	return res, r.attempts.Failure(ctx, err)
}

// settleSubagent records the result of a subagent's call: that it has started in the background (in.Started), or the
// answer of its turn or why there is none. With in.Deliver, it also returns that as a message for the caller's session.
func (r *Runner) settleSubagent(ctx context.Context, in workflows.CallInput) (workflows.CallResult, error) {
	// The first settlement stands. The start is therefore recorded again before an answer is delivered: the answer must
	// not settle a call that the caller's turn has reported as started.
	if in.Started || in.Deliver {
		settled, err := r.settle(ctx, in, turn.ToolResult{Outcome: turn.OutcomeOK,
			Text: "The agent works on it in the background. Its answer will be a message of this conversation."})
		if err != nil || in.Started {
			return r.receipt(in, settled), err
		}
	}
	tenantJournal := r.journal.Tenant(in.Tenant)
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
		if result, err = r.subagentResult(ctx, tenantJournal, agent, agentTurn); err != nil {
			return workflows.CallResult{}, err
		}
		changes, err := r.changesCanvas(ctx, tenantJournal, in, agentTurn.ID)
		if err != nil {
			return workflows.CallResult{}, err
		}
		if changes {
			result.Text += "\n\n" + turn.CanvasNotice(session)
		}
		taint, err := tenantJournal.Taint(ctx, agentTurn.ID)
		if err != nil {
			return workflows.CallResult{}, fmt.Errorf("reading the agent's taint: %w", err)
		}
		// If the agent's session is tainted, its answer taints the caller's.
		in.Tool.Taints, result.FromServer = taint != nil, taint != nil
	}
	result = r.presentable(result)
	settled, err := r.settle(ctx, in, result)
	if err != nil {
		return workflows.CallResult{}, err
	}
	res, err := r.subagentReceipt(ctx, in, settled)
	if in.Deliver && err == nil {
		m, merr := r.messageOf(ctx, turn.SubagentAnswerID(session), journal.SubagentAnswer(agent, result.Text))
		res.Message, err = &m, merr
	}
	return res, err
}

// messageOf returns a message with this text. If the text is too long for a workflow's history, it stores the text as
// a blob, and the message refers to it.
func (r *Runner) messageOf(ctx context.Context, id, text string) (m workflows.Message, err error) {
	m = workflows.Message{ID: id, Text: text}
	if len(text) > inlineTask {
		m.Text = ""
		m.Blob, err = r.journal.PutBlob(ctx, "text/plain", []byte(text))
	}
	return m, err
}

// changesCanvas reports whether a subagent's turn has changed the canvas of its session, so that the caller's turn may
// take the changes. It has not if the caller has no tool for that.
func (r *Runner) changesCanvas(ctx context.Context, j *journal.DB, in workflows.CallInput, turnID string) (bool,
	error) {
	cfg, err := r.frozen.Config(ctx, in.Turn)
	if err != nil {
		return false, err
	}
	if _, ok := cfg.Find(canvasTake); !ok {
		return false, nil
	}
	if changed, err := j.HasEvent(ctx, turnID, turn.EventWorkspaceCommitted); err != nil || changed {
		return changed, err
	}
	calls, err := j.Calls(ctx, turnID)
	if err != nil {
		return false, fmt.Errorf("reading the agent's calls: %w", err)
	}
	return slices.ContainsFunc(calls, func(c journal.CallRecord) bool { // what it changed may have no commit yet
		return c.Outcome == turn.OutcomeUnknown && slices.Contains(canvasChanges, c.Call.Tool) || c.Call.Tool == jobStart
	}), nil
}

// canvasTake is the tool that takes the changes of a subagent, jobStart the one that starts a command in the background,
// and canvasChanges are those whose outcome may be unknown although they have changed files.
const (
	canvasTake = "local/canvas_take"
	jobStart   = "local/job_start"
)

var canvasChanges = []string{"local/write_file", "local/edit_file", "local/patch_file", "local/delete_file", "local/shell",
	canvasTake}

// subagentResult returns the result of a call of an agent whose turn has ended: its answer, or an error that says why
// there is none. The turn's record has only the beginning of a long answer; the message of its last step has all of
// it.
func (r *Runner) subagentResult(ctx context.Context, j *journal.DB, agent string,
	t journal.TurnRecord) (turn.ToolResult, error) {
	answer := t.Answer
	if len(answer) > turn.AnswerKept-len("…") && t.Steps > 0 { // it may be truncated
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
func (r *Runner) subagentReceipt(ctx context.Context, in workflows.CallInput,
	settled journal.CallRecord) (workflows.CallResult, error) {
	res := r.receipt(in, settled)
	used, err := r.journal.Tenant(in.Tenant).SpentBySubagent(ctx, in.Turn, in.Call.ID)
	if errors.Is(err, journal.ErrNotFound) { // the call was settled without a claim, so there is no subagent
		return res, nil
	}
	res.Used = &used
	return res, err
}
