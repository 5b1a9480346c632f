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

// closing writes a turn_completed event if the journal has none for the turn, so that every stream ends with one.
func (v *view) closing(r workflows.Result, index int64) error {
	data, err := json.Marshal(turn.DoneChunk{State: r.State, FinishReason: r.FinishReason, Message: r.Message,
		Usage: r.Usage, Steps: r.Steps, ToolCalls: r.ToolCalls})
	if err != nil {
		return fmt.Errorf("encoding the last event: %w", err)
	}
	return app.WriteJSON(v.App.Out, event{Version: workflows.WireVersion, Chunk: turn.Chunk{
		Turn: r.Turn, Index: index, Step: r.Steps, Kind: turn.ChunkTurnCompleted, At: time.Now().UTC(), Data: data,
	}})
}

// event is a chunk as -o jsonl prints it.
type event struct {
	Version int `json:"v"`
	turn.Chunk
}

// view shows a turn's chunks: the text as it streams if stdout is a terminal, and the activity on stderr if stderr is
// one; or every chunk as a line of JSON.
type view struct {
	App    *app.App
	out    followOptions
	live   bool // text streams to stdout, a terminal, which may show more than the answer
	chatty bool // activity is shown on stderr
	// media, if set, returns the content of a call's result that is not text.
	media  func(turn.Chunk) []turn.Media
	reader turn.Reader
	step   int
	open   bool // the cursor is in the middle of a line
	// ticking means that the last line on stderr is a call's progress, which the next output replaces.
	ticking bool
	ticked  time.Time // when progress was shown last, by the chunks' times
}

func newView(a *app.App, o followOptions) *view {
	text := o.output == app.OutputText
	return &view{App: a, out: o, live: text && !o.quiet && app.IsTerminal(a.Out), chatty: text && !o.quiet &&
		app.IsTerminal(a.Err)}
}

func (v *view) chunk(c turn.Chunk) {
	if v.out.output == app.OutputJSONL {
		if err := app.WriteJSON(v.App.Out, event{Version: workflows.WireVersion, Chunk: c}); err != nil {
			v.App.Note("writing a chunk: %v", err)
		}
		return
	}
	withdrawn := v.reader.Add(c)
	switch c.Kind {
	case turn.ChunkTextDelta:
		v.text(c)
	case turn.ChunkAttemptRestarted:
		if withdrawn {
			v.pause()
			v.activity("%s", ui.Withdrawn)
		}
	case turn.ChunkToolCallStarted, turn.ChunkToolCallCompleted:
		v.call(c)
	case turn.ChunkToolProgress:
		v.progress(c)
	case turn.ChunkToolCallLateResult:
		v.call(c)
	case turn.ChunkMessageAdded:
		v.message(c)
	case turn.ChunkApprovalRequested, turn.ChunkQuestionAsked, turn.ChunkApprovalDecided, turn.ChunkQuestionAnswered:
		v.request(c)
	case turn.ChunkError:
		v.retry(c)
	case turn.ChunkInferenceWaiting:
		v.modelWait(c)
	case turn.ChunkModelChanged:
		v.activity("%s", app.Line(c.Text, 300))
	case turn.ChunkCondensed:
		var data turn.CondensedChunk
		if decode(c, &data) {
			v.activity("%s", app.Line(data.String(), 300))
		}
	case turn.ChunkSkillsSelected:
		var data turn.SkillsChunk
		if decode(c, &data) {
			v.activity("%s", app.Line(data.String(), 300))
		}
	case turn.ChunkPlan:
		var p plan.Progress
		if decode(c, &p) {
			v.activity("%s", ui.Plan(p))
		}
	case turn.ChunkPhase:
		if c.Text != "" { // what the inference waits for
			v.activity("%s", app.Line(c.Text, 300))
		}
	}
}

// text streams a chunk of text. A new step begins on a new line.
func (v *view) text(c turn.Chunk) {
	if !v.live {
		return
	}
	v.wipe()
	if c.Step != v.step {
		v.pause()
		v.step = c.Step
	}
	text := app.Printable(c.Text)
	fmt.Fprint(v.App.Out, text)
	if text != "" {
		v.open = !strings.HasSuffix(text, "\n")
	}
}

// activity prints what happens in the turn, only if a user watches.
func (v *view) activity(format string, args ...any) {
	if v.chatty {
		v.pause()
		v.App.Aside(format, args...)
	}
}

// pause ends an open line, so that the next output begins on its own line.
func (v *view) pause() {
	v.wipe()
	if v.open {
		fmt.Fprintln(v.App.Out)
		v.open = false
	}
}

// end prints the answer unless it was streamed, and how the turn ended if there is no answer.
func (v *view) end(answer string, r workflows.Result) {
	streamed := v.live && v.reader.Text() == answer
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

// retry shows an attempt that failed and will be repeated. The end of the turn shows a final failure.
func (v *view) retry(c turn.Chunk) {
	var e turn.ErrorChunk
	if decode(c, &e) && !e.Final {
		v.activity("%s", ui.Failure(c.Text, e.Code))
	}
}

// modelWait shows why the turn waits for its model. A user who watches the answer only is told, too, because nothing
// else happens for a while.
func (v *view) modelWait(c turn.Chunk) {
	var w turn.WaitingChunk
	if !decode(c, &w) || v.out.quiet || v.out.output != app.OutputText {
		return
	}
	v.pause()
	v.App.Aside("%s", ui.Waiting(c.Text, c.At, w))
}

func (v *view) message(c turn.Chunk) {
	var m turn.MessageChunk
	if decode(c, &m) {
		v.activity("» %s", ui.Excerpt(m.Text, 120, m.TextBytes))
	}
}

// request prints a line about a request or its decision.
func (v *view) request(c turn.Chunk) {
	var p turn.RequestChunk
	switch {
	case !decode(c, &p):
	case p.Decision != nil:
		v.activity("%s", ui.Decided(p))
	default:
		v.activity("%s", ui.Requested(p.Request))
	}
}

// call prints a line about a call that has started or ended, or about its late result.
func (v *view) call(c turn.Chunk) {
	var call turn.CallChunk
	switch {
	case !decode(c, &call):
	case c.Kind == turn.ChunkToolCallStarted:
		v.activity("%s", ui.CallStarted(call))
	case c.Kind == turn.ChunkToolCallLateResult:
		v.activity("late result of call %s: %s", call.CallID, ui.CallEnded(call, nil))
	default:
		var media []turn.Media
		if v.chatty && v.media != nil {
			media = v.media(c)
		}
		v.activity("%s", ui.CallEnded(call, media))
	}
}

// decode decodes the data of a chunk.
func decode(c turn.Chunk, into any) bool { return json.Unmarshal(c.Data, into) == nil }
