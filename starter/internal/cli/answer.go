package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/workflows/turn"
)

// answerFlags are the flags with which a user answers a question or an elicitation.
type answerFlags struct {
	fields                  []string
	accept, decline, cancel bool
}

func (a *app) answerCommand() *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use:   "answer [session] [question] [text]",
		Short: "Answer what a turn asks its user, or what the server of a tool asks in the middle of a call",
		Long: `Answer what a turn asks its user, or what the server of a tool asks in the middle of a call. Without a session, the one
that asks something; without a question, the one that is open. starter approve lists what waits.

The text is the last argument, "-" for standard input. A server's form of one field takes it as that field's value, and
every form as a JSON object; otherwise give the fields by name, and those that you leave out take their defaults. On a
terminal, a question without an answer is asked field by field. What you answer goes to the server and is kept in the
journal. Where a server sends you to an address, go there yourself if you trust it, and say with --accept that you did.`,
		Example: `  starter answer "The second one."
  starter answer s-k2j3 q4 - < letter.txt
  starter answer s-k2j3 e2.0.1 --field name=Ann --field age=42
  starter answer s-k2j3 e2.0.1 '{"name":"Ann","age":42}'
  starter answer s-k2j3 --decline`,
		Args:              cobra.MaximumNArgs(3),
		ValidArgsFunction: a.completeQuestions,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, text, err := f.split(cmd.Context(), a, args)
			if err != nil {
				return err
			}
			return a.withTemporal(cmd.Context(), readJournal, func(t *turnClient) error { return t.answerTo(cmd.Context(), names, text, f) })
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.fields, "field", nil, "a field of a server's form, as `name=value`; may be repeated")
	flags.BoolVar(&f.accept, "accept", false, "say yes to a server that asks for no values, or sends you to an address; fields take their defaults")
	flags.BoolVar(&f.decline, "decline", false, "say no to a server")
	flags.BoolVar(&f.cancel, "cancel", false, "say neither yes nor no to a server")
	return cmd
}

// says reports whether the flags contain the answer.
func (f answerFlags) says() bool { return len(f.fields) > 0 || f.accept || f.decline || f.cancel }

// waitID matches the ID of a question (q) or of an elicitation whose call is suspended (e) or held (h).
var waitID = regexp.MustCompile(`^(q[0-9]+|e[0-9]+(\.[0-9]+){2}|h[0-9]+(\.[0-9]+){3})$`)

// split separates the names on the command line from the answer. If there is no answer, the command asks for it on the
// terminal.
func (f answerFlags) split(ctx context.Context, a *app, args []string) (names []string, text string, err error) {
	given := 0
	for _, set := range []bool{f.accept || len(f.fields) > 0, f.decline, f.cancel} {
		if set {
			given++
		}
	}
	last := len(args) - 1
	switch {
	case given > 1:
		return nil, "", usage("--decline and --cancel stand alone: an answer says one thing")
	case f.says() && len(args) > 2:
		return nil, "", usage("the flags are the answer: leave out %q", line(args[last], 40))
	case f.says():
		return args, "", nil
	case len(args) == 0 || len(args) == 2 && waitID.MatchString(args[last]):
		if isTerminal(a.in) && isTerminal(a.err) {
			return args, "", nil
		}
		return nil, "", usage("there is no answer: give it as the last argument, for instance `starter answer s-k2j3 q4 \"Yes.\"`, or see `starter answer --help`")
	}
	text, err = a.prompt(ctx, args[last:])
	return args[:last], strings.TrimSuffix(text, "\n"), err
}

// answerTo answers the named question or elicitation, or the only open one.
func (t *turnClient) answerTo(ctx context.Context, names []string, text string, f answerFlags) error {
	w, err := t.question(ctx, names)
	if err != nil {
		return err
	}
	said := "answered"
	switch {
	case text == "" && !f.says():
		said, err = t.interview(ctx, w)
	case w.Kind == turn.RequestQuestion && f.says():
		return usage("%s is a question of the model, which takes a text: `starter answer %s %s \"...\"`", w.ID, quoted(w.Session), w.ID)
	case w.Kind == turn.RequestQuestion:
		err = t.patiently(func() error { return t.answer(ctx, w, text) })
	default:
		said, err = t.replyWith(ctx, w, text, f)
	}
	if err != nil {
		return err
	}
	t.app.note("%s %s of session %s; follow the turn with `starter attach %s`", said, w.ID, w.Session, quoted(w.Session))
	return nil
}

// replyWith sends the response that the command line gives to an elicitation.
func (t *turnClient) replyWith(ctx context.Context, w journal.RequestRecord, text string, f answerFlags) (string, error) {
	r, err := f.reply(form.InquiryOf(w.Request), text)
	if err != nil {
		return "", usage("nothing was answered: %w; `starter approve %s` shows what is asked", err, quoted(w.Session))
	}
	return form.Acted(r), t.patiently(func() error { return t.reply(ctx, w, r) })
}

func (f answerFlags) reply(q turn.Elicitation, text string) (turn.ElicitationResponse, error) {
	switch {
	case f.decline:
		return turn.ElicitationResponse{Key: q.Key, Action: turn.ElicitationDecline}, nil
	case f.cancel:
		return turn.ElicitationResponse{Key: q.Key, Action: turn.ElicitationCancel}, nil
	}
	var fields []form.Pair
	for _, s := range f.fields {
		p, err := form.PairOf(s)
		if err != nil {
			return turn.ElicitationResponse{}, err
		}
		fields = append(fields, p)
	}
	return form.Accept(q, text, fields)
}

// interview asks the user at the terminal for the answer.
func (t *turnClient) interview(ctx context.Context, w journal.RequestRecord) (string, error) {
	a := t.app
	wide := layoutOf(a.err)
	wide.asked = true
	forgetTyped(a.in)
	a.note("%s", wide.describe(w))
	if w.Kind == turn.RequestQuestion {
		text, err := a.line(ctx, "your answer: ")
		if err == nil && strings.TrimSpace(text) == "" {
			err = usage("nothing was answered: the question stays open")
		}
		if err != nil {
			return "", err
		}
		return "answered", t.patiently(func() error { return t.answer(ctx, w, strings.TrimSpace(text)) })
	}
	r, err := a.fieldByField(ctx, w)
	if err != nil {
		return "", err
	}
	return form.Acted(r), t.patiently(func() error { return t.reply(ctx, w, r) })
}

// fieldByField asks for the fields of an elicitation, one after the other.
func (a *app) fieldByField(ctx context.Context, w journal.RequestRecord) (turn.ElicitationResponse, error) {
	i, _ := form.NewInterview(form.InquiryOf(w.Request)) // describe has reported the error
	for {
		if more := i.Lines(); len(more) > 0 {
			a.note("%s", layoutOf(a.err).barred(strings.Join(more, "\n")))
		}
		text, err := a.line(ctx, i.Prompt()+": ")
		if err != nil {
			return turn.ElicitationResponse{}, fmt.Errorf("reading the answer: %w", err)
		}
		if err := i.Take(text); err != nil {
			a.note("%v", err)
		}
		if r, over := i.Reply(); over {
			return r, nil
		}
	}
}

// completeQuestions offers sessions with open questions and elicitations, then their IDs.
func (a *app) completeQuestions(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var found []cobra.Completion
	a.glance(cmd, func(store journal.Store) {
		session := ""
		if len(args) > 0 {
			session = args[0]
		}
		requests, _ := store.PendingRequests(cmd.Context(), session, offered)
		for _, w := range requests {
			asked := w.Question
			if w.Kind == turn.RequestElicitation {
				asked = form.InquiryOf(w.Request).Message
			}
			offer := cobra.CompletionWithDesc(w.ID, line(asked, 40))
			if len(args) == 0 {
				offer = w.Session
			}
			if w.Kind != turn.RequestApproval && len(args) < 2 && !slices.Contains(found, offer) {
				found = append(found, offer)
			}
		}
	})
	return found, cobra.ShellCompDirectiveNoFileComp
}
