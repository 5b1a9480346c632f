package look

import (
	"context"
	"fmt"
	"io"
	"reflect"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

// Diff returns the command that shows where two sessions diverge.
func Diff(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:               "diff <session> <session>",
		Short:             "Show where two sessions diverge",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteSessions(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithJournal(cmd.Context(), func(j client.Journal) error {
				d, err := compareSessions(cmd.Context(), j, args[0], args[1])
				if err == nil && output == app.OutputJSON {
					return app.WriteJSON(a.Out, d)
				}
				if err == nil {
					d.print(a.Out)
				}
				return err
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON)
	return cmd
}

// difference holds the number of messages that two sessions share, and the messages of each after that.
type difference struct {
	Shared int64      `json:"shared"` // messages 1..Shared are the same in both
	A      transcript `json:"a"`
	B      transcript `json:"b"`
}

// transcript is the part of a session that the other session does not share.
type transcript struct {
	Session  string         `json:"session"`
	Messages []turn.Message `json:"messages"` // from Shared+1 on
	head     turn.Head      // of the whole session
}

// page is the number of messages read and compared at once.
const page = 500

// compareSessions compares the messages of sessions a and b, and returns the number of messages that they share and the
// messages of each after those.
func compareSessions(ctx context.Context, j client.Journal, a, b string) (difference, error) {
	d := difference{A: transcript{Session: a}, B: transcript{Session: b}}
	for _, t := range []*transcript{&d.A, &d.B} {
		if _, err := app.SessionArg(ctx, j, []string{t.Session}); err != nil {
			return d, err
		}
		rec, err := j.Session(ctx, t.Session)
		if err != nil {
			return d, err
		}
		t.head = rec.Head
	}
	for d.Shared < min(d.A.head.Seq, d.B.head.Seq) {
		from := d.Shared + 1
		left, err := j.Messages(ctx, a, from, from+page-1)
		if err != nil {
			return d, err
		}
		right, err := j.Messages(ctx, b, from, from+page-1)
		if err != nil {
			return d, err
		}
		same := commonPrefix(left, right)
		d.Shared += int64(same)
		if same < page {
			break
		}
	}
	var err error
	if d.A.Messages, err = j.Messages(ctx, a, d.Shared+1, d.A.head.Seq); err != nil {
		return d, err
	}
	d.B.Messages, err = j.Messages(ctx, b, d.Shared+1, d.B.head.Seq)
	return d, err
}

// commonPrefix returns the number of leading messages that a and b have in common.
func commonPrefix(a, b []turn.Message) int {
	n := 0
	for n < min(len(a), len(b)) && reflect.DeepEqual(a[n], b[n]) {
		n++
	}
	return n
}

// print writes the difference as text.
func (d difference) print(w io.Writer) {
	fmt.Fprintf(w, "%s shared\n", ui.Count(int(d.Shared), "message"))
	for _, t := range []transcript{d.A, d.B} {
		fmt.Fprintf(w, "\n%s · %s of its own\n", app.Line(t.Session, 80), ui.Count(len(t.Messages), "message"))
		for i, m := range t.Messages {
			printMessage(w, d.Shared+1+int64(i), m)
		}
	}
}
