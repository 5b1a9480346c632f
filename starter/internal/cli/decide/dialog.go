package decide

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/workflows/turn"
)

// Dialog asks the user at the terminal for the decision about one request.
type Dialog struct {
	t       *app.TurnClient
	Request client.Request
}

// NewDialog returns a dialog about the request r.
func NewDialog(t *app.TurnClient, r client.Request) *Dialog { return &Dialog{t, r} }

// sendFunc sends a decision to the turn. status is the decision in one word, and empty for an approval; decided are the
// IDs of the call and of others that the decision's grant has allowed, if it is an approval.
type sendFunc func(context.Context) (status string, decided []string, err error)

// Ask shows the request to the user, asks for the decision, and returns the function that sends it. Ask discards input
// that was typed before, so that it cannot approve a request that was not on the screen yet. The error is
// app.ErrInterrupted after Ctrl-C in a form, the cause of ctx if ctx has ended, or a read error if the terminal is
// closed.
func (d *Dialog) Ask(ctx context.Context) (sendFunc, error) {
	a, r := d.t.App, d.Request
	app.DiscardInput(a.In)
	l := LayoutOf(ctx, a, d.t.Cfg, a.Err)
	l.omitFields = true
	var err error
	if l.quarantined, err = quarantinedTools(ctx, d.t.Journal); err != nil {
		return nil, err
	}
	l.callers = callersOf(ctx, d.t.Journal, []client.Request{r})
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
				return "answered", nil, answer(ctx, d.t, r, client.DecideInput{Text: text})
			}, nil
		}
	}
}

// askForm shows the form of an elicitation and returns the function that sends the user's response.
func (d *Dialog) askForm(ctx context.Context) (sendFunc, error) {
	response, err := d.t.App.RunForm(ctx, form.NewDialog(form.ElicitationOf(d.Request)))
	return func(ctx context.Context) (string, []string, error) {
		return form.Acted(response), nil, answer(ctx, d.t, d.Request, client.DecideInput{Response: &response})
	}, err
}

// askApproval shows the pages of an approval and asks for the decision. The user must see all pages before allowing the
// call, but may deny it at any page.
func (d *Dialog) askApproval(ctx context.Context, pages *app.Pages) (sendFunc, error) {
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
		typed, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		verdict, ok := ui.VerdictOf(typed)
		switch {
		case pages.Left() > 0 && (!ok || verdict.Allow):
			a.Note("%s", pages.Next())
		case ok && verdict.Refused(r) != nil:
			a.Note("%v", verdict.Refused(r))
		case ok:
			in := client.DecideInput{Allow: verdict.Allow, Reason: strings.TrimSpace(reason), Grant: verdict.Grant,
				Covered: true}
			if verdict.Edit {
				in.ChangedPlan, err = edit(a, r)
				if err != nil {
					a.Note("%v", err)
				}
				if in.ChangedPlan == nil { // not changed: ask again
					continue
				}
			}
			return func(ctx context.Context) (string, []string, error) {
				decided, err := decide(ctx, d.t, r, in)
				return "", decided, err
			}, nil
		}
	}
}

// edit opens the plan of the request in the user's editor and returns the changed plan as JSON, or nil if the user did
// not change it.
func edit(a *app.App, r client.Request) (json.RawMessage, error) {
	cmd, changed, err := ui.Editor(r.Arguments)
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Out, a.Err
	if err := cmd.Run(); err != nil {
		_, _ = changed() // it removes the file
		return nil, fmt.Errorf("the plan is not changed: the editor: %w", err)
	}
	return changed()
}

// decisionPrompt returns the prompt with the keys of the verdicts that the request permits.
func decisionPrompt(r turn.Request) string {
	var offered []string
	for _, v := range ui.Verdicts(r) {
		text := fmt.Sprintf("[%s] %s", v.Key, v.Label)
		if !v.Allow {
			text += " (and why)"
		}
		offered = append(offered, text)
	}
	return strings.Join(offered, ", ") + ": "
}
