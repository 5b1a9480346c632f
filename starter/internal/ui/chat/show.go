package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// growing is a text to which deltas are appended.
type growing = strings.Builder

// showItem shows an event of the session in the conversation or the panel. The first event of another turn makes that
// turn the running one.
func (m *Model) showItem(i item) {
	e := i.event
	if m.turn.id == "" || m.turn.id != e.Turn {
		m.startTurn(e)
	}
	if i.usage != nil {
		m.turn.usage = *i.usage
	}
	if i.model != "" {
		m.model = i.model
	}
	if i.message != nil {
		m.showUserMessage(i.message.ID, i.message.Text, ui.Media(i.message.Media))
	}
	switch e.Kind {
	case turn.EventTextDelta, turn.EventReasoningDelta, turn.EventToolCallStarted, turn.EventInferenceCompleted:
		m.turn.unread = nil // the model has read them
	}
	switch e.Kind {
	case turn.EventTextDelta:
		m.showText(e)
	case turn.EventReasoningDelta:
		m.showReasoning(e)
	case turn.EventAttemptRestarted:
		m.withdraw(e)
	case turn.EventToolCallStarted, turn.EventToolCallCompleted, turn.EventToolCallLateResult:
		m.showCall(e, i.call)
	case turn.EventToolProgress:
		m.showProgress(e)
	case turn.EventMessageAdded:
		m.showAdded(e)
	case turn.EventApprovalRequested, turn.EventQuestionAsked:
		m.showRequest(e, i.arguments)
	case turn.EventApprovalDecided, turn.EventQuestionAnswered:
		m.showDecision(e)
	case turn.EventError:
		m.showFailure(e)
	case turn.EventInferenceWaiting:
		m.showModelWait(e)
	case turn.EventModelChanged:
		m.addText(entryError, e.Text)
	case turn.EventPlan:
		var p plan.Progress
		if json.Unmarshal(e.Data, &p) == nil {
			m.addText(entryNote, ui.Plan(p))
		}
	case turn.EventWorkspaceCommitted:
		m.turn.changed, m.toMerge = true, toMerge{}
	case turn.EventTurnCompleted:
		m.endTurn(e)
	default:
		if line := e.Line(); line != "" {
			m.addText(entryNote, line)
		}
	}
}

// showAdded shows a message that was merged into the running turn. If it was sent here, the model has not read it yet.
func (m *Model) showAdded(e turn.Event) {
	var added turn.MessageEvent
	if json.Unmarshal(e.Data, &added) != nil {
		return
	}
	m.endText()
	if sent := m.showUserMessage(added.MessageID, added.Text, ""); sent.id != "" {
		m.turn.unread = append(m.turn.unread, sent)
	}
}

// showFailure shows an error of an inference. It leaves out a final one, which the end of the turn shows.
func (m *Model) showFailure(ev turn.Event) {
	var e turn.ErrorEvent
	if json.Unmarshal(ev.Data, &e) == nil && !e.Final {
		m.addText(entryError, ui.Failure(ev.Text, e.Code))
	}
}

// showModelWait shows why the turn waits for its model: in the line of the attempt before, if nothing has come since.
func (m *Model) showModelWait(e turn.Event) {
	var w turn.WaitingEvent
	if json.Unmarshal(e.Data, &w) != nil {
		return
	}
	if t := &m.turn; t.waiting == nil || t.waiting != m.entries[len(m.entries)-1] {
		t.waiting = m.add(&entry{kind: entryError})
	}
	m.turn.waiting.text = ui.Waiting(e.Text, e.At, w)
	m.change(m.turn.waiting)
}

// startTurn makes the turn of an event the running one.
func (m *Model) startTurn(e turn.Event) {
	m.endText() // the journal may lack the end of the turn before
	m.turn = runningTurn{id: e.Turn, began: e.At, calls: map[string]*entry{}}
	m.dropRequests()
	m.begun = true
}

// dropRequests removes the requests of a turn that has ended. Those of subagents stay, because their turns may still
// wait for them.
func (m *Model) dropRequests() {
	m.pending = slices.DeleteFunc(m.pending, func(p *pendingRequest) bool { return p.session == "" })
	m.focused, m.typing = false, false
	if m.reason != "" {
		m.endReason()
	}
}

// showUserMessage shows a user message, and removes it from the outbox and returns it, if it was there. media describes
// its attachments, if they are known. What the chat itself has added to the text is shown when the user opens the
// message.
func (m *Model) showUserMessage(id, text, media string) (sent outgoing) {
	e := &entry{kind: entryOther, text: turn.Truncate(text, pastText) + media, open: m.open}
	sent, own := m.outbox.arrived(id)
	if own {
		e.kind = entryOwn
	}
	if marks := sent.marks(); marks != "" {
		e.short = turn.Truncate(sent.typed, pastText) + marks
	}
	m.add(e)
	return sent
}

// showText appends a delta of the model's text to the answer of its step.
func (m *Model) showText(e turn.Event) {
	t := &m.turn
	if e.Step != t.step {
		m.endText()
		t.step = e.Step
	}
	t.thinking, t.reasoning = false, nil
	t.text.WriteString(e.Text)
	if t.answer == nil {
		t.answer = m.add(&entry{kind: entryAnswer})
	}
	t.answer.text = t.text.String()
	m.change(t.answer)
}

// withdraw replaces the text of a step by a note, because its inference was interrupted and starts again.
func (m *Model) withdraw(e turn.Event) {
	t := &m.turn
	if e.Step != t.step || t.answer == nil {
		return
	}
	t.answer.kind, t.answer.text = entryNote, ui.Withdrawn
	m.endText()
}

// endText ends the growing answer: later text starts a new entry.
func (m *Model) endText() {
	t := &m.turn
	if t.answer != nil {
		t.answer.lines = nil // lay it out without the delay of a growing entry
		m.change(t.answer)
	}
	t.answer, t.text, t.reasoning = nil, growing{}, nil
}

// showCall shows a call that has started, or the result of a call: in the entry of the call, or in a new one if the
// result is late or the chat has not shown the call. done is the journal's record of a completed call; it may be nil.
func (m *Model) showCall(e turn.Event, done *client.Call) {
	var call turn.CallEvent
	if json.Unmarshal(e.Data, &call) != nil {
		return
	}
	m.endText()
	t := &m.turn
	ended := &toolCall{CallEvent: call, late: e.Kind == turn.EventToolCallLateResult}
	ended.output = ui.CommandOutput(call.Tool, call.Preview)
	if done != nil {
		ended.media = done.Media
		ended.diff = changeOf(done.Call, call.Outcome, done.Text)
		ended.output = ui.CommandOutput(call.Tool, done.Text)
	}
	shown := t.calls[call.CallID]
	switch {
	case e.Kind == turn.EventToolCallStarted:
		m.watchSubagents(call.Tool)
		t.calls[call.CallID] = m.add(&entry{kind: entryCall, open: m.open, call: &toolCall{CallEvent: call}})
		return
	case e.Kind == turn.EventToolCallLateResult || shown == nil:
		m.add(&entry{kind: entryCall, open: m.open, call: ended})
		return
	}
	delete(t.calls, call.CallID)
	// The event of the result does not have the arguments.
	ended.Arguments, ended.ArgumentsBytes = shown.call.Arguments, shown.call.ArgumentsBytes
	if ended.Outcome == turn.OutcomeUnknown { // the result has nothing of what the command has written
		ended.output = shown.call.output
	}
	shown.call = ended
	m.change(shown)
}

// changeOf returns the diff of a call that has, or may have, changed a file; "" for other calls.
func changeOf(c turn.ToolCall, outcome turn.Outcome, result string) string {
	if outcome != turn.OutcomeOK && outcome != turn.OutcomeUnknown {
		return ""
	}
	return ui.ResultDiff(c.Tool, c.Arguments, result)
}

// showProgress shows the progress of a running call.
func (m *Model) showProgress(ev turn.Event) {
	var p turn.ProgressEvent
	if json.Unmarshal(ev.Data, &p) != nil {
		return
	}
	if e := m.turn.calls[p.CallID]; e != nil {
		e.call.progress = ui.Progress(p.ToolProgress)
		if p.Output != "" {
			e.call.output, e.call.progress = e.call.output+p.Output, ""
			e.call.output = e.call.output[max(0, len(e.call.output)-turn.MaxOutput):]
		}
		m.change(e)
	}
}

// foldCalls shows the details of all calls and all of each user message, later ones too, or hides them if they are
// shown.
func (m *Model) foldCalls() {
	m.open = !m.open
	for _, e := range m.entries {
		if e.folds() {
			e.open = m.open
			m.change(e)
		}
	}
}

// endTurn shows how the running turn has ended and what it has used, and resets the state of the turn.
func (m *Model) endTurn(e turn.Event) {
	var done turn.DoneEvent
	_ = json.Unmarshal(e.Data, &done) // the turn is over even if the data is malformed
	m.endText()
	if done.State != turn.StateCompleted || done.FinishReason != turn.FinishAnswered {
		kind := entryError
		if done.State == turn.StateCancelled {
			kind = entryNote
		}
		m.addText(kind, strings.TrimSuffix(string(done.FinishReason)+": "+done.Message, ": "))
	}
	parts := []string{ui.Totals(done.Steps, done.ToolCalls, done.Usage)}
	if took := e.At.Sub(m.turn.began); took > 0 {
		parts = append(parts, ui.Duration(took))
	}
	m.addText(entryNote, termsafe.Line(strings.Join(parts, " · "), 200))
	m.used = m.used.Add(done.Usage)
	unread := m.turn.unread
	m.filesChanged = m.filesChanged || m.turn.changed && m.o.Canvases != nil
	m.menu.reading = m.menu.reading && !m.turn.changed
	m.turn = runningTurn{}
	m.dropRequests()
	if done.State == turn.StateCancelled {
		m.giveBackUnread(unread)
	}
	m.interrupted, m.notice = time.Time{}, ""
}
