package cli

import (
	"context"

	"github.com/everturn/everturn/workflows/turn"
	"github.com/spf13/cobra"
)

// sessionFlags are the flags of run and chat that choose the session, and what the command starts on this machine.
type sessionFlags struct {
	session         string
	last, dev, slow bool
}

func (f *sessionFlags) register(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.dev, "dev", false, "start Temporal, its Web UI and a worker on this machine")
	flags.BoolVar(&f.slow, "slow", false, "with --dev and the demo model: answer slowly")
	flags.StringVarP(&f.session, "session", "s", "", "the `ID` of the session to continue or start")
	flags.BoolVarP(&f.last, "continue", "c", false, "continue the last session")
	_ = cmd.RegisterFlagCompletionFunc("session", a.completeSessions(1)) // the flag exists
}

// named reports whether the flags choose a session.
func (f sessionFlags) named() bool { return f.session != "" || f.last }

func (f sessionFlags) check() error {
	switch {
	case f.last && f.session != "":
		return usage("--continue and --session exclude each other: use one of them")
	case f.slow && !f.dev:
		return usage("--slow needs --dev; start another worker with `go run ./worker -slow` instead")
	case f.session == "":
		return nil
	}
	if err := turn.CheckSession(f.session); err != nil {
		return usage("--session: %w", err)
	}
	return nil
}

// needs returns what the flags start on this machine.
func (f sessionFlags) needs(a *app, quiet bool) needs {
	if f.slow {
		a.override("llm.demo_slow", "true")
	}
	return needs{server: f.dev, worker: f.dev, quiet: quiet}
}

// resolve returns the session that the flags choose, or "" for a new one.
func (f sessionFlags) resolve(ctx context.Context, t *turnClient) (string, error) {
	if f.last {
		return lastSession(ctx, t.store)
	}
	return f.session, nil
}
