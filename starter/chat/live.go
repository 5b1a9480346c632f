package chat

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/everturn/everturn/starter/terminal"
	"github.com/everturn/everturn/workflows/turn"
)

// live is the turn that runs: what of it is not printed yet.
type live struct {
	id      string
	began   time.Time
	step    int
	text    splitter
	printed bool // of the step's text, blocks were printed already
	calls   []running
	usage   turn.Usage
	// thinking: reasoning came after the last text.
	thinking bool
	stopping bool

	shown shown
}

// running is a call that has begun.
type running struct {
	id, tool, arguments string
	began               time.Time
}

// shown keeps how the text was laid out, so that only what changed is rendered again.
type shown struct {
	blocks []laid
	open   laid
	width  int
	until  time.Time // the open block is not rendered again before
	stale  bool      // it would have been
}

// patience is how many times as long as it took to render the open block it is shown as it is: a tenth of the time is
// enough for it.
const patience = 9

type laid struct {
	block block
	lines []string
}

func (t *live) is(id string) bool { return t.id != "" && t.id == id }

// layout is the text that is not printed yet, in lines.
func (t *live) layout(m *markdown, now func() time.Time) []string {
	if t.shown.width != m.width {
		t.shown = shown{width: m.width}
	}
	t.shown.blocks = t.shown.blocks[:min(len(t.shown.blocks), len(t.text.settled))]
	for i := len(t.shown.blocks); i < len(t.text.settled); i++ {
		t.shown.blocks = append(t.shown.blocks, laid{t.text.settled[i], m.render(t.text.settled[i])})
	}
	var lines []string
	for i, l := range t.shown.blocks {
		lines = appendBlock(lines, l, i > 0)
	}
	if rest, ok := t.text.rest(); ok {
		began := now()
		t.shown.stale = t.shown.open.block != rest && began.Before(t.shown.until)
		if t.shown.open.block != rest && !t.shown.stale {
			t.shown.open = laid{rest, m.render(rest)}
			t.shown.until = began.Add((1 + patience) * now().Sub(began))
		}
		lines = appendBlock(lines, t.shown.open, len(lines) > 0)
	}
	return lines
}

func appendBlock(lines []string, l laid, gap bool) []string {
	if gap && !l.block.joined {
		lines = append(lines, "")
	}
	return append(lines, l.lines...)
}

// drop forgets the first settled block: it was printed.
func (t *live) drop() {
	t.text.settled = t.text.settled[1:]
	if len(t.shown.blocks) > 0 {
		t.shown.blocks = t.shown.blocks[1:]
	}
	t.printed = true
}

// show takes what the feed has read.
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
		m.showAsked(i.said)
	case turn.ChunkTextDelta:
		m.showText(c)
	case turn.ChunkReasoningDelta:
		m.turn.thinking = true
	case turn.ChunkAttemptRestarted:
		m.withdraw(c)
	case turn.ChunkToolCallStarted, turn.ChunkToolCallCompleted:
		m.showCall(c)
	case turn.ChunkMessageJoined:
		m.showJoined(c)
	case turn.ChunkApprovalRequested, turn.ChunkQuestionAsked:
		m.showWait(c, i.arguments)
	case turn.ChunkApprovalDecided, turn.ChunkQuestionAnswered:
		m.showRuling(c)
	case turn.ChunkError:
		m.settleText()
		m.say(entryFault, c.Text)
	case turn.ChunkTurnCompleted:
		m.endTurn(c)
	}
}

// startTurn makes room for a turn. What one before it has left, whose end the journal does not have, is printed.
func (m *Model) startTurn(c turn.Chunk) {
	m.settleText()
	m.turn = live{id: c.Turn, began: c.At}
	m.waits, m.deciding = nil, false
	m.begun = true
}

func (m *Model) showAsked(said *turn.Message) {
	if said == nil {
		return
	}
	m.sayUser(said.ID, said.Text)
}

// sayUser prints a user's message, and takes it off the list of those that are on their way.
func (m *Model) sayUser(id, text string) {
	kind := entryOther
	if m.outbox.seen(id) {
		kind = entrySaid
	}
	m.say(kind, turn.Cut(text, pastText))
}

func (m *Model) showText(c turn.Chunk) {
	t := &m.turn
	if c.Step != t.step {
		m.settleText()
		t.step, t.printed = c.Step, false
	}
	t.thinking = false
	t.text.write(terminal.Printable(c.Text))
}

// withdraw drops the step's text: the inference begins again. What of it is printed stays where it is, with a word.
func (m *Model) withdraw(c turn.Chunk) {
	t := &m.turn
	if c.Step != t.step {
		return
	}
	_, rest := t.text.rest()
	had := rest || len(t.text.settled) > 0 || t.printed
	if t.printed {
		m.say(entryNote, "the inference was interrupted and starts again: what stands above of its answer is withdrawn")
	} else if had {
		m.say(entryNote, "the inference was interrupted and starts again; its text so far is withdrawn")
	}
	t.text, t.printed = splitter{}, false
}

// settleText prints what there is of the step's text.
func (m *Model) settleText() {
	m.turn.text.end()
	m.spill(0)
	m.turn.text = splitter{}
}

// spill prints the first settled blocks of the text until the rest has at most so many rows. 0 prints all of them.
func (m *Model) spill(rows int) {
	t := &m.turn
	for len(t.text.settled) > 0 && (rows == 0 || len(t.layout(m.markdown, m.now)) > rows) {
		first := t.text.settled[0]
		t.drop()
		m.sayBlock(first, true)
	}
}

func (m *Model) showCall(c turn.Chunk) {
	var call turn.CallChunk
	if json.Unmarshal(c.Data, &call) != nil {
		return
	}
	m.settleText()
	t := &m.turn
	if c.Kind == turn.ChunkToolCallStarted {
		t.calls = append(t.calls, running{call.CallID, call.Tool, call.Arguments, c.At})
		return
	}
	for i, r := range t.calls {
		if r.id == call.CallID {
			call.Arguments = r.arguments
			t.calls = append(t.calls[:i:i], t.calls[i+1:]...)
			break
		}
	}
	took := short(time.Duration(call.DurationMS) * time.Millisecond)
	m.say(entryCall, callLine(call.Tool, call.Arguments, call.Outcome, took))
	if call.Outcome == turn.OutcomeError || call.Outcome == turn.OutcomeDenied {
		if why := terminal.Line(call.Preview, 2*previewRunes); why != "" {
			m.say(entryCall, "  "+why)
		}
	}
}

func (m *Model) showJoined(c turn.Chunk) {
	var joined turn.MessageChunk
	if json.Unmarshal(c.Data, &joined) != nil {
		return
	}
	m.settleText()
	m.sayUser(joined.MessageID, joined.Text)
}

func (m *Model) endTurn(c turn.Chunk) {
	var done turn.DoneChunk
	_ = json.Unmarshal(c.Data, &done) // without it, the turn is over all the same
	m.settleText()
	if done.State != turn.StateCompleted || done.FinishReason != turn.FinishAnswered {
		kind := entryFault
		if done.State == turn.StateCancelled {
			kind = entryNote
		}
		m.say(kind, strings.TrimSuffix(string(done.FinishReason)+": "+done.Message, ": "))
	}
	m.print(entry{kind: entryEnd, text: m.summary(c, done)})
	m.used = m.used.Add(done.Usage)
	m.turn = live{}
	m.waits, m.deciding = nil, false
	m.interrupted = time.Time{}
}

// summary is the line at the end of a turn.
func (m *Model) summary(c turn.Chunk, done turn.DoneChunk) string {
	parts := []string{plural(done.Steps, "step", "steps"), plural(done.ToolCalls, "tool call", "tool calls"), tokens(done.Usage)}
	if took := c.At.Sub(m.turn.began); took > 0 {
		parts = append(parts, short(took))
	}
	return strings.Join(parts, " · ")
}
