package cli

import (
	"context"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/workflows/turn"
)

// dialog asks the user at the terminal, line by line, for the decision about one request.
type dialog struct {
	t         *turnClient
	request   journal.RequestRecord
	pages     *pages          // the pages of an approval that are still to be shown
	interview *form.Interview // the interview of an elicitation
}

// newDialog shows a request to the user. It drops what was typed before, so that a key typed earlier cannot approve
// what was not on the screen.
func (t *turnClient) newDialog(r journal.RequestRecord) *dialog {
	a, d := t.app, &dialog{t: t, request: r}
	discardInput(a.in)
	l := layoutOf(a.err)
	l.asked = true
	if r.Kind == turn.RequestApproval {
		d.pages = a.pagesOf(l.describe(r))
		a.note("%s", d.pages.next())
		return d
	}
	if r.Kind == turn.RequestElicitation {
		d.interview, _ = form.NewInterview(form.ElicitationOf(r.Request)) // describe reports the error
	}
	a.note("%s", l.describe(r))
	return d
}

// prompt shows details of what is asked for now, and returns the prompt.
func (d *dialog) prompt() string {
	switch {
	case d.interview != nil:
		if lines := d.interview.Lines(); len(lines) > 0 {
			d.t.app.note("%s", layoutOf(d.t.app.err).barred(strings.Join(lines, "\n")))
		}
		return d.interview.Prompt() + ": "
	case d.pages == nil:
		return "your answer: "
	case d.pages.left() > 0:
		return d.pages.prompt()
	}
	return decisionPrompt(d.request)
}

// take takes a line. It returns the function that sends the decision, or nil if the line is not understood or more
// lines are needed.
func (d *dialog) take(line string) func(context.Context) error {
	bare := strings.TrimSpace(line)
	switch {
	case d.interview != nil:
		return d.takeField(line)
	case d.pages != nil:
		return d.takeDecision(bare)
	case bare == "":
		return nil
	}
	return func(ctx context.Context) error { return d.t.answer(ctx, d.request, bare) }
}

// status describes the answer that was given.
func (d *dialog) status() string {
	if d.interview == nil {
		return "answered"
	}
	response, _ := d.interview.Response()
	return form.Acted(response)
}

func (d *dialog) takeField(line string) func(context.Context) error {
	if err := d.interview.Take(line); err != nil {
		d.t.app.note("%v", err)
	}
	response, over := d.interview.Response()
	if !over {
		return nil
	}
	return func(ctx context.Context) error { return d.t.respond(ctx, d.request, response) }
}

func (d *dialog) takeDecision(line string) func(context.Context) error {
	r, a := d.request, d.t.app
	made, ok := parseDecision(line)
	switch {
	case d.pages.left() > 0 && (!ok || made.allow): // the user must see all of the call before allowing it
		a.note("%s", d.pages.next())
		return nil
	case !ok:
		return nil
	}
	if err := checkArguments(r); err != nil && made.allow {
		a.note("%v", err)
		return nil
	}
	if made.always != "" && !r.Grants(made.always) {
		a.note("%s", r.WhyNoGrant())
		return nil
	}
	return func(ctx context.Context) error { _, err := d.t.decide(ctx, r, made); return err }
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
