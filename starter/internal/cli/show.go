package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

func (a *app) showCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show [session]",
		Short: "Show a session: its messages, inferences, tool calls and requests",
		Long: `Show a session: its messages, and the inferences, tool calls and requests of its turns. Without a
session, the last one.

The ledger of a turn lists each inference with its attempts and each tool call with its runs, so it
shows what was interrupted, repeated or left with an unknown outcome.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJournal(cmd.Context(), func(store journal.Store) error {
				session, err := sessionArg(cmd.Context(), store, args)
				if err != nil {
					return err
				}
				history, err := readHistory(cmd.Context(), store, session)
				if err == nil && output == outputJSON {
					return writeJSON(a.out, history)
				}
				if err == nil {
					history.print(a.out)
				}
				return err
			})
		},
	}
	outputFlag(cmd, &output, outputText, outputJSON)
	return cmd
}

// sessionArg returns the named session, or the last one if none is named.
func sessionArg(ctx context.Context, store journal.Store, args []string) (string, error) {
	if len(args) == 0 {
		return lastSession(ctx, store)
	}
	if _, err := store.Session(ctx, args[0]); err != nil {
		if errors.Is(err, journal.ErrNotFound) {
			return "", usage("the journal has no session %q; `starter list` lists them", args[0])
		}
		return "", err
	}
	return args[0], nil
}

// history is a session with everything that the journal has of it.
type history struct {
	Session  journal.SessionRecord `json:"session"`
	Messages []turn.Message        `json:"messages"`
	Turns    []turnHistory         `json:"turns"`
}

type turnHistory struct {
	Turn       journal.TurnRecord      `json:"turn"`
	Inferences []journal.Inference     `json:"inferences"`
	Calls      []journal.CallRecord    `json:"calls"`
	Requests   []journal.RequestRecord `json:"requests,omitempty"`
}

func readHistory(ctx context.Context, store journal.Store, id string) (history, error) {
	session, err := store.Session(ctx, id)
	if err != nil {
		return history{}, err
	}
	h := history{Session: session}
	if h.Messages, err = store.Messages(ctx, id, 1, session.Head.Seq); err != nil {
		return h, err
	}
	turns, err := store.Turns(ctx, id)
	if err != nil {
		return h, err
	}
	for _, t := range turns {
		th := turnHistory{Turn: t}
		var ierr, cerr, werr error
		th.Inferences, ierr = store.Inferences(ctx, t.ID)
		th.Calls, cerr = store.Calls(ctx, t.ID)
		th.Requests, werr = store.Requests(ctx, t.ID)
		if err := errors.Join(ierr, cerr, werr); err != nil {
			return h, err
		}
		h.Turns = append(h.Turns, th)
	}
	return h, nil
}

func (h history) print(w io.Writer) {
	fmt.Fprintf(w, "session %s · %s · head %s\n", line(h.Session.ID, 80), ui.Count(int(h.Session.Head.Seq), "message"),
		turn.Truncate(h.Session.Head.Hash, 15))
	if s := h.Session; s.Parent != "" {
		fmt.Fprintf(w, "\nmessages 1 to %d are shared with %s\n", s.ForkSeq, line(s.Parent, 80))
		for i, m := range h.Messages[:min(s.ForkSeq, int64(len(h.Messages)))] {
			printMessage(w, int64(i+1), m)
		}
	}
	for _, t := range h.Turns {
		t.print(w, h.Messages)
	}
}

func (t turnHistory) print(w io.Writer, messages []turn.Message) {
	r := t.Turn
	fmt.Fprintf(w, "\nturn %s · %s", line(r.ID, 80), r.State)
	if r.State.Terminal() {
		fmt.Fprintf(w, " (%s) · %s", line(string(r.Reason), 40), r.EndedAt.Sub(r.StartedAt).Round(time.Millisecond))
	}
	fmt.Fprintf(w, " · %d tokens\n", r.Usage.Total())
	for i, m := range messages {
		if m.TurnID == r.ID {
			printMessage(w, int64(i+1), m)
		}
	}
	if r.Message != "" {
		fmt.Fprintf(w, "  ! %s\n", line(r.Message, 400))
	}
	for _, p := range t.Requests {
		printRequest(w, p)
	}
	fmt.Fprintln(w, "  ledger:")
	for _, i := range t.Inferences {
		state := "settled once"
		if !i.Settled {
			state = "not settled"
		}
		fmt.Fprintf(w, "    step %d  inference %s: %s, %s, %s\n", i.Key.Step, line(i.Model, 40), state,
			ui.Count(i.Attempt, "attempt"), ui.Count(i.Failures, "failure"))
		for _, c := range t.Calls {
			if c.Step == i.Key.Step {
				printCall(w, c)
			}
		}
	}
}

// printMessage prints a message with its number, which fork and rewind take.
func printMessage(w io.Writer, seq int64, m turn.Message) {
	number, role := strconv.FormatInt(seq, 10), string(m.Role)
	if ui.IsNotice(m) {
		role = "notice"
	}
	text := strings.TrimSpace(printable(m.Text))
	if m.Role == turn.RoleTool {
		text = strings.TrimSpace(ui.Excerpt(text, 200, 0) + ui.Media(m.Media))
	}
	if text != "" {
		fmt.Fprintf(w, "%6s  %-9s %s\n", number, role, strings.ReplaceAll(text, "\n", "\n                  "))
		number = ""
	}
	for _, c := range m.ToolCalls {
		fmt.Fprintf(w, "%6s  %-9s → %s %s\n", number, m.Role, line(c.Tool, 80), ui.Excerpt(c.Arguments, 120, 0))
		number = ""
	}
}

// ran says how often a call was started. A call that continued after an elicitation was not started again; for a
// repeatable tool, the journal does not distinguish the two.
func ran(c journal.CallRecord) string {
	switch {
	case c.Suspended == 0 || c.Runs < 2:
		return "ran " + ui.Count(c.Runs, "time")
	case c.Repeatable:
		return "ran or continued " + ui.Count(c.Runs, "time")
	}
	return "ran 1 time, continued " + ui.Count(c.Runs-1, "time") + " after an elicitation"
}

func printRequest(w io.Writer, r journal.RequestRecord) {
	what := ui.Excerpt(r.Question, 80, 0)
	switch r.Kind {
	case turn.RequestApproval:
		what = line(r.Tool, 60) + " " + ui.Excerpt(r.Arguments, 80, r.ArgumentsBytes)
	case turn.RequestElicitation:
		what = ui.Subject(r.Request)
	}
	status := "pending; `starter approvals` shows how to decide it"
	if d := r.Decision; d != nil {
		status = decidedAt(*d)
		if d.Response != nil && len(d.Response.Content) > 0 {
			status += " with " + ui.Excerpt(termsafe.Visible(string(d.Response.Content)), 200, 0)
		}
	}
	fmt.Fprintf(w, "  ? %s %s · %s\n", line(r.ID, 80), what, status)
}

func printCall(w io.Writer, c journal.CallRecord) {
	outcome := ui.Outcome(c.Outcome, c.Code)
	if outcome == "" {
		outcome = "open"
	}
	fmt.Fprintf(w, "    step %d  call %s %s: %s, %s, %s, %d ms%s\n", c.Step, line(c.Call.ID, 80), line(c.Call.Tool, 60),
		outcome, ran(c),
		ui.Count(c.LateCount, "late result"), c.DurationMS, ui.Media(c.Media))
}
