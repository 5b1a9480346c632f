package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

// turnView is a turn of the transcript.
type turnView struct {
	client.TurnRecord
	mark
	Number int
	About  string
	Items  []item
	Live   *liveText // the text of the step that runs; nil if there is none
}

// settled reports whether the transcript has the message of a step.
func (t turnView) settled(step int) bool {
	return slices.ContainsFunc(t.Items, func(i item) bool { return i.ID == t.stepID(step) })
}

// stepID returns the ID of the element that ends a step.
func (t turnView) stepID(step int) string { return fmt.Sprintf("end-%s-%d", t.ID, step) }

// item is a node of the flow of a turn.
type item struct {
	ID   string
	Kind itemKind
	mark
	At     time.Time
	Author string
	Seq    int64         // of a message: where the session can be forked
	HTML   template.HTML // of a message
	Title  string
	Text   string
	Call   *callView
}

// itemKind selects the template of an item.
type itemKind string

const (
	itemUser      itemKind = "user"
	itemAssistant itemKind = "assistant"
	itemReasoning itemKind = "reasoning"
	itemCall      itemKind = "call"
	itemStep      itemKind = "step"
	itemNote      itemKind = "note"
)

// callView is a call.
type callView struct {
	Tool, Preview        string
	Arguments            string
	ArgumentsDiff        []diffLine
	Outcome              string // empty while it runs
	Duration             time.Duration
	Result               string
	ResultDiff           []diffLine
	ResultBytes          int64
	Cut                  bool // Result is only the beginning
	Subagent             string
	Decision             string // about its approval
	Media                []turn.Media
	Unknown, LateResults bool
}

// Bounds of what the transcript shows of a call, in bytes.
const (
	maxShownArguments = 16 << 10
	maxShownResult    = 32 << 10
)

// builder builds the flows of turns.
type builder struct {
	*visit
	messages    []turn.Message
	from        int64 // the number of the first of messages
	compactions []turn.Compaction
}

// shared returns the messages that are of none of the session's turns: those that a fork has of its parent.
func (b *builder) shared(turns []client.TurnRecord) (items []item) {
	for i, m := range b.messages {
		own := slices.ContainsFunc(turns, func(t client.TurnRecord) bool { return t.ID == m.TurnID })
		if seq := b.from + int64(i); !own && m.Role != turn.RoleTool && m.Text != "" {
			items = append(items, b.message(m, seq, time.Time{}))
		}
	}
	return items
}

// turn returns a turn with what happened in it, in order.
func (b *builder) turn(number int, h client.TurnHistory) turnView {
	t := turnView{TurnRecord: h.Turn, mark: turnMark(h.Turn), Number: number, About: b.about(h)}
	steps := map[int]client.Inference{}
	for _, i := range h.Inferences {
		steps[i.Key.Step] = i
	}
	for i, m := range b.messages {
		seq := b.from + int64(i)
		switch {
		case m.TurnID != h.Turn.ID:
			continue
		case m.Role == turn.RoleUser:
			at := time.Time{}
			if seq == h.Turn.MessageSeq {
				at = h.Turn.StartedAt
			}
			t.Items = append(t.Items, b.message(m, seq, at))
		case m.Role == turn.RoleAssistant:
			t.Items = append(t.Items, b.step(t, h, steps[m.Step], m, seq)...)
			delete(steps, m.Step)
		}
		t.Items = append(t.Items, b.compactionsAt(seq)...)
	}
	for _, i := range steps { // at most the last one, which runs or has left no message
		t.Items = append(t.Items, restarts(t, i)...)
	}
	if t.State.Terminal() && t.Message != "" {
		t.Items = append(t.Items, item{ID: "end-" + t.ID, Kind: itemNote, mark: t.mark, Title: "Turn " + t.Word,
			Text: t.Message, At: t.EndedAt})
	}
	return t
}

// about describes a turn in the line above it.
func (b *builder) about(h client.TurnHistory) string {
	end := h.Turn.EndedAt
	if end.IsZero() {
		end = b.now
	}
	steps := max(h.Turn.Steps, len(h.Inferences))
	return fmt.Sprintf("%s · %s · %s · %s", turnMark(h.Turn).Word, plural(steps, "step"),
		duration(end.Sub(h.Turn.StartedAt)), cost(h.Turn.Usage))
}

// message returns a message of a user, of the model, or a notice.
func (b *builder) message(m turn.Message, seq int64, at time.Time) item {
	i := item{ID: fmt.Sprintf("m%d", seq), Kind: itemUser, mark: mark{Icon: "user"}, Author: "You", Seq: seq, At: at,
		HTML: markdown(m.Text)}
	switch {
	case m.Role == turn.RoleAssistant:
		i.Kind, i.mark, i.Author = itemAssistant, mark{"run", "brand", ""}, "Everturn"
		switch m.Outcome {
		case turn.OutcomeCancelled:
			i.Word = "stopped here"
		case turn.OutcomeError:
			i.Word = "ended here"
		}
	case m.Step > 0 && m.ID == "":
		i.Author, i.Icon = "Notice", "again"
	}
	for _, media := range m.Media {
		i.Text = strings.TrimSpace(i.Text + " " + media.Type + ", " + size(media.Bytes))
	}
	return i
}

// step returns what happened in a step whose inference has ended.
func (b *builder) step(t turnView, h client.TurnHistory, i client.Inference, m turn.Message, seq int64) []item {
	items := restarts(t, i)
	if text := i.Completion.Reasoning; text != "" {
		items = append(items, item{ID: fmt.Sprintf("r-%s-%d", t.ID, m.Step), Kind: itemReasoning, mark: mark{Icon: "dots"},
			HTML: markdown(turn.Truncate(text, maxShownResult))})
	}
	if m.Text != "" {
		items = append(items, b.message(m, seq, i.SettledAt))
	}
	for _, requested := range m.ToolCalls {
		c := client.Call{Turn: t.ID, Step: m.Step, Call: requested} // until a worker claims it
		if i := slices.IndexFunc(h.Calls, func(c client.Call) bool { return c.Call.ID == requested.ID }); i >= 0 {
			c = h.Calls[i]
		}
		items = append(items, b.call(t, h, c))
	}
	end := item{ID: t.stepID(m.Step), Kind: itemStep, Title: fmt.Sprintf("step %d", m.Step)}
	if u := i.Completion.Usage; i.Settled && !i.Completion.Plan {
		parts := []string{i.Model}
		if i.Attempt > 1 {
			parts = append(parts, fmt.Sprintf("attempt %d", i.Attempt))
		}
		end.Text = strings.Join(append(parts, duration(i.SettledAt.Sub(i.StartedAt)), u.Describe(), cost(u)), " · ")
	}
	return append(items, end)
}

// restarts tells that earlier attempts of an inference were given up.
func restarts(t turnView, i client.Inference) []item {
	if i.Attempt-i.Released < 2 {
		return nil
	}
	return []item{{ID: fmt.Sprintf("a-%s-%d", t.ID, i.Key.Step), Kind: itemNote, mark: mark{"wait", "again", ""},
		Title: fmt.Sprintf("Step %d is at attempt %d", i.Key.Step, i.Attempt),
		Text:  "the text of earlier attempts was dropped"}}
}

// compactionsAt returns the compactions after a message.
func (b *builder) compactionsAt(seq int64) (items []item) {
	for i, c := range b.compactions {
		if c.At.Seq == seq {
			items = append(items, item{ID: fmt.Sprintf("k%d", i), Kind: itemNote, mark: mark{"off", "compact", ""},
				Title: "Compaction", Text: fmt.Sprintf("%s to %s tokens, for the prompts from here on; %s",
					number(c.Before), number(c.After), cost(c.Usage))})
		}
	}
	return items
}

// callMarks are the states of calls that have ended.
var callMarks = map[turn.Outcome]mark{
	turn.OutcomeOK:        {"off", "check", "ok"},
	turn.OutcomeError:     {"fail", "cross", "error"},
	turn.OutcomeUnknown:   {"unk", "unk", "outcome unknown"},
	turn.OutcomeDenied:    {"off", "slash", "denied"},
	turn.OutcomeCancelled: {"off", "slash", "cancelled"},
}

// call returns a call of a turn.
func (b *builder) call(t turnView, h client.TurnHistory, c client.Call) item {
	i := item{ID: fmt.Sprintf("c-%s-%s", t.ID, c.Call.ID), Kind: itemCall, mark: mark{"run", "ring", "running"}}
	waits := func(r client.Request) bool {
		return (r.ID == c.Call.ID || r.Call == c.Call.ID) && r.Decision == nil
	}
	switch m, ended := callMarks[c.Outcome]; {
	case ended:
		i.mark = m
	case slices.ContainsFunc(h.Requests, waits):
		i.mark = mark{"wait", "wait", "waits for you"}
	case c.ClaimedAt.IsZero():
		i.mark = mark{"off", "dots", "not begun"}
	}
	v := &callView{Tool: line(c.Call.Tool), Preview: line(c.Call.Arguments), Outcome: string(c.Outcome),
		Arguments: visible(turn.Truncate(indented(c.Call.Arguments), maxShownArguments)),
		Duration:  time.Duration(c.DurationMS) * time.Millisecond, ResultBytes: c.SizeBytes, Media: c.Media,
		Unknown: c.Outcome == turn.OutcomeUnknown, LateResults: c.LateCount > 0,
		Cut: c.FullBlob != "" || len(c.Text) > maxShownResult}
	result := turn.Truncate(c.Text, maxShownResult)
	v.Result = visible(result)
	v.ResultDiff, _ = diffOf(result)
	v.ArgumentsDiff = editDiff(c.Call.Arguments)
	v.ResultBytes = cmp.Or(v.ResultBytes, int64(len(c.Text)))
	for _, r := range h.Requests {
		if r.ID == c.Call.ID && r.Decision != nil {
			v.Decision = decided(*r.Decision)
		}
	}
	if strings.HasPrefix(c.Call.Tool, turn.AgentTools) {
		v.Subagent = turn.SubagentSession(c.Turn, c.Call.ID)
	}
	i.Call = v
	return i
}

// indented returns JSON with one field a line, or a text that is not JSON as it is.
func indented(arguments string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(arguments), "", "  ") != nil {
		return arguments
	}
	return b.String()
}

// decided describes a decision in a line.
func decided(d turn.Decision) string {
	text := string(d.Status)
	if d.By != "" {
		text += " by " + d.By
	}
	if d.Grant != "" {
		text += ", and later calls (" + string(d.Grant) + ")"
	}
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return line(text)
}
