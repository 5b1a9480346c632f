package decide

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/workflows/turn"
)

// answerFlags are the flags with which a user answers a question or an elicitation.
type answerFlags struct {
	fields                  []string
	accept, decline, cancel bool
}

// Answer returns the command that answers questions and elicitations.
func Answer(a *app.App) *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use:   "answer [session] [request] [text]",
		Short: "Answer a model's question or an MCP server's elicitation",
		Long: `Answer a question of the model, or an elicitation: a request by an MCP server in the middle of a
tool call. Without a session and a request, the only pending one. everturn approvals lists them.

The text is the last argument; "-" reads standard input. For a form, give each field with --field,
or the whole answer as a JSON object; fields that you omit take their defaults, and the text alone
is enough for a form of one field. On a terminal, the command asks for an answer that you do not
give, field by field. The server and the journal get the answer. If a server asks you to open an
address, open it yourself if you trust it, then confirm with --accept.`,
		Example: `  everturn answer "The second one."
  everturn answer s-k2j3 q4 - < letter.txt
  everturn answer s-k2j3 e2.0.1 --field name=Ann --field age=42
  everturn answer s-k2j3 e2.0.1 '{"name":"Ann","age":42}'
  everturn answer s-k2j3 --decline`,
		Args:              cobra.MaximumNArgs(3),
		ValidArgsFunction: completeRequests(a, 2, turn.RequestQuestion, turn.RequestElicitation),
		RunE: func(cmd *cobra.Command, args []string) error {
			names, text, err := f.split(cmd.Context(), a, args)
			if err != nil {
				return err
			}
			return a.WithClient(cmd.Context(), app.Needs{Journal: true}, func(t *app.TurnClient) error {
				return answerNamed(cmd.Context(), t,
					names, text, f)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.fields, "field", nil, "a field of the form as `name=value`; may be repeated")
	flags.BoolVar(&f.accept, "accept", false, "accept an elicitation that needs no values; the fields of a form take "+
		"their defaults")
	flags.BoolVar(&f.decline, "decline", false, "decline an elicitation")
	flags.BoolVar(&f.cancel, "cancel", false, "cancel an elicitation without answering")
	return cmd
}

// given reports whether the flags contain the answer.
func (f answerFlags) given() bool { return len(f.fields) > 0 || f.accept || f.decline || f.cancel }

// requestID matches the ID of a question (q) or of an elicitation (e).
var requestID = regexp.MustCompile(`^(q[0-9]+|e[0-9]+(\.[0-9]+){2})$`)

// split separates the arguments into names, which are a session and a request or fewer, and the text of the answer. The
// text is "" if the flags give the answer, or if the command asks for it on the terminal.
func (f answerFlags) split(ctx context.Context, a *app.App, args []string) (names []string, text string, err error) {
	actions := 0 // how many of accept, decline and cancel the flags name
	for _, set := range []bool{f.accept || len(f.fields) > 0, f.decline, f.cancel} {
		if set {
			actions++
		}
	}
	last := len(args) - 1
	switch {
	case actions > 1:
		return nil, "", app.Usage("--accept or --field, --decline and --cancel exclude each other: use one of them")
	case f.given() && len(args) > 2:
		return nil, "", app.Usage("the flags already give the answer: remove %q", app.Line(args[last], 40))
	case f.given():
		return args, "", nil
	case len(args) == 0 || len(args) == 2 && requestID.MatchString(args[last]): // a session and a request, without a text
		if a.OnTerminal() {
			return args, "", nil
		}
		return nil, "", app.Usage("there is no answer: give it as the last argument, for example `everturn answer s-k2j3 q4 " +
			"\"Yes.\"`, or see `everturn answer --help`")
	}
	text, err = a.TextOrInput(ctx, args[last])
	return args[:last], strings.TrimSuffix(text, "\n"), err
}

// answerNamed answers the question or elicitation in names, or the only pending one. Without a text and without flags
// that give the answer, it asks the user.
func answerNamed(ctx context.Context, t *app.TurnClient, names []string, text string, f answerFlags) error {
	r, err := question(ctx, t, names)
	if err != nil {
		return err
	}
	status := "answered"
	switch {
	case text == "" && !f.given():
		status, err = converse(ctx, t, r)
	case r.Kind == turn.RequestQuestion && f.given():
		return app.Usage("%s is a question of the model, which takes a text: `everturn answer %s %s \"...\"`", r.ID,
			app.Quoted(r.Session), r.ID)
	case r.Kind == turn.RequestQuestion:
		err = t.AwaitWorker(ctx, func() error { return answer(ctx, t, r, client.DecideInput{Text: text}) })
	default:
		status, err = respondWith(ctx, t, r, text, f)
	}
	if err != nil {
		return err
	}
	t.App.Note("%s %s of session %s; follow the turn with `everturn attach %s`", status, r.ID, r.Session,
		app.Quoted(r.Session))
	return nil
}

// respondWith sends the response to an elicitation that the text or the flags give. It returns the response in one
// word, such as declined.
func respondWith(ctx context.Context, t *app.TurnClient, r client.Request,
	text string, f answerFlags) (string, error) {
	response, err := f.response(form.ElicitationOf(r), text)
	if err != nil {
		return "", app.Usage("nothing was sent: %w; `everturn approvals %s` shows the request", err, app.Quoted(r.Session))
	}
	return form.Acted(response), t.AwaitWorker(ctx, func() error {
		return answer(ctx, t, r, client.DecideInput{Response: &response})
	})
}

// response returns the response to the elicitation e that the flags or the text give.
func (f answerFlags) response(e turn.Elicitation, text string) (turn.ElicitationResponse, error) {
	switch {
	case f.decline:
		return turn.ElicitationResponse{Key: e.Key, Action: turn.ElicitationDecline}, nil
	case f.cancel:
		return turn.ElicitationResponse{Key: e.Key, Action: turn.ElicitationCancel}, nil
	}
	var fields []form.Pair
	for _, s := range f.fields {
		p, err := form.PairOf(s)
		if err != nil {
			return turn.ElicitationResponse{}, err
		}
		fields = append(fields, p)
	}
	return form.Accept(e, text, fields)
}

// converse asks the user for the answer on the terminal and sends it. It returns the answer's status in one word.
func converse(ctx context.Context, t *app.TurnClient, r client.Request) (status string, err error) {
	if r.Kind == turn.RequestElicitation && !t.App.Draws() {
		return "", app.Usage("the terminal (TERM=dumb) cannot show the form: give the answer on the command line; "+
			"`everturn approvals %s` shows how", app.Quoted(r.Session))
	}
	send, err := NewDialog(t, r).Ask(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the answer: %w", err)
	}
	err = t.AwaitWorker(ctx, func() (err error) { status, _, err = send(ctx); return err })
	return status, err
}
