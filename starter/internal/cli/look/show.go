package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows"
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
					printHistory(a.Out, h, a.WithTypedCommands("`everturn approvals` shows how to decide it"))
				}
				return err
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON)
	return cmd
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
func sessionHistory(ctx context.Context, t *app.TurnClient, session string) (client.History, error) {
	h, err := client.ReadHistory(ctx, t.Journal, session)
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
func acceptedSession(ctx context.Context, t *app.TurnClient, session string) (client.History, error) {
	s, err := t.Find(ctx, session, "")
	if err != nil { // the error that the journal has no such session is clearer
		_, err = app.SessionArg(ctx, t.Journal, []string{session})
	}
	return client.History{Session: client.Session{ID: session}, Link: s.Link}, err
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

// printHistory writes a history as text. hint is appended to each pending request: it says how to decide it.
func printHistory(w io.Writer, h client.History, hint string) {
	if h.Link != "" {
		fmt.Fprintf(w, "session %s · accepted; its turn begins when a worker runs\n%s\n", app.Line(h.Session.ID, 80), h.Link)
		return
	}
	fmt.Fprintf(w, "session %s · %s · head %s · %s\n", app.Line(h.Session.ID, 80),
		ui.Count(int(h.Session.Head.Seq), "message"),
		turn.Truncate(h.Session.Head.Hash, 15), ui.Usage(h.Session.Usage))
	printContext(w, h)
	if s := h.Session; s.Parent != "" {
		fmt.Fprintf(w, "\nmessages 1 to %d are shared with %s\n", s.ForkSeq, app.Line(s.Parent, 80))
		for i, m := range h.Messages[:min(s.ForkSeq, int64(len(h.Messages)))] {
			printMessage(w, int64(i+1), m)
		}
	}
	for _, t := range h.Turns {
		printTurn(w, t, h.Messages, hint)
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

// printTurn writes a turn as text: its settings, its messages, what it waits for or how it ended, its requests and its
// ledger. messages are all messages of the session, and hint is that of printHistory.
func printTurn(w io.Writer, t client.TurnHistory, messages []turn.Message, hint string) {
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
	printSettings(w, t)
	for i, m := range messages {
		if m.TurnID == r.ID {
			printMessage(w, int64(i+1), m)
		}
	}
	if p := t.Plan; len(p.Steps) > 0 {
		fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(ui.Plan(p), "\n", "\n  "))
	}
	if l := t.Live; l != nil && l.Wait != nil {
		fmt.Fprintf(w, "  … %s\n", app.Line(ui.Waiting(l.Reason, l.At, *l.Wait), 400))
	} else if l != nil && l.Reason != "" {
		fmt.Fprintf(w, "  … %s\n", app.Line(l.Reason, 400))
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
		switch {
		case i.Completion.Plan:
			fmt.Fprintf(w, "    step %d  the plan, without an inference\n", i.Key.Step)
		default:
			fmt.Fprintf(w, "    step %d  inference %s: %s, %s, %s", i.Key.Step, app.Line(i.Model, 40), state,
				ui.Count(i.Attempt-i.Released, "attempt"), ui.Count(i.Failures, "failure"))
			if i.Settled {
				fmt.Fprint(w, ", ", ui.Usage(i.Completion.Usage))
			}
			fmt.Fprintln(w)
		}
		for _, c := range t.Calls {
			if c.Step == i.Key.Step {
				printCall(w, c)
			}
		}
	}
}

// printContext prints the use of the context window and the session's compactions.
func printContext(w io.Writer, h client.History) {
	if c := h.Context; c != nil {
		fmt.Fprintf(w, "context %d %%, compacts at %d %% of %d tokens\n", c.Percent, c.CompactsAt, c.ContextTokens)
	}
	for _, c := range h.Compactions {
		fmt.Fprintf(w, "  at message %d (%s) %s\n", c.At.Seq, c.Reason,
			app.Line(c.Report().String(), 400))
	}
}

// printModels prints the model of a turn, with the reason for the choice, and its fallbacks.
func printModels(w io.Writer, models []turn.Model) {
	for i, m := range models {
		switch i {
		case 0:
			fmt.Fprintf(w, "  model %s:%s · %s", app.Line(m.Provider, 60), app.Line(m.Name, 80), app.Line(m.Why, 120))
		case 1:
			fmt.Fprintf(w, " · fallback %s:%s", app.Line(m.Provider, 60), app.Line(m.Name, 80))
		default:
			fmt.Fprintf(w, ", %s:%s", app.Line(m.Provider, 60), app.Line(m.Name, 80))
		}
	}
	if len(models) > 0 {
		fmt.Fprintln(w)
	}
}

// printSettings prints the settings of a turn's inferences: those that are sent to its model, and how they differ from
// those that were asked for.
func printSettings(w io.Writer, t client.TurnHistory) {
	s := t.ModelSettings
	if len(t.Models) > 0 {
		s = t.Models[0].Settings
	}
	if s.Effort != "" {
		fmt.Fprintf(w, "  effort: %s\n", s.Effort)
	}
	if s.Temperature != nil {
		fmt.Fprintf(w, "  temperature: %g\n", *s.Temperature)
	}
	if len(t.Models) > 0 {
		if line := t.Models[0].Fitted.String(); line != "" {
			fmt.Fprintf(w, "  %s\n", app.Line(line, 400))
		}
	}
}

// printMessage prints a message and its tool calls. seq is its number, with which fork and rewind name it; only the
// first line shows it.
func printMessage(w io.Writer, seq int64, m turn.Message) {
	number, role := strconv.FormatInt(seq, 10), string(m.Role)
	switch {
	case ui.IsNotice(m):
		role = "notice"
	case m.ByPlan():
		role = "plan"
	}
	text := strings.TrimSpace(app.Printable(m.Text))
	if m.Role == turn.RoleTool {
		text = ui.Excerpt(text, 200, 0)
	}
	text = strings.TrimSpace(text + ui.Media(m.Media) + "\n" + ui.CutShortNote(m))
	if text != "" {
		fmt.Fprintf(w, "%6s  %-9s %s\n", number, role, strings.ReplaceAll(text, "\n", "\n                  "))
		number = ""
	}
	for _, c := range m.ToolCalls {
		fmt.Fprintf(w, "%6s  %-9s → %s\n", number, role, ui.CallText(turn.CallEvent{Tool: c.Tool, Arguments: c.Arguments},
			"", 120))
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
	case turn.RequestApproval, turn.RequestResult:
		what = ui.CallText(ui.CallOf(r), "", 80)
	case turn.RequestElicitation:
		what = ui.Subject(r)
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
