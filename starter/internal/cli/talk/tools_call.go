package talk

import (
	"context"
	"encoding/json"
	"errors"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// ToolsCall returns the command tools call. The command runs a turn in a new session, on a worker in this process, with
// the built-in demo model, which makes the one call and returns its result. So the call passes the same checks as the
// call of any model: policy, approval, ledger, taint and the tool host. The turn has its own task queue, because the
// workers of the configured queue have another model.
func ToolsCall(a *app.App) *cobra.Command {
	o := followOptions{after: -1, stay: true, stopOnLeave: true}
	var arguments string
	var dev bool
	cmd := &cobra.Command{
		Use:   "call <server>/<tool>",
		Short: "Call one tool, as a model would",
		Long: `Call one tool and print its result. The call is a turn in a new session, run by a worker in this
process, so policy, approvals and the journal's ledger apply to it as to the calls of a model. If it
needs approval, the command asks on the terminal, or waits for everturn approve. No model is asked.

The tool is named as everturn tools lists it; mcp/ may be left out. A Go function that a program offers
with package engine runs in that program only: ask its agent to call it instead.

Exit codes: 0 the tool returned a result, 1 the call failed or was denied, 3 usage or configuration,
5 Temporal is unreachable, 124 a timeout.`,
		Example: `  everturn tools call local/list_files --args '{"path":"."}'
  everturn tools call github/get_issue --args '{"number":1}' --dev`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			message, err := callMessage(args[0], arguments)
			if err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			session := "call-" + strings.TrimPrefix(client.NewSessionID(), "s-")
			for _, setting := range []string{"llm.provider=demo", "llm.model=", "llm.base_url=",
				"temporal.task_queue=everturn-" + session} {
				_ = a.Set(setting) // the pairs are well formed
			}
			in := client.SendInput{Session: session, Message: turn.UserMessage{Text: message}}
			return a.WithClient(cmd.Context(), app.Needs{Server: dev, Worker: true, Quiet: o.quiet},
				func(t *app.TurnClient) error { return callTool(cmd.Context(), t, in, o) })
		},
	}
	cmd.Flags().StringVar(&arguments, "args", "{}", "the arguments: a JSON `object`")
	cmd.Flags().BoolVar(&dev, "dev", false, "start Temporal on this machine")
	o.register(a, cmd)
	return cmd
}

// callMessage returns the text of the message that makes the demo model call a tool. tool is <server>/<tool> or
// mcp/<server>/<tool>, and arguments is a JSON object.
func callMessage(tool, arguments string) (string, error) {
	var object map[string]any
	if err := json.Unmarshal([]byte(arguments), &object); err != nil || object == nil {
		return "", app.Usage("--args is not a JSON object: write for example --args '{\"path\":\".\"}' (%v)", err)
	}
	switch strings.Count(tool, "/") {
	case 1:
		if !strings.HasPrefix(tool, "local/") {
			tool = "mcp/" + tool
		}
	case 2:
	default:
		return "", app.Usage("the tool is %q: name it as <server>/<tool>, for example local/list_files; `everturn tools` "+
			"lists the tools", tool)
	}
	return "call " + turn.WireName(tool) + " " + arguments, nil
}

// callTool sends the message, follows the turn, and returns an error if the call did not return a result. It ends the
// turn in any case, because no other worker polls the turn's task queue.
func callTool(ctx context.Context, t *app.TurnClient, in client.SendInput, o followOptions) error {
	defer endTurn(ctx, t, in.Session)
	// A closed terminal sends SIGHUP, which must not kill the program before endTurn. Under nohup it stays ignored.
	if !signal.Ignored(syscall.SIGHUP) {
		hangupCtx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
		ctx = hangupCtx
	}
	in.Limits = &workflows.LimitsRequest{MaxToolCalls: new(1)}
	s, err := t.Send(ctx, in)
	if err != nil {
		return err
	}
	if err := follow(ctx, t, s, o); err != nil {
		return err
	}
	calls, err := t.Journal.Calls(ctx, s.ID)
	if err != nil {
		return err
	}
	if len(calls) != 1 || calls[0].Outcome != turn.OutcomeOK {
		return &app.ExitError{Code: app.ExitFailed}
	}
	return nil
}

// endWithin bounds endTurn.
const endWithin = 5 * time.Second

// endTurn terminates the session's turn if it is still running. It does so even if ctx has ended.
func endTurn(ctx context.Context, t *app.TurnClient, session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	err := t.Client.Terminate(ctx, session)
	if err != nil && !errors.Is(err, client.ErrNotRunning) && !errors.Is(err, client.ErrNotFound) {
		t.App.Note("the turn may still be running: %v; stop it with `everturn stop --force %s`", err, app.Quoted(session))
	}
}
