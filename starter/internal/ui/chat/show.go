package chat

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// show displays what the feed has read.
func (m *Model) show(items []item) {
	for _, i := range items {
		m.showItem(i)
	}
	m.spill(m.textRows())
}

func (m *Model) showItem(i item) {
	c := i.chunk
	if !m.turn.is(c.Turn) {
		m.startTurn(c)
	}
	if i.usage != nil {
		m.turn.usage = *i.usage
	}
	switch c.Kind {
	case turn.ChunkTurnStarted:
		m.showAsked(i.message)
	case turn.ChunkTextDelta:
		m.showText(c)
	case turn.ChunkReasoningDelta:
		m.turn.thinking = true
	case turn.ChunkAttemptRestarted:
		m.withdraw(c)
	case turn.ChunkToolCallStarted, turn.ChunkToolCallCompleted:
		m.showCall(c, i.media)
	case turn.ChunkToolProgress:
		m.showProgress(c)
	case turn.ChunkToolCallLateResult:
		m.showLateResult(c)
	case turn.ChunkMessageAdded:
		m.showMessage(c)
	case turn.ChunkApprovalRequested, turn.ChunkQuestionAsked:
		m.showRequest(c, i.arguments)
	case turn.ChunkApprovalDecided, turn.ChunkQuestionAnswered:
		m.showDecision(c)
	case turn.ChunkError:
		m.showFailure(c)
	case turn.ChunkTurnCompleted:
		m.endTurn(c)
	}
}

// showFailure shows a failed attempt that will be retried. The turn's end shows a final failure.
func (m *Model) showFailure(c turn.Chunk) {
	var e turn.ErrorChunk
	if json.Unmarshal(c.Data, &e) != nil || e.Final {
		return
	}
	m.printText(entryFault, ui.Retry(c.Text))
}

// startTurn switches to a new turn. It first prints the remaining text of an earlier turn whose end the journal does
// not have.
func (m *Model) startTurn(c turn.Chunk) {
	m.settleText()
	m.turn = live{id: c.Turn, began: c.At}
	m.pending, m.deciding = nil, false
	m.begun = true
}

func (m *Model) showAsked(said *turn.Message) {
	if said == nil {
		return
	}
	m.printUserMessage(said.ID, said.Text)
}

// printUserMessage prints a user message and removes it from the outbox.
func (m *Model) printUserMessage(id, text string) {
	kind := entryOther
	if m.outbox.seen(id) {
		kind = entryOwn
	}
	m.printText(kind, beginning(text))
}

// saidLines is how many lines of a user message are shown.
const saidLines = 30

// beginning returns the part of a user message that is shown.
func beginning(text string) string {
	lines := strings.SplitN(turn.Truncate(text, pastText), "\n", saidLines+1)
	if len(lines) <= saidLines {
		return turn.Truncate(text, pastText)
	}
	more := strings.Count(text, "\n") + 1 - saidLines
	return strings.Join(lines[:saidLines], "\n") + "\n… " + ui.Count(more, "line") + " more"
}

func (m *Model) showText(c turn.Chunk) {
	t := &m.turn
	if c.Step != t.step {
		m.settleText()
		t.step, t.printed = c.Step, false
	}
	t.thinking = false
	t.text.write(termsafe.Printable(c.Text))
}

// withdraw drops the step's text because the inference starts again. Text that is already printed stays, and a note
// follows it.
func (m *Model) withdraw(c turn.Chunk) {
	t := &m.turn
	if c.Step != t.step {
		return
	}
	_, rest := t.text.rest()
	had := rest || len(t.text.settled) > 0 || t.printed
	if t.printed {
		m.printText(entryNote, "the inference was interrupted and starts again; its text above is withdrawn")
	} else if had {
		m.printText(entryNote, ui.Withdrawn)
	}
	t.text, t.printed = splitter{}, false
}

// settleText prints the remaining text of the step.
func (m *Model) settleText() {
	m.turn.text.end()
	m.spill(0)
	m.turn.text = splitter{}
}

// spill prints the first settled blocks of the text until the rest has at most rows rows. If rows is 0, it prints all
// of them.
func (m *Model) spill(rows int) {
	t := &m.turn
	for len(t.text.settled) > 0 && (rows == 0 || len(t.layout(m.markdown, m.now)) > rows) {
		first := t.text.settled[0]
		t.drop()
		m.printBlock(first, true)
	}
}

func (m *Model) showCall(c turn.Chunk, media []turn.Media) {
	var call turn.CallChunk
	if json.Unmarshal(c.Data, &call) != nil {
		return
	}
	m.settleText()
	t := &m.turn
	if c.Kind == turn.ChunkToolCallStarted {
		t.calls = append(t.calls, running{id: call.CallID, tool: call.Tool, arguments: call.Arguments, began: c.At})
		return
	}
	for i, r := range t.calls {
		if r.id == call.CallID {
			call.Arguments = r.arguments
			t.calls = append(t.calls[:i:i], t.calls[i+1:]...)
			break
		}
	}
	m.printText(entryCall, ui.CallEnded(call, media))
	if call.Outcome == turn.OutcomeError || call.Outcome == turn.OutcomeDenied {
		if why := termsafe.Line(call.Preview, 160); why != "" {
			m.printText(entryCall, "  "+why)
		}
	}
}

// showProgress records the progress of a call.
func (m *Model) showProgress(c turn.Chunk) {
	var p turn.ProgressChunk
	if json.Unmarshal(c.Data, &p) != nil {
		return
	}
	for i := range m.turn.calls {
		if m.turn.calls[i].id == p.CallID {
			m.turn.calls[i].progress = ui.Progress(p.ToolProgress)
		}
	}
}

// showLateResult shows the late result of a call whose outcome was unknown.
func (m *Model) showLateResult(c turn.Chunk) {
	var call turn.CallChunk
	if json.Unmarshal(c.Data, &call) != nil {
		return
	}
	m.settleText()
	m.printText(entryCall, "late result: "+ui.CallEnded(call, nil))
}

func (m *Model) showMessage(c turn.Chunk) {
	var added turn.MessageChunk
	if json.Unmarshal(c.Data, &added) != nil {
		return
	}
	m.settleText()
	m.printUserMessage(added.MessageID, added.Text)
}

func (m *Model) endTurn(c turn.Chunk) {
	var done turn.DoneChunk
	_ = json.Unmarshal(c.Data, &done) // the turn is over even if the data is malformed
	m.settleText()
	if done.State != turn.StateCompleted || done.FinishReason != turn.FinishAnswered {
		kind := entryFault
		if done.State == turn.StateCancelled {
			kind = entryNote
		}
		m.printText(kind, strings.TrimSuffix(string(done.FinishReason)+": "+done.Message, ": "))
	}
	m.print(entry{kind: entryEnd, text: m.summary(c, done)})
	m.used = m.used.Add(done.Usage)
	m.turn = live{}
	m.pending, m.deciding = nil, false
	m.interrupted = time.Time{}
}

// summary describes a turn in one line, for its end.
func (m *Model) summary(c turn.Chunk, done turn.DoneChunk) string {
	parts := []string{ui.Totals(done.Steps, done.ToolCalls, done.Usage)}
	if took := c.At.Sub(m.turn.began); took > 0 {
		parts = append(parts, ui.Duration(took))
	}
	return strings.Join(parts, " · ")
}
