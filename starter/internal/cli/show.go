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
	"github.com/everturn/everturn/starter/internal/ui/chat"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/workflows/turn"
)

func (a *app) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [session]",
		Short: "Show a session: its messages, and what every step of its turns took",
		Long: `Show a session: its messages, and what every step of its turns took. Without a session, the last one.

Inferences are listed with their attempts and tool calls with their runs: what was interrupted, repeated or left with
an unknown outcome stands here.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := a.lookAt(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			session, err := sessionArg(cmd.Context(), store, args)
			if err != nil {
				return err
			}
			history, err := readHistory(cmd.Context(), store, session)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.out, history)
			}
			history.print(a.out)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// lookAt opens the journal of a command that only reads it.
func (a *app) lookAt(cmd *cobra.Command) (journal.Store, error) {
	loaded, err := a.load()
	if err != nil {
		return nil, err
	}
	return readJournal(cmd.Context(), loaded.Config)
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
	fmt.Fprintf(w, "session %s · %d messages · head %s\n", line(h.Session.ID, 80), h.Session.Head.Seq, turn.Truncate(h.Session.Head.Hash, 15))
	if s := h.Session; s.Parent != "" {
		fmt.Fprintf(w, "\nmessages 1 to %d are those of %s\n", s.ForkSeq, line(s.Parent, 80))
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
		printWait(w, p)
	}
	fmt.Fprintln(w, "  ledger:")
	for _, i := range t.Inferences {
		state := "settled once"
		if !i.Settled {
			state = "not settled"
		}
		fmt.Fprintf(w, "    step %d  inference %s: %s, %s, %s\n", i.Key.Step, line(i.Model, 40), state, plural(i.Attempt, "attempt"), plural(i.Failures, "failure"))
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
	if chat.IsNotice(m) {
		role = "notice"
	}
	text := strings.TrimSpace(printable(m.Text))
	if m.Role == turn.RoleTool {
		text = strings.TrimSpace(excerpt(text, 200, 0) + chat.MediaMarks(m.Media))
	}
	if text != "" {
		fmt.Fprintf(w, "%6s  %-9s %s\n", number, role, strings.ReplaceAll(text, "\n", "\n                  "))
		number = ""
	}
	for _, c := range m.ToolCalls {
		fmt.Fprintf(w, "%6s  %-9s → %s %s\n", number, m.Role, line(c.Tool, 80), excerpt(c.Arguments, 120, 0))
		number = ""
	}
}

func printWait(w io.Writer, p journal.RequestRecord) {
	what := excerpt(p.Question, 80, 0)
	switch {
	case p.Kind == turn.RequestApproval:
		what = line(p.Tool, 60) + " " + excerpt(p.Arguments, 80, p.ArgumentsBytes)
	case p.Kind == turn.RequestElicitation:
		what = form.Asker(p.Request) + " asks: " + excerpt(form.InquiryOf(p.Request).Message, 80, 0)
	}
	came := "waits for a person; `starter approve` says how to decide"
	if p.Decision != nil {
		came = ruling(*p.Decision)
	}
	fmt.Fprintf(w, "  ? %s %s · %s\n", line(p.ID, 80), what, came)
}

func printCall(w io.Writer, c journal.CallRecord) {
	outcome := chat.Ended(c.Outcome, c.Code)
	if outcome == "" {
		outcome = "open"
	}
	fmt.Fprintf(w, "    step %d  call %s %s: %s, %s, %s, %d ms%s\n", c.Step, line(c.Call.ID, 80), line(c.Call.Tool, 60), outcome, ran(c), plural(c.LateCount, "late result"), c.DurationMS,
		chat.MediaMarks(c.Media))
}

// ran says how often a call was begun. A call that continued after its server's elicitation was not begun again; for a
// repeatable tool, the journal does not distinguish the two.
func ran(c journal.CallRecord) string {
	switch {
	case c.Suspended == 0 || c.Runs < 2:
		return "ran " + plural(c.Runs, "time")
	case c.Repeatable:
		return "ran or went on " + plural(c.Runs, "time")
	}
	return "ran 1 time, went on " + plural(c.Runs-1, "time") + " after it had asked"
}

// plural returns a count with its noun, in the singular or the plural.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
