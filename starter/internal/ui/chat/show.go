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

// showItem shows a chunk.
func (m *Model) showItem(i item) {
	c := i.chunk
	if m.turn.id == "" || m.turn.id != c.Turn {
		m.startTurn(c)
	}
	if i.usage != nil {
		m.turn.usage = *i.usage
	}
	if i.model != "" {
		m.model = i.model
	}
	switch c.Kind {
	case turn.ChunkTurnStarted:
		if i.message != nil {
			m.showUserMessage(i.message.ID, i.message.Text)
		}
	case turn.ChunkTextDelta:
		m.showText(c)
	case turn.ChunkReasoningDelta:
		m.turn.thinking = true
	case turn.ChunkAttemptRestarted:
		m.withdraw(c)
	case turn.ChunkToolCallStarted, turn.ChunkToolCallCompleted, turn.ChunkToolCallLateResult:
		m.showCall(c, i.media)
	case turn.ChunkToolProgress:
		m.showProgress(c)
	case turn.ChunkMessageAdded:
		var added turn.MessageChunk
		if json.Unmarshal(c.Data, &added) == nil {
			m.endText()
			m.showUserMessage(added.MessageID, added.Text)
		}
	case turn.ChunkApprovalRequested, turn.ChunkQuestionAsked:
		m.showRequest(c, i.arguments)
	case turn.ChunkApprovalDecided, turn.ChunkQuestionAnswered:
		m.showDecision(c)
	case turn.ChunkError:
		m.showFailure(c)
	case turn.ChunkInferenceWaiting:
		var w turn.WaitingChunk
		if json.Unmarshal(c.Data, &w) == nil {
			m.addText(entryFault, ui.Waiting(c.Text, c.At, w))
		}
	case turn.ChunkModelChanged:
		m.addText(entryFault, c.Text)
	case turn.ChunkCondensed:
		var data turn.CondensedChunk
		if json.Unmarshal(c.Data, &data) == nil {
			m.addText(entryNote, data.String())
		}
	case turn.ChunkSkillsSelected:
		var data turn.SkillsChunk
		if json.Unmarshal(c.Data, &data) == nil {
			m.addText(entryNote, data.String())
		}
	case turn.ChunkPlan:
		var p plan.Progress
		if json.Unmarshal(c.Data, &p) == nil {
			m.addText(entryNote, ui.Plan(p))
		}
	case turn.ChunkPhase:
		if c.Text != "" { // what the inference waits for
			m.addText(entryNote, c.Text)
		}
	case turn.ChunkTurnCompleted:
		m.endTurn(c)
	}
}

// showFailure shows a failed attempt that will be retried. The turn's end shows a final failure.
func (m *Model) showFailure(c turn.Chunk) {
	var e turn.ErrorChunk
	if json.Unmarshal(c.Data, &e) == nil && !e.Final {
		m.addText(entryFault, ui.Failure(c.Text, e.Code))
	}
}

// startTurn switches to a new turn.
func (m *Model) startTurn(c turn.Chunk) {
	m.endText() // of an earlier turn whose end the journal does not have
	m.turn = live{id: c.Turn, began: c.At, calls: map[string]*entry{}}
	m.dropRequests()
	m.begun = true
}

// dropRequests forgets the requests of a turn that has ended. Subagents may go on waiting.
func (m *Model) dropRequests() {
	m.pending = slices.DeleteFunc(m.pending, func(w *pendingRequest) bool { return w.session == "" })
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

func (m *Model) showText(c turn.Chunk) {
	t := &m.turn
	if c.Step != t.step {
		m.endText()
		t.step = c.Step
	}
	t.thinking = false
	t.text.WriteString(c.Text)
	if t.answer == nil {
		t.answer = m.add(&entry{kind: entryAnswer})
	}
	t.answer.text = t.text.String()
	m.change(t.answer)
}

// withdraw drops the step's text because the inference starts again.
func (m *Model) withdraw(c turn.Chunk) {
	t := &m.turn
	if c.Step != t.step || t.answer == nil {
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

func (m *Model) showCall(c turn.Chunk, media []turn.Media) {
	var call turn.CallChunk
	if json.Unmarshal(c.Data, &call) != nil {
		return
	}
	m.endText()
	t := &m.turn
	shown := t.calls[call.CallID]
	switch {
	case c.Kind == turn.ChunkToolCallStarted:
		m.noteAgent(call.Tool)
		t.calls[call.CallID] = m.add(&entry{kind: entryCall, open: m.open, call: &toolCall{CallChunk: call}})
		return
	case c.Kind == turn.ChunkToolCallLateResult || shown == nil:
		m.add(&entry{kind: entryCall, open: m.open, call: &toolCall{CallChunk: call, media: media,
			late: c.Kind == turn.ChunkToolCallLateResult}})
		return
	}
	delete(t.calls, call.CallID)
	call.Arguments, call.ArgumentsBytes = shown.call.Arguments, shown.call.ArgumentsBytes
	shown.call = &toolCall{CallChunk: call, media: media}
	m.change(shown)
}

// showProgress shows the progress of a call.
func (m *Model) showProgress(c turn.Chunk) {
	var p turn.ProgressChunk
	if json.Unmarshal(c.Data, &p) != nil {
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

func (m *Model) endTurn(c turn.Chunk) {
	var done turn.DoneChunk
	_ = json.Unmarshal(c.Data, &done) // the turn is over even if the data is malformed
	m.endText()
	if done.State != turn.StateCompleted || done.FinishReason != turn.FinishAnswered {
		kind := entryFault
		if done.State == turn.StateCancelled {
			kind = entryNote
		}
		m.addText(kind, strings.TrimSuffix(string(done.FinishReason)+": "+done.Message, ": "))
	}
	parts := []string{ui.Totals(done.Steps, done.ToolCalls, done.Usage)}
	if took := c.At.Sub(m.turn.began); took > 0 {
		parts = append(parts, ui.Duration(took))
	}
	m.addText(entryNote, termsafe.Line(strings.Join(parts, " · "), 200))
	m.used = m.used.Add(done.Usage)
	m.turn = live{}
	m.dropRequests()
	m.interrupted, m.notice = time.Time{}, ""
}
