package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/starter/internal/ui/terminal"
	"github.com/everturn/everturn/workflows/turn"
)

// layout controls how requests are printed.
type layout struct {
	// columns is the width of the terminal; 0 breaks no lines.
	columns int
	// asked leaves out the list of a form's fields, because the command asks for them one by one.
	asked bool
	// held maps the IDs of quarantined tools to their servers; see heldBack.
	held map[string]string
}

// layoutOf returns the layout for one of the program's streams.
func layoutOf(w any) layout {
	columns, _ := sizeOf(w)
	return layout{columns: columns}
}

// describe prints a request exactly. Text of models and servers stands behind a bar, so that the user cannot take it
// for text of this program.
func (l layout) describe(w journal.RequestRecord) string {
	var b strings.Builder
	b.WriteString(asks(w))
	if !w.ExpiresAt.IsZero() {
		fmt.Fprintf(&b, " · until %s", w.ExpiresAt.Local().Format(time.DateTime))
	}
	if w.Why != "" {
		fmt.Fprintf(&b, "\nbecause %s", line(w.Why, 300))
	}
	if server := l.held[w.Tool]; server != "" {
		b.WriteString("\n" + beware(w, server))
	}
	switch {
	case w.Kind == turn.RequestQuestion:
		b.WriteString("\n" + l.barred(w.Question))
	case w.Kind == turn.RequestElicitation:
		b.WriteString("\n" + l.inquiry(w))
	default:
		fmt.Fprintf(&b, "\nwith these arguments (%s):\n%s", shortHash(w.ArgumentsHash), l.barred(w.Arguments))
	}
	if err := shownWhole(w); err != nil {
		b.WriteString("\nbeware: " + err.Error())
	}
	return b.String()
}

// heldBack returns the quarantined tools: the server of each, by the tool's ID.
func heldBack(ctx context.Context, store journal.Journal) (map[string]string, error) {
	catalogues, err := store.Catalogues(ctx)
	held := map[string]string{}
	for _, c := range catalogues {
		for _, h := range c.Quarantined {
			held[h.Now.ID] = c.Server
		}
	}
	return held, err
}

// beware warns that a decision has no effect, because the tool has changed since the turn received it.
func beware(w journal.RequestRecord, server string) string {
	return fmt.Sprintf("beware: %s has changed and is held back now: this call ends in tool_drift, whatever you say, unless the tool changes back; `starter tools diff %s` shows how",
		terminal.Visible(w.Tool), server)
}

// asks returns a line with the request, its session and its source.
func asks(w journal.RequestRecord) string {
	session, id := terminal.Visible(w.Session), terminal.Visible(w.ID)
	switch {
	case w.Kind == turn.RequestQuestion:
		return fmt.Sprintf("question %s of session %s", id, session)
	case w.Kind == turn.RequestElicitation:
		return fmt.Sprintf("question %s of session %s: %s asks, in the middle of a call%s", id, session, form.Asker(w.Request), middle(w.Request))
	}
	return fmt.Sprintf("approval %s of session %s: %s is to run · risk %s", id, session, terminal.Visible(w.Tool), terminal.Visible(string(w.Risk)))
}

// middle names the tool and the call that an elicitation has interrupted.
func middle(w turn.Request) string {
	out := ""
	if w.Tool != "" {
		out = " of " + line(terminal.Visible(w.Tool), 120)
	}
	if w.Call != "" {
		out += " (" + line(w.Call, 40) + ")"
	}
	return out
}

// inquiry prints an elicitation: the server's message, then the address or the fields of the form.
func (l layout) inquiry(w journal.RequestRecord) string {
	q := form.InquiryOf(w.Request)
	said := l.barred(q.Message)
	if q.URL != "" {
		return said + "\n" + l.address(w, q.URL)
	}
	f, err := form.Parse(q.Schema)
	switch {
	case err != nil:
		return said + fmt.Sprintf("\nits form cannot be shown, and can only be declined: %s", line(err.Error(), 300))
	case l.asked || len(f.Fields) == 0:
		return said + "\n" + form.Keep
	}
	return said + "\nit wants to know:\n" + l.barred(strings.Join(f.Lines(), "\n")) + "\n" + form.Keep
}

// address shows the address to which a server sends the user. It shows the whole link and does not open it.
func (l layout) address(w journal.RequestRecord, raw string) string {
	a := form.AddressOf(raw)
	to := "it sends you to this address"
	if a.Host != "" {
		to += ", which leads to " + a.Host
	}
	out := to + ":\n" + l.barred(a.URL)
	for _, warning := range a.Warnings {
		out += "\nbeware: " + warning
	}
	return out + "\nopen it only if you trust " + form.Asker(w.Request) + " and expect this; what you enter there is between you and that page"
}

// barred shows a text exactly and completely, each line behind a bar.
func (l layout) barred(s string) string {
	return bar + strings.Join(terminal.Rows(terminal.Visible(s), l.within(len("  | "))), "\n"+bar)
}

const bar = "  │ "

// within returns the width that columns leave, or 0 if lines are not broken.
func (l layout) within(columns int) int {
	if l.columns <= 0 {
		return 0
	}
	return max(l.columns-columns, 1)
}

// instructions describes the requests, each with the commands that decide it.
func (l layout) instructions(requests []journal.RequestRecord) string {
	var b strings.Builder
	for _, w := range requests {
		b.WriteString(l.describe(w))
		b.WriteString(commands(w))
	}
	return strings.TrimRight(b.String(), "\n")
}

// commands returns the commands that decide a request.
func commands(w journal.RequestRecord) string {
	s := quoted(w.Session)
	switch w.Kind {
	case turn.RequestQuestion:
		return fmt.Sprintf("\nanswer it with\n  starter answer %s %s \"...\"\n", s, w.ID)
	case turn.RequestElicitation:
		answer := fmt.Sprintf("starter answer %s %s", s, w.ID)
		return fmt.Sprintf("\nanswer it with\n  %s %s\n  %s --decline\n", answer, example(w), answer)
	}
	command := fmt.Sprintf("starter approve %s %s --hash %s", s, w.ID, shortHash(w.ArgumentsHash))
	if shownWhole(w) != nil {
		return fmt.Sprintf("\ndecide with\n  %s --deny --reason \"...\"\n", command)
	}
	return fmt.Sprintf("\ndecide with\n  %s\n  %s --deny --reason \"...\"\n", command, command)
}

// example returns the flags that answer an elicitation, with an ellipsis for each value.
func example(w journal.RequestRecord) string {
	q := form.InquiryOf(w.Request)
	if q.URL != "" {
		return "--accept"
	}
	f, err := form.Parse(q.Schema)
	if err != nil {
		return "--cancel"
	}
	return f.Example(quoted)
}

// shortHash returns the first 12 digits of a hash, enough for a user to copy.
func shortHash(hash string) string { return terminal.Visible(hash[:min(len(hash), 12)]) }
