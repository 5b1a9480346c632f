package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/everturn/everturn/starter/internal/ui/chat"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// view shows a turn's chunks: the text as it streams if stdout is a terminal, and the activity on stderr if stderr is
// one; or every chunk as a line of JSON.
type view struct {
	app    *app
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

func newView(a *app, o followOptions) *view {
	text := o.output == "text"
	return &view{app: a, out: o, live: text && !o.quiet && isTerminal(a.out), chatty: text && !o.quiet && isTerminal(a.err)}
}

func (v *view) chunk(c turn.Chunk) {
	if v.out.output == "jsonl" {
		if err := writeJSON(v.app.out, event{Version: workflows.WireVersion, Chunk: c}); err != nil {
			v.app.note("writing a chunk: %v", err)
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
			v.activity("the inference was interrupted and starts again; its text so far is withdrawn")
		}
	case turn.ChunkToolCallStarted, turn.ChunkToolCallCompleted:
		v.tool(c)
	case turn.ChunkToolProgress:
		v.progress(c)
	case turn.ChunkToolCallLateResult:
		v.resolved(c)
	case turn.ChunkMessageAdded:
		v.joined(c)
	case turn.ChunkApprovalRequested, turn.ChunkQuestionAsked, turn.ChunkApprovalDecided, turn.ChunkQuestionAnswered:
		v.people(c)
	case turn.ChunkError:
		v.failed(c)
	}
}

// failed shows an attempt that failed and will be repeated. The end of the turn shows a final failure.
func (v *view) failed(c turn.Chunk) {
	var e turn.ErrorChunk
	if decode(c, &e) && !e.Final {
		v.activity("%s; it is tried again", strings.TrimSuffix(line(c.Text, 300), "."))
	}
}

func (v *view) joined(c turn.Chunk) {
	var m turn.MessageChunk
	if decode(c, &m) {
		v.activity("» %s", excerpt(m.Text, 120, m.TextBytes))
	}
}

// people prints a line about a request and its decision.
func (v *view) people(c turn.Chunk) {
	var p turn.RequestChunk
	if !decode(c, &p) {
		return
	}
	what := "the question"
	switch {
	case p.Kind == turn.RequestApproval:
		what = p.Tool
	case p.Kind == turn.RequestElicitation:
		what = "the question of " + form.Asker(p.Request)
	}
	switch {
	case p.Decision != nil:
		v.activity("! %s %s: %s", p.ID, what, ruling(*p.Decision))
	case p.Kind == turn.RequestApproval:
		v.activity("? %s %s waits for approval", p.ID, what)
	case p.Kind == turn.RequestElicitation:
		v.activity("? %s %s asks: %s", p.ID, form.Asker(p.Request), excerpt(form.InquiryOf(p.Request).Message, 120, 0))
	default:
		v.activity("? %s %s", p.ID, excerpt(p.Question, 120, 0))
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
	text := printable(c.Text)
	fmt.Fprint(v.app.out, text)
	if text != "" {
		v.open = !strings.HasSuffix(text, "\n")
	}
}

func (v *view) tool(c turn.Chunk) {
	var call turn.CallChunk
	if !decode(c, &call) {
		return
	}
	if c.Kind == turn.ChunkToolCallStarted {
		v.activity("→ %s %s", call.Tool, excerpt(call.Arguments, 80, call.ArgumentsBytes))
		return
	}
	media := ""
	if v.chatty && v.media != nil {
		media = chat.MediaMarks(v.media(c))
	}
	v.activity("← %s %s, %d bytes, %s%s", call.Tool, chat.Ended(call.Outcome, call.Code), call.SizeBytes, time.Duration(call.DurationMS)*time.Millisecond, media)
}

// activity prints what happens in the turn, only if a user watches.
func (v *view) activity(format string, args ...any) {
	if v.chatty {
		v.pause()
		v.app.aside(format, args...)
	}
}

// pause ends an open line, so that the next output begins on its own line.
func (v *view) pause() {
	v.wipe()
	if v.open {
		fmt.Fprintln(v.app.out)
		v.open = false
	}
}

// end prints the answer unless it was streamed, and how the turn ended if there is no answer.
func (v *view) end(answer string, r workflows.Result) {
	streamed := v.live && v.reader.Text() == answer
	if !streamed && answer != "" {
		v.pause()
		io.WriteString(v.app.out, printable(answer))
		v.open = !strings.HasSuffix(answer, "\n")
	}
	v.pause()
	if r.FinishReason != turn.FinishAnswered && r.Message != "" {
		code := ""
		if r.Code != "" {
			code = " (" + string(r.Code) + ")"
		}
		v.app.note("%s: %s%s", r.FinishReason, r.Message, code)
	}
	if !v.out.quiet {
		v.app.aside("%s", totals(r))
	}
}

// totals returns the line at the end of a turn.
func totals(r workflows.Result) string {
	estimated := ""
	if r.Usage.Estimated {
		estimated = " (estimated)"
	}
	return fmt.Sprintf("session %s · %s · %s · %s in, %d out%s · cost unknown",
		r.Session, plural(r.Steps, "step"), plural(r.ToolCalls, "tool call"), plural(int(r.Usage.InputTokens), "token"), r.Usage.OutputTokens, estimated)
}
