package items

import (
	"encoding/json"
	"fmt"

	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// Kind is the kind of an item.
type Kind string

// The kinds of items.
const (
	Message   Kind = "message"   // text of the model
	Reasoning Kind = "reasoning" // reasoning of the model, or its summary
	Call      Kind = "call"      // a tool call
	Request   Kind = "request"   // an approval, a question, an elicitation or a result
	Plan      Kind = "plan"      // the turn's plan; a later plan is another item
	User      Kind = "user"      // a message of the user that was merged into the turn
)

// Item is a part of a turn. Only the fields of its kind are set.
type Item struct {
	ID   string // unique in its turn, the same for every reader
	Kind Kind
	Step int
	// Text is the whole text of a message or of reasoning, as far as it has come, or a preview of a user's message.
	Text string
	// Withdrawn means that the text is void, because the inference was repeated.
	Withdrawn bool
	Call      turn.CallEvent
	Request   turn.Request // without its session and turn
	Plan      plan.Progress
}

// Change is what an event does to the items.
type Change struct {
	Do   Do
	Item *Item // of Begin, Extend, End and Withdraw; the reader must not change it
	// Text is the next part of the text, of Extend.
	Text string
	// Progress is that of a call, of Extend.
	Progress *turn.ProgressEvent
	// Done is how the turn has ended, of Finish.
	Done turn.DoneEvent
}

// Do is the kind of a change.
type Do string

// The changes. Every item that begins ends, or is withdrawn after or instead of its end.
const (
	Begin    Do = "begin"
	Extend   Do = "extend"
	End      Do = "end"
	Withdraw Do = "withdraw"
	Finish   Do = "finish" // the turn has ended; it is the last change
)

// Fold turns the events of one turn into changes. The zero Fold is ready to use.
type Fold struct {
	n     int              // the items so far
	open  *Item            // the text that the model writes now
	step  []*Item          // the texts of the step's current attempt
	calls map[string]*Item // in progress, by the call's ID
	asked map[string]*Item // open requests, by the request's ID
}

// Add returns the changes of the next event. Events that are no part of an item, and those whose data it cannot read,
// have none.
func (f *Fold) Add(e turn.Event) []Change {
	switch e.Kind {
	case turn.EventTextDelta:
		return f.write(Message, e)
	case turn.EventReasoningDelta:
		return f.write(Reasoning, e)
	case turn.EventAttemptRestarted:
		return f.withdraw()
	case turn.EventInferenceCompleted:
		changes := f.endText()
		f.step = nil
		return changes
	case turn.EventToolCallStarted, turn.EventToolCallCompleted:
		return f.call(e)
	case turn.EventToolProgress:
		return f.progress(e)
	case turn.EventApprovalRequested, turn.EventQuestionAsked, turn.EventApprovalDecided, turn.EventQuestionAnswered:
		return f.request(e)
	case turn.EventPlan:
		i := f.item(Plan, e.Step)
		return f.whole(i, json.Unmarshal(e.Data, &i.Plan))
	case turn.EventMessageAdded:
		var m turn.MessageEvent
		i := f.item(User, e.Step)
		err := json.Unmarshal(e.Data, &m)
		i.Text = m.Text
		return f.whole(i, err)
	case turn.EventTurnCompleted:
		return f.finish(e)
	}
	return nil
}

// item returns a new item, which does not count until begin.
func (f *Fold) item(kind Kind, step int) *Item {
	return &Item{ID: fmt.Sprint(f.n + 1), Kind: kind, Step: step}
}

// begin returns the change that an item begins.
func (f *Fold) begin(i *Item) Change {
	f.n++
	return Change{Do: Begin, Item: i}
}

// whole returns the changes of an item that begins and ends with one event; none if the event's data cannot be read.
func (f *Fold) whole(i *Item, err error) []Change {
	if err != nil {
		return nil
	}
	return append(f.endText(), f.begin(i), Change{Do: End, Item: i})
}

// write adds to the text that the model writes. Text and reasoning may take turns.
func (f *Fold) write(kind Kind, e turn.Event) (changes []Change) {
	if f.open != nil && (f.open.Kind != kind || f.open.Step != e.Step) {
		changes = f.endText()
	}
	if len(f.step) > 0 && f.step[0].Step != e.Step {
		f.step = nil
	}
	if f.open == nil {
		f.open = f.item(kind, e.Step)
		f.step = append(f.step, f.open)
		changes = append(changes, f.begin(f.open))
	}
	f.open.Text += e.Text
	return append(changes, Change{Do: Extend, Item: f.open, Text: e.Text})
}

// endText ends the text that the model writes.
func (f *Fold) endText() []Change {
	if f.open == nil {
		return nil
	}
	i := f.open
	f.open = nil
	return []Change{{Do: End, Item: i}}
}

// withdraw withdraws the texts of the step, because its inference is repeated.
func (f *Fold) withdraw() (changes []Change) {
	for _, i := range f.step {
		i.Withdrawn = true
		changes = append(changes, Change{Do: Withdraw, Item: i})
	}
	f.open, f.step = nil, nil
	return changes
}

// call begins or ends a call. A call that is closed without having run has one event, or two.
func (f *Fold) call(e turn.Event) []Change {
	var c turn.CallEvent
	if json.Unmarshal(e.Data, &c) != nil {
		return nil
	}
	changes := f.endText()
	i, ok := f.calls[c.CallID]
	if !ok {
		i = f.item(Call, e.Step)
		i.Call = c
		if f.calls == nil {
			f.calls = map[string]*Item{}
		}
		f.calls[c.CallID] = i
		changes = append(changes, f.begin(i))
	}
	if e.Kind == turn.EventToolCallStarted {
		return changes
	}
	begun := i.Call
	i.Call = c
	i.Call.Arguments, i.Call.ArgumentsBytes = begun.Arguments, begun.ArgumentsBytes
	delete(f.calls, c.CallID)
	return append(changes, Change{Do: End, Item: i})
}

// progress reports the progress of a call.
func (f *Fold) progress(e turn.Event) []Change {
	var p turn.ProgressEvent
	if json.Unmarshal(e.Data, &p) != nil || f.calls[p.CallID] == nil {
		return nil
	}
	return []Change{{Do: Extend, Item: f.calls[p.CallID], Progress: &p}}
}

// request begins or ends a request.
func (f *Fold) request(e turn.Event) []Change {
	var r turn.Request
	if json.Unmarshal(e.Data, &r) != nil {
		return nil
	}
	changes := f.endText()
	i, ok := f.asked[r.ID]
	if !ok {
		i = f.item(Request, e.Step)
		i.Request = r
		if f.asked == nil {
			f.asked = map[string]*Item{}
		}
		f.asked[r.ID] = i
		changes = append(changes, f.begin(i))
	}
	if r.Decision == nil {
		return changes
	}
	i.Request.Decision = r.Decision
	delete(f.asked, r.ID)
	return append(changes, Change{Do: End, Item: i})
}

// Waiting reports whether the turn waits for a decision.
func (f *Fold) Waiting() bool { return len(f.asked) > 0 }

// finish ends what is open, and the turn.
func (f *Fold) finish(e turn.Event) []Change {
	changes := f.endText()
	var done turn.DoneEvent
	_ = json.Unmarshal(e.Data, &done) // the turn has ended in any case
	return append(changes, Change{Do: Finish, Done: done})
}
