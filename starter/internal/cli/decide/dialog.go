package decide

import (
	"context"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/workflows/turn"
)

// Dialog asks the user at the terminal, line by line, for the decision about one request.
type Dialog struct {
	t         *app.TurnClient
	Request   journal.RequestRecord
	pages     *app.Pages      // the pages of an approval that are still to be shown
	interview *form.Interview // the interview of an elicitation
}

// NewDialog shows a request to the user. It drops what was typed before, so that a key typed earlier cannot approve
// what was not on the screen.
func NewDialog(t *app.TurnClient, r journal.RequestRecord) *Dialog {
	a, d := t.App, &Dialog{t: t, Request: r}
	app.DiscardInput(a.In)
	l := LayoutOf(a.Err)
	l.asked = true
	if r.Kind == turn.RequestApproval {
		d.pages = a.PagesOf(l.describe(r))
		a.Note("%s", d.pages.Next())
		return d
	}
	if r.Kind == turn.RequestElicitation {
		d.interview, _ = form.NewInterview(form.ElicitationOf(r.Request)) // describe reports the error
	}
	a.Note("%s", l.describe(r))
	return d
}

// Prompt shows details of what is asked for now, and returns the prompt.
func (d *Dialog) Prompt() string {
	switch {
	case d.interview != nil:
		if lines := d.interview.Lines(); len(lines) > 0 {
			d.t.App.Note("%s", LayoutOf(d.t.App.Err).barred(strings.Join(lines, "\n")))
		}
		return d.interview.Prompt() + ": "
	case d.pages == nil:
		return "your answer: "
	case d.pages.Left() > 0:
		return d.pages.Prompt()
	}
	return decisionPrompt(d.Request)
}

// Take takes a line. It returns the function that sends the decision, or nil if the line is not understood or more
// lines are needed.
func (d *Dialog) Take(line string) func(context.Context) error {
	bare := strings.TrimSpace(line)
	switch {
	case d.interview != nil:
		return d.takeField(line)
	case d.pages != nil:
		return d.takeDecision(bare)
	case bare == "":
		return nil
	}
	return func(ctx context.Context) error { return answer(ctx, d.t, d.Request, bare) }
}

// status describes the answer that was given.
func (d *Dialog) status() string {
	if d.interview == nil {
		return "answered"
	}
	response, _ := d.interview.Response()
	return form.Acted(response)
}

func (d *Dialog) takeField(line string) func(context.Context) error {
	if err := d.interview.Take(line); err != nil {
		d.t.App.Note("%v", err)
	}
	response, over := d.interview.Response()
	if !over {
		return nil
	}
	return func(ctx context.Context) error { return respond(ctx, d.t, d.Request, response) }
}

func (d *Dialog) takeDecision(line string) func(context.Context) error {
	r, a := d.Request, d.t.App
	made, ok := parseDecision(line)
	switch {
	case d.pages.Left() > 0 && (!ok || made.allow): // the user must see all of the call before allowing it
		a.Note("%s", d.pages.Next())
		return nil
	case !ok:
		return nil
	}
	if err := checkArguments(r); err != nil && made.allow {
		a.Note("%v", err)
		return nil
	}
	if made.always != "" && !r.Grants(made.always) {
		a.Note("%s", r.WhyNoGrant())
		return nil
	}
	return func(ctx context.Context) error { _, err := decide(ctx, d.t, r, made); return err }
}

// decisionPrompt offers the decisions that the request permits.
func decisionPrompt(r journal.RequestRecord) string {
	if checkArguments(r) != nil {
		return "[n]o (and why): "
	}
	prompt := "[y]es, [n]o (and why)"
	if r.Grants(turn.GrantCall) {
		prompt += ", [a]lways this call"
	}
	if r.Grants(turn.GrantTool) {
		prompt += ", always this [t]ool"
	}
	return prompt + ": "
}

// parseDecision parses the decision about an approval.
func parseDecision(line string) (d decision, ok bool) {
	key, why, _ := strings.Cut(line, " ")
	d.reason = strings.TrimSpace(why)
	switch strings.ToLower(key) {
	case "y", "yes":
		d.allow = true
	case "n", "no":
	case "a", "always":
		d.allow, d.always = true, turn.GrantCall
	case "t", "tool":
		d.allow, d.always = true, turn.GrantTool
	default:
		return d, false
	}
	return d, true
}
