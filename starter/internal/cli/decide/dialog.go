package decide

import (
	"context"
	"strings"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/workflows/turn"
)

// Dialog asks the user at the terminal for the decision about one request.
type Dialog struct {
	t       *app.TurnClient
	Request journal.RequestRecord
}

// NewDialog returns the dialog about a request.
func NewDialog(t *app.TurnClient, r journal.RequestRecord) *Dialog { return &Dialog{t, r} }

// send sends a decision, and says which it was and which other calls its grant has allowed.
type send func(context.Context) (status string, covered []string, err error)

// Ask shows the request to the user, and returns the function that sends the user's decision. It drops what was typed
// before, so that a key typed earlier cannot approve what was not on the screen. The error is app.ErrInterrupted after
// Ctrl-C in a form, the cause of ctx if ctx has ended, or that of a terminal that is closed.
func (d *Dialog) Ask(ctx context.Context) (send, error) {
	a, r := d.t.App, d.Request
	app.DiscardInput(a.In)
	l := LayoutOf(a.Err)
	l.asked = true
	if r.Kind == turn.RequestApproval {
		return d.askApproval(ctx, a.PagesOf(l.describe(r)))
	}
	a.Note("%s", l.describe(r))
	if r.Kind == turn.RequestElicitation {
		return d.askForm(ctx)
	}
	for {
		text, err := a.Line(ctx, "your answer: ")
		text = strings.TrimSpace(text)
		if err != nil {
			return nil, err
		}
		if text != "" {
			return func(ctx context.Context) (string, []string, error) {
				return "answered", nil, answer(ctx, d.t, r, text)
			}, nil
		}
	}
}

func (d *Dialog) askForm(ctx context.Context) (send, error) {
	response, err := d.t.App.RunForm(ctx, form.NewDialog(form.ElicitationOf(d.Request.Request)))
	return func(ctx context.Context) (string, []string, error) {
		return form.Acted(response), nil, respond(ctx, d.t, d.Request, response)
	}, err
}

// askApproval shows the pages of an approval and asks for the decision. The user must see all of the call before
// allowing it.
func (d *Dialog) askApproval(ctx context.Context, pages *app.Pages) (send, error) {
	a, r := d.t.App, d.Request
	a.Note("%s", pages.Next())
	for {
		prompt := decisionPrompt(r)
		if pages.Left() > 0 {
			prompt = pages.Prompt()
		}
		line, err := a.Line(ctx, prompt)
		if err != nil {
			return nil, err
		}
		made, ok := parseDecision(strings.TrimSpace(line))
		switch {
		case pages.Left() > 0 && (!ok || made.allow):
			a.Note("%s", pages.Next())
		case ok && made.allow && checkArguments(r) != nil:
			a.Note("%v", checkArguments(r))
		case ok && made.always != "" && !r.Grants(made.always):
			a.Note("%s", r.WhyNoGrant())
		case ok:
			return func(ctx context.Context) (string, []string, error) {
				result, err := decide(ctx, d.t, r, made)
				return "", result.Covered, err
			}, nil
		}
	}
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
