package talk

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// sessionFlags are the flags of run and chat that choose the session, and what the command starts on this machine.
type sessionFlags struct {
	session, model  string
	agent           string
	last, dev, slow bool
	changes         bool
}

// register adds the flags.
func (f *sessionFlags) register(a *app.App, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.dev, "dev", false, "start Temporal, its Web UI and a worker on this machine")
	flags.BoolVar(&f.slow, "slow", false, "with --dev and the demo model: answer slowly")
	flags.StringVarP(&f.session, "session", "s", "", "the `ID` of the session to continue or start")
	flags.BoolVar(&f.changes, "with-changes", false, "begin the tree of a new session with your changes that are not "+
		"committed")
	modelFlag(cmd, &f.model)
	agentFlag(a, cmd, &f.agent)
	flags.BoolVarP(&f.last, "continue", "c", false, "continue the last session")
	_ = cmd.RegisterFlagCompletionFunc("session", a.CompleteSessions(1)) // the flag exists
}

// named reports whether the flags choose a session.
func (f sessionFlags) named() bool { return f.session != "" || f.last }

// take takes the session from the arguments, of which there is at most one, as --session takes it.
func (f *sessionFlags) take(args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case f.session != "":
		return app.SessionTwice(args[0], f.session)
	}
	f.session = args[0]
	return nil
}

// check returns an error for flags that exclude each other, or for an invalid session ID.
func (f sessionFlags) check() error {
	switch {
	case f.last && f.session != "":
		return app.Usage("--continue and a session exclude each other: use one of them")
	case f.slow && !f.dev:
		return app.Usage("--slow needs --dev; start another worker with `everturn worker --slow` instead")
	case f.session == "":
		return nil
	}
	if err := turn.CheckSession(f.session); err != nil {
		return app.Usage("--session: %w", err)
	}
	return nil
}

// needs returns what the command needs by these flags.
func (f sessionFlags) needs(quiet bool) app.Needs {
	return app.Needs{Server: f.dev, Worker: f.dev, SlowDemo: f.slow, Quiet: quiet, Model: f.model}
}

// resolve returns the session that the flags choose, or "" for a new one.
func (f sessionFlags) resolve(ctx context.Context, t *app.TurnClient) (string, error) {
	if f.last {
		return app.LastSession(ctx, t.Journal)
	}
	return f.session, nil
}

// modelFlag adds the flag that chooses the model of a turn.
func modelFlag(cmd *cobra.Command, model *string) {
	cmd.Flags().StringVarP(model, "model", "m", "", "the `model` of the turn, as a name or provider:name (default: the "+
		"agent's); see everturn models list")
}

// agentFlag adds the flag that chooses the agent of a turn.
func agentFlag(a *app.App, cmd *cobra.Command, agent *string) {
	cmd.Flags().StringVar(agent, "agent", "", "the `agent` of the turn (default: that of the session's last turn); see "+
		"everturn agents list")
	_ = cmd.RegisterFlagCompletionFunc("agent", a.CompleteAgents) // the flag exists
}
