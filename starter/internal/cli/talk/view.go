package talk

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// closing writes a turn_completed event with the given index, made from the turn's result. It is for a turn without
// this event in the journal, so that every stream of -o jsonl ends with it.
func (v *view) closing(r workflows.Result, index int64) error {
	data, err := json.Marshal(turn.DoneEvent{State: r.State, FinishReason: r.FinishReason, Message: r.Message,
		Usage: r.Usage, Steps: r.Steps, ToolCalls: r.ToolCalls})
	if err != nil {
		return fmt.Errorf("encoding the last event: %w", err)
	}
	return app.WriteJSON(v.App.Out, event{Version: workflows.WireVersion, Event: turn.Event{
		Turn: r.Turn, Index: index, Step: r.Steps, Kind: turn.EventTurnCompleted, At: time.Now().UTC(), Data: data,
	}})
}

// event is an event as -o jsonl prints it.
type event struct {
	Version int `json:"v"`
	turn.Event
}

// view shows a turn's events: with -o jsonl, each event as a line of JSON; otherwise the model's text as it streams, if
// stdout is a terminal, and the activity of the turn, if stderr is a terminal.
type view struct {
	App          *app.App
	out          followOptions
	streams      bool // the model's text is written to stdout as it streams, including text that is not the answer
	showActivity bool // activity is shown on stderr
	// media, if set, returns the content of a call's result that is not text.
	media  func(turn.Event) []turn.Media
	calls  map[string]turn.CallEvent // the running calls
	reader turn.Reader
	step   int  // the step of the latest text
	open   bool // the cursor of stdout is in the middle of a line
	// progressShown means that the last line on stderr is a call's progress, which the next output replaces.
	progressShown bool
	progressAt    time.Time // the time of the last progress event that was shown, with TERM=dumb
	changed       bool      // the turn has changed files of the session's tree
}

// newView returns a view for the flags of a command.
func newView(a *app.App, o followOptions) *view {
	text := o.output == app.OutputText
	return &view{App: a, out: o, calls: map[string]turn.CallEvent{}, streams: text && !o.quiet && app.IsTerminal(a.Out),
		showActivity: text && !o.quiet &&
			app.IsTerminal(a.Err)}
}

// event shows an event.
func (v *view) event(e turn.Event) {
	if v.out.output == app.OutputJSONL {
		if err := app.WriteJSON(v.App.Out, event{Version: workflows.WireVersion, Event: e}); err != nil {
			v.App.Note("writing an event: %v", err)
		}
		return
	}
	withdrawn := v.reader.Add(e)
	switch e.Kind {
	case turn.EventTextDelta:
		v.text(e)
	case turn.EventAttemptRestarted:
		if withdrawn {
			v.pause()
			v.activity("%s", ui.Withdrawn)
		}
	case turn.EventToolCallStarted, turn.EventToolCallCompleted:
		v.call(e)
	case turn.EventToolProgress:
		v.progress(e)
	case turn.EventToolCallLateResult:
		v.call(e)
	case turn.EventMessageAdded:
		v.message(e)
	case turn.EventApprovalRequested, turn.EventQuestionAsked, turn.EventApprovalDecided, turn.EventQuestionAnswered:
		v.request(e)
	case turn.EventError:
		v.retry(e)
	case turn.EventInferenceWaiting:
		v.modelWait(e)
	case turn.EventWorkspaceCommitted:
		v.changed = true
	case turn.EventPlan:
		var p plan.Progress
		if decode(e, &p) {
			v.activity("%s", ui.Plan(p))
		}
	default:
		if line := e.Line(); line != "" {
			v.activity("%s", app.Line(line, 300))
		}
	}
}

// text writes a piece of the model's text to stdout. The text of another step begins on a new line.
func (v *view) text(e turn.Event) {
	if !v.streams {
		return
	}
	v.eraseProgress()
	if e.Step != v.step {
		v.pause()
		v.step = e.Step
	}
	text := app.Printable(e.Text)
	fmt.Fprint(v.App.Out, text)
	if text != "" {
		v.open = !strings.HasSuffix(text, "\n")
	}
}

// activity prints a line about the turn's activity on stderr, if showActivity is set.
func (v *view) activity(format string, args ...any) {
	if v.showActivity {
		v.pause()
		v.App.Aside(format, args...)
	}
}

// pause erases progress and ends an open line of text, so that the next output begins on its own line.
func (v *view) pause() {
	v.eraseProgress()
	if v.open {
		fmt.Fprintln(v.App.Out)
		v.open = false
	}
}

// end prints the answer, unless it was streamed, then how the turn ended, if it was not answered, and the turn's
// totals.
func (v *view) end(answer string, r workflows.Result) {
	streamed := v.streams && v.reader.Text() == answer
	if !streamed && answer != "" {
		v.pause()
		io.WriteString(v.App.Out, app.Printable(answer))
		v.open = !strings.HasSuffix(answer, "\n")
	}
	v.pause()
	if r.FinishReason != turn.FinishAnswered && r.Message != "" {
		code := ""
		if r.Code != "" {
			code = " (" + string(r.Code) + ")"
		}
		v.App.Note("%s: %s%s", r.FinishReason, r.Message, code)
	}
	if !v.out.quiet {
		v.App.Aside("session %s · %s", r.Session, ui.Totals(r.Steps, r.ToolCalls, r.Usage))
	}
}

// retry shows the error of an attempt that will be repeated. A final error is shown at the end of the turn.
func (v *view) retry(ev turn.Event) {
	var e turn.ErrorEvent
	if decode(ev, &e) && !e.Final {
		v.activity("%s", ui.Failure(ev.Text, e.Code))
	}
}

// modelWait shows why the turn waits for its model. It does so even if stderr is not a terminal, because nothing else
// is shown for a while.
func (v *view) modelWait(e turn.Event) {
	var w turn.WaitingEvent
	if !decode(e, &w) || v.out.quiet || v.out.output != app.OutputText {
		return
	}
	v.pause()
	v.App.Aside("%s", ui.Waiting(e.Text, e.At, w))
}

// message prints a line about a message that was merged into the turn.
func (v *view) message(e turn.Event) {
	var m turn.MessageEvent
	if decode(e, &m) {
		v.activity("» %s", ui.Excerpt(m.Text, 120, m.TextBytes))
	}
}

// request prints a line about a request or its decision.
func (v *view) request(e turn.Event) {
	var p turn.Request
	switch {
	case !decode(e, &p):
	case p.Decision != nil:
		v.activity("%s", ui.Decided(p))
	default:
		v.activity("%s", ui.Requested(p))
	}
}

// call prints a line about a call that has started or ended, or about its late result.
func (v *view) call(e turn.Event) {
	var call turn.CallEvent
	switch {
	case !decode(e, &call):
	case e.Kind == turn.EventToolCallStarted:
		v.calls[call.CallID] = call
		v.activity("%s", ui.CallStarted(call))
	case e.Kind == turn.EventToolCallLateResult:
		v.activity("late result of call %s: %s", call.CallID, ui.CallEnded(call, nil))
	default:
		if begun, ok := v.calls[call.CallID]; ok { // the event of the result does not have the arguments
			call.Arguments, call.ArgumentsBytes = begun.Arguments, begun.ArgumentsBytes
			delete(v.calls, call.CallID)
		}
		var media []turn.Media
		if v.showActivity && v.media != nil {
			media = v.media(e)
		}
		v.activity("%s", ui.CallEnded(call, media))
	}
}

// decode decodes the data of an event into a value, and reports whether that succeeded.
func decode(e turn.Event, into any) bool { return json.Unmarshal(e.Data, into) == nil }
