package look

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// Show returns the command that shows a session.
func Show(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show [session]",
		Short: "Show a session: its messages, inferences, tool calls and requests",
		Long: `Show a session: its messages, and the inferences, tool calls and requests of its turns. Without a
session, the last one.

The ledger of a turn lists each inference with its attempts and each tool call with its runs, so it
shows what was interrupted, repeated or left with an unknown outcome. If Temporal and a worker
answer, the messages that wait for the running turn are listed too.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.OnSession(cmd.Context(), args, app.Needs{}, lastOrRunning, func(t *app.TurnClient, session string) error {
				h, err := sessionHistory(cmd.Context(), t, session)
				if err == nil && output == app.OutputJSON {
					return app.WriteJSON(a.Out, h)
				}
				if err == nil {
					h.print(a.Out, a.WithTypedCommands("`everturn approvals` shows how to decide it"))
				}
				return err
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON)
	return cmd
}

// history is a session with everything that the journal has of it.
type history struct {
	Session  client.Session `json:"session"`
	Messages []turn.Message `json:"messages"`
	Turns    []turnHistory  `json:"turns"`
	// Compactions are all compactions of the session. The last one is in effect.
	Compactions []turn.Compaction `json:"compactions,omitempty"`
	Context     *contextUse       `json:"context,omitempty"`
	// SubagentRequests are the open requests of subagents that work for the session.
	SubagentRequests []client.Request `json:"subagent_requests,omitempty"`
	// Waiting are accepted messages that the running turn has not used yet. Only its workflow has them.
	Waiting []turn.UserMessage `json:"waiting,omitempty"`
	Link    string             `json:"link,omitempty"` // set only for a turn that no worker has begun
}

// lastOrRunning returns the session that was used last, or the only running one if the journal has no session yet.
func lastOrRunning(t *app.TurnClient, ctx context.Context) (string, error) {
	session, err := t.Latest(ctx)
	if err == nil {
		return session, nil
	}
	if running, runningErr := t.Running(ctx); runningErr == nil {
		return running, nil
	}
	return "", err
}

// sessionHistory reads a session from the journal. From Temporal it adds what only the running turn's workflow has: the
// messages that wait, or the link if the journal does not have the session yet.
func sessionHistory(ctx context.Context, t *app.TurnClient, session string) (history, error) {
	h, err := readHistory(ctx, t.Journal, session)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return acceptedSession(ctx, t, session)
	case err == nil && !h.Session.LastTurn.State.Terminal():
		h.Waiting = waitingMessages(ctx, t, session)
	}
	return h, err
}

// acceptedSession returns the ID and the link of a session that is not in the journal, because Temporal has accepted
// its first message and no worker has begun the turn. If Temporal has no such session either, it returns an error.
func acceptedSession(ctx context.Context, t *app.TurnClient, session string) (history, error) {
	s, err := t.Find(ctx, session, "")
	if err != nil { // the error that the journal has no such session is clearer
		_, err = app.SessionArg(ctx, t.Journal, []string{session})
	}
	return history{Session: client.Session{ID: session}, Link: s.Link}, err
}

// askWithin bounds how long show waits for Temporal and a worker. Without them it shows what the journal has.
const askWithin = 2 * time.Second

// waitingMessages returns the messages that the running turn has accepted and not used yet. If Temporal or a worker
// does not answer within askWithin, it prints a note and returns nil.
func waitingMessages(ctx context.Context, t *app.TurnClient, session string) []turn.UserMessage {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	err := t.ConnectToTemporal(ctx)
	if err == nil {
		var s workflows.Snapshot
		if s, err = t.Client.Snapshot(ctx, session); err == nil {
			return s.Inbox
		}
	}
	if errors.Is(err, client.ErrVersionLost) {
		t.App.Note("%v", err)
		return nil
	}
	t.App.Aside("messages that wait for the turn are not shown: no worker answers (%v)", err)
	return nil
}

// turnHistory is a turn with its ledger and its requests.
type turnHistory struct {
	Turn client.TurnRecord `json:"turn"`
	// Tools are the patterns to which the turn's message and its skills narrow its tools.
	Tools       []string           `json:"tools,omitempty"`
	Temperature *float64           `json:"temperature,omitempty"`
	Models      []turn.Model       `json:"models,omitempty"` // the turn's model and its fallbacks
	Skills      *turn.SkillsEvent  `json:"skills,omitempty"`
	Inferences  []client.Inference `json:"inferences"`
	Calls       []client.Call      `json:"calls"`
	Requests    []client.Request   `json:"requests,omitempty"`
	Waits       string             `json:"waits,omitempty"` // what the turn's inference waits for; see waitsFor
}

// readHistory reads a session from the journal. The error is client.ErrNotFound if the journal does not have it.
func readHistory(ctx context.Context, j client.Journal, id string) (history, error) {
	session, err := j.Session(ctx, id)
	if err != nil {
		return history{}, err
	}
	h := history{Session: session}
	if h.Session.Usage, err = j.SessionUsage(ctx, id); err != nil {
		return h, err
	}
	if h.Messages, err = j.Messages(ctx, id, 1, session.Head.Seq); err != nil {
		return h, err
	}
	turns, err := j.Turns(ctx, id)
	if err != nil {
		return h, err
	}
	for _, t := range turns {
		th := turnHistory{Turn: t}
		var inferencesErr, callsErr, requestsErr error
		th.Inferences, inferencesErr = j.Inferences(ctx, t.ID)
		th.Calls, callsErr = j.Calls(ctx, t.ID)
		configErr := th.readConfig(ctx, j)
		th.Requests, requestsErr = j.Requests(ctx, t.ID)
		if err := errors.Join(inferencesErr, callsErr, requestsErr, configErr); err != nil {
			return h, err
		}
		if !t.State.Terminal() { // the turn's record has its usage only when it has ended
			if th.Turn.Usage, err = j.TurnUsage(ctx, t.ID); err != nil {
				return h, err
			}
			th.Waits = waitsFor(ctx, j, t.ID)
		}
		h.Turns = append(h.Turns, th)
	}
	if session.PendingRequests > 0 {
		open, err := j.PendingRequests(ctx, id, session.PendingRequests)
		if err != nil {
			return h, err
		}
		h.SubagentRequests = slices.DeleteFunc(open, func(r client.Request) bool { return r.Session == id })
	}
	if h.Compactions, err = j.Compactions(ctx, id); err == nil {
		h.Context, err = readContext(ctx, j, h)
	}
	return h, err
}

// waitsFor returns what the inference of a running turn waits for, such as a fleet limit or a provider, or "" if the
// turn's last event is not such a wait.
func waitsFor(ctx context.Context, j client.Journal, turnID string) string {
	last, err := j.LastEvent(ctx, turnID)
	var w turn.WaitingEvent
	switch {
	case err != nil:
	case last.Kind == turn.EventPhase:
		return last.Text
	case last.Kind == turn.EventInferenceWaiting && json.Unmarshal(last.Data, &w) == nil:
		return ui.Waiting(last.Text, last.At, w)
	}
	return ""
}

// print writes the history as text. hint is appended to each pending request: it says how to decide it.
func (h history) print(w io.Writer, hint string) {
	if h.Link != "" {
		fmt.Fprintf(w, "session %s · accepted; its turn begins when a worker runs\n%s\n", app.Line(h.Session.ID, 80), h.Link)
		return
	}
	fmt.Fprintf(w, "session %s · %s · head %s · %s\n", app.Line(h.Session.ID, 80),
		ui.Count(int(h.Session.Head.Seq), "message"),
		turn.Truncate(h.Session.Head.Hash, 15), ui.Usage(h.Session.Usage))
	h.printContext(w)
	if s := h.Session; s.Parent != "" {
		fmt.Fprintf(w, "\nmessages 1 to %d are shared with %s\n", s.ForkSeq, app.Line(s.Parent, 80))
		for i, m := range h.Messages[:min(s.ForkSeq, int64(len(h.Messages)))] {
			printMessage(w, int64(i+1), m)
		}
	}
	for _, t := range h.Turns {
		t.print(w, h.Messages, hint)
	}
	for _, r := range h.SubagentRequests {
		fmt.Fprintf(w, "\nsubagent %s waits:\n", app.Line(r.Session, 200))
		printRequest(w, r, hint)
	}
	for _, m := range h.Waiting {
		state := "to be merged"
		if m.Queue {
			state = "queued"
		}
		fmt.Fprintf(w, "  » %s: %s\n", state, ui.Excerpt(m.Text, 200, 0))
	}
}

// print writes the turn as text: its settings, its messages, what it waits for or how it ended, its requests and its
// ledger. messages are all messages of the session, and hint is that of history.print.
func (t turnHistory) print(w io.Writer, messages []turn.Message, hint string) {
	r := t.Turn
	fmt.Fprintf(w, "\nturn %s · %s", app.Line(r.ID, 80), r.State)
	if r.State.Terminal() {
		fmt.Fprintf(w, " (%s) · %s", app.Line(string(r.Reason), 40), r.EndedAt.Sub(r.StartedAt).Round(time.Millisecond))
	}
	fmt.Fprintf(w, " · %s\n", ui.Usage(r.Usage))
	printModels(w, t.Models)
	if t.Skills != nil {
		fmt.Fprintf(w, "  %s\n", app.Line(t.Skills.String(), 300))
	}
	if len(t.Tools) > 0 {
		fmt.Fprintf(w, "  only tools: %s\n", app.Line(strings.Join(t.Tools, ", "), 400))
	}
	if t.Temperature != nil {
		fmt.Fprintf(w, "  temperature: %g\n", *t.Temperature)
	}
	for i, m := range messages {
		if m.TurnID == r.ID {
			printMessage(w, int64(i+1), m)
		}
	}
	if events := client.PlanEvents(t.Calls, t.Requests); len(events) > 0 {
		fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(ui.Plan(plan.Fold(events)), "\n", "\n  "))
	}
	if t.Waits != "" {
		fmt.Fprintf(w, "  … %s\n", app.Line(t.Waits, 400))
	}
	if r.Message != "" {
		fmt.Fprintf(w, "  ! %s\n", app.Line(r.Message, 400))
	}
	for _, p := range t.Requests {
		printRequest(w, p, hint)
	}
	fmt.Fprintln(w, "  ledger:")
	for _, i := range t.Inferences {
		state := "settled once"
		if !i.Settled {
			state = "not settled"
		}
		fmt.Fprintf(w, "    step %d  inference %s: %s, %s, %s", i.Key.Step, app.Line(i.Model, 40), state,
			ui.Count(i.Attempt-i.Released, "attempt"), ui.Count(i.Failures, "failure"))
		if i.Settled {
			fmt.Fprint(w, ", ", ui.Usage(i.Completion.Usage))
		}
		fmt.Fprintln(w)
		for _, c := range t.Calls {
			if c.Step == i.Key.Step {
				printCall(w, c)
			}
		}
	}
}

// printMessage prints a message and its tool calls. seq is its number, with which fork and rewind name it; only the
// first line shows it.
func printMessage(w io.Writer, seq int64, m turn.Message) {
	number, role := strconv.FormatInt(seq, 10), string(m.Role)
	if ui.IsNotice(m) {
		role = "notice"
	}
	text := strings.TrimSpace(app.Printable(m.Text))
	if m.Role == turn.RoleTool {
		text = ui.Excerpt(text, 200, 0)
	}
	text = strings.TrimSpace(text + ui.Media(m.Media) + "\n" + ui.CutShort(m))
	if text != "" {
		fmt.Fprintf(w, "%6s  %-9s %s\n", number, role, strings.ReplaceAll(text, "\n", "\n                  "))
		number = ""
	}
	for _, c := range m.ToolCalls {
		fmt.Fprintf(w, "%6s  %-9s → %s %s\n", number, m.Role, app.Line(c.Tool, 80), ui.Excerpt(c.Arguments, 120, 0))
		number = ""
	}
}

// ran returns how often a call was run, such as "ran 2 times". A run that continues a suspended call is not another run
// of the tool. For a repeatable tool the journal does not tell them apart.
func ran(c client.Call) string {
	switch {
	case c.Suspended == 0 || c.Runs < 2:
		return "ran " + ui.Count(c.Runs, "time")
	case c.Repeatable:
		return "ran or continued " + ui.Count(c.Runs, "time")
	}
	return "ran 1 time, continued " + ui.Count(c.Runs-1, "time") + " after an elicitation"
}

// printRequest prints a request and its decision. hint says how to decide a pending one.
func printRequest(w io.Writer, r client.Request, hint string) {
	what := ui.Excerpt(r.Question, 80, 0)
	switch r.Kind {
	case turn.RequestApproval:
		what = app.Line(r.Tool, 60) + " " + ui.Excerpt(r.Arguments, 80, r.ArgumentsBytes)
	case turn.RequestElicitation:
		what = ui.Subject(r.Request)
	}
	status := "pending; " + hint
	if d := r.Decision; d != nil {
		status = app.DecidedAt(*d)
		if d.Response != nil && len(d.Response.Content) > 0 {
			status += " with " + ui.Excerpt(termsafe.Visible(string(d.Response.Content)), 200, 0)
		}
	}
	fmt.Fprintf(w, "  ? %s %s · %s\n", app.Line(r.ID, 80), what, status)
}

// printCall prints a tool call in the ledger of its turn.
func printCall(w io.Writer, c client.Call) {
	outcome := ui.Outcome(c.Outcome, c.Code)
	if outcome == "" {
		outcome = "open"
	}
	fmt.Fprintf(w, "    step %d  call %s %s: %s, %s, %s, %d ms%s\n", c.Step, app.Line(c.Call.ID, 80),
		app.Line(c.Call.Tool, 60),
		outcome, ran(c),
		ui.Count(c.LateCount, "late result"), c.DurationMS, ui.Media(c.Media))
	if strings.HasPrefix(c.Call.Tool, turn.AgentTools) {
		fmt.Fprintf(w, "            its session is %s\n", app.Line(turn.SubagentSession(c.Turn, c.Call.ID), 200))
	}
}
