package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// growing is a text that grows piece by piece.
type growing = strings.Builder

// showItem shows an event.
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
	switch e.Kind {
	case turn.EventTurnStarted:
		if i.message != nil {
			m.showUserMessage(i.message.ID, i.message.Text)
		}
	case turn.EventTextDelta:
		m.showText(e)
	case turn.EventReasoningDelta:
		m.turn.thinking = true
	case turn.EventAttemptRestarted:
		m.withdraw(e)
	case turn.EventToolCallStarted, turn.EventToolCallCompleted, turn.EventToolCallLateResult:
		m.showCall(e, i.media)
	case turn.EventToolProgress:
		m.showProgress(e)
	case turn.EventMessageAdded:
		var added turn.MessageEvent
		if json.Unmarshal(e.Data, &added) == nil {
			m.endText()
			m.showUserMessage(added.MessageID, added.Text)
		}
	case turn.EventApprovalRequested, turn.EventQuestionAsked:
		m.showRequest(e, i.arguments)
	case turn.EventApprovalDecided, turn.EventQuestionAnswered:
		m.showDecision(e)
	case turn.EventError:
		m.showFailure(e)
	case turn.EventInferenceWaiting:
		var w turn.WaitingEvent
		if json.Unmarshal(e.Data, &w) == nil {
			m.addText(entryFault, ui.Waiting(e.Text, e.At, w))
		}
	case turn.EventModelChanged:
		m.addText(entryFault, e.Text)
	case turn.EventCompacted:
		var data turn.CompactedEvent
		if json.Unmarshal(e.Data, &data) == nil {
			m.addText(entryNote, data.String())
		}
	case turn.EventSkillsSelected:
		var data turn.SkillsEvent
		if json.Unmarshal(e.Data, &data) == nil {
			m.addText(entryNote, data.String())
		}
	case turn.EventPlan:
		var p plan.Progress
		if json.Unmarshal(e.Data, &p) == nil {
			m.addText(entryNote, ui.Plan(p))
		}
	case turn.EventPhase:
		if e.Text != "" { // what the inference waits for
			m.addText(entryNote, e.Text)
		}
	case turn.EventTurnCompleted:
		m.endTurn(e)
	}
}

// showFailure shows a failed attempt that will be retried. The turn's end shows a final failure.
func (m *Model) showFailure(ev turn.Event) {
	var e turn.ErrorEvent
	if json.Unmarshal(ev.Data, &e) == nil && !e.Final {
		m.addText(entryFault, ui.Failure(ev.Text, e.Code))
	}
}

// startTurn switches to a new turn.
func (m *Model) startTurn(e turn.Event) {
	m.endText() // of an earlier turn whose end the journal does not have
	m.turn = live{id: e.Turn, began: e.At, calls: map[string]*entry{}}
	m.dropRequests()
	m.begun = true
}

// dropRequests forgets the requests of a turn that has ended. Subagents may go on waiting.
func (m *Model) dropRequests() {
	m.pending = slices.DeleteFunc(m.pending, func(p *pendingRequest) bool { return p.session == "" })
	m.focused, m.typing = false, false
	if m.reason != "" {
		m.endReason()
	}
}

// showUserMessage shows a user message and removes it from the outbox.
func (m *Model) showUserMessage(id, text string) {
	kind := entryOther
	if m.outbox.seen(id) {
		kind = entryOwn
	}
	m.addText(kind, turn.Truncate(text, pastText))
}

func (m *Model) showText(e turn.Event) {
	t := &m.turn
	if e.Step != t.step {
		m.endText()
		t.step = e.Step
	}
	t.thinking = false
	t.text.WriteString(e.Text)
	if t.answer == nil {
		t.answer = m.add(&entry{kind: entryAnswer})
	}
	t.answer.text = t.text.String()
	m.change(t.answer)
}

// withdraw drops the step's text because the inference starts again.
func (m *Model) withdraw(e turn.Event) {
	t := &m.turn
	if e.Step != t.step || t.answer == nil {
		return
	}
	t.answer.kind, t.answer.text = entryNote, ui.Withdrawn
	m.endText()
}

// endText ends the entry of the step's text.
func (m *Model) endText() {
	t := &m.turn
	if t.answer != nil {
		t.answer.lines = nil
		m.change(t.answer)
	}
	t.answer, t.text = nil, growing{}
}

func (m *Model) showCall(e turn.Event, media []turn.Media) {
	var call turn.CallEvent
	if json.Unmarshal(e.Data, &call) != nil {
		return
	}
	m.endText()
	t := &m.turn
	shown := t.calls[call.CallID]
	switch {
	case e.Kind == turn.EventToolCallStarted:
		m.noteAgent(call.Tool)
		t.calls[call.CallID] = m.add(&entry{kind: entryCall, open: m.open, call: &toolCall{CallEvent: call}})
		return
	case e.Kind == turn.EventToolCallLateResult || shown == nil:
		m.add(&entry{kind: entryCall, open: m.open, call: &toolCall{CallEvent: call, media: media,
			late: e.Kind == turn.EventToolCallLateResult}})
		return
	}
	delete(t.calls, call.CallID)
	call.Arguments, call.ArgumentsBytes = shown.call.Arguments, shown.call.ArgumentsBytes
	shown.call = &toolCall{CallEvent: call, media: media}
	m.change(shown)
}

// showProgress shows the progress of a call.
func (m *Model) showProgress(ev turn.Event) {
	var p turn.ProgressEvent
	if json.Unmarshal(ev.Data, &p) != nil {
		return
	}
	if e := m.turn.calls[p.CallID]; e != nil {
		e.call.progress = ui.Progress(p.ToolProgress)
		m.change(e)
	}
}

// foldCalls opens or folds all calls.
func (m *Model) foldCalls() {
	m.open = !m.open
	for _, e := range m.entries {
		if e.kind == entryCall {
			e.open = m.open
			m.change(e)
		}
	}
}

func (m *Model) endTurn(e turn.Event) {
	var done turn.DoneEvent
	_ = json.Unmarshal(e.Data, &done) // the turn is over even if the data is malformed
	m.endText()
	if done.State != turn.StateCompleted || done.FinishReason != turn.FinishAnswered {
		kind := entryFault
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
	m.turn = live{}
	m.dropRequests()
	m.interrupted, m.notice = time.Time{}, ""
}
