package app

import (
	"context"
	"errors"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
)

// connectChecked connects to Temporal. It returns an error for a development server that belongs to another folder:
// that server's workers write to a different journal, so this command would not see the turns that it starts, and a
// session of the same name there is another session. It accepts a server whose owner is not recorded or cannot be read.
func (a *App) connectChecked(ctx context.Context, cfg config.Config) (temporalconn.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	c, err := a.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := temporalconn.CheckOwner(ctx, c, cfg.Temporal.Address, cfg.Temporal.Namespace,
		cfg.Journal.Path); errors.Is(err, config.ErrInvalid) {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connectWithin is how long a command waits for Temporal.
const connectWithin = 8 * time.Second

// WithClient loads the configuration, starts the processes that n requires, connects to the journal and to Temporal
// (for OnSession, only to the journal), and calls do with a client for turns. It closes everything after do has
// returned.
func (a *App) WithClient(ctx context.Context, n Needs, do func(*TurnClient) error) error {
	loaded, err := a.Load()
	if err != nil {
		return err
	}
	if err := checkModel(loaded.Config, n.Model, n.Worker); err != nil {
		return err
	}
	stack, cfg, err := a.StartStack(ctx, loaded.Config, n)
	if err != nil {
		return err
	}
	defer stack.Close()
	t := &TurnClient{App: a, Cfg: cfg, Failed: stack.Failed(), quiet: n.Quiet, closeConn: func() {}}
	defer func() { t.closeConn() }()
	open := OpenJournal
	if n.Journal {
		open = ReadJournal
		if err := checkJournalExists(cfg); err != nil { // checked before the connection, which may take time
			return err
		}
	}
	if !n.offline { // before the journal, so that a command that cannot reach Temporal does not create one
		if err := t.ConnectToTemporal(ctx); err != nil {
			return err
		}
	}
	if t.Journal, err = open(ctx, cfg); err != nil {
		return err
	}
	defer t.Journal.Close()
	t.connect(t.conn) // again, with the journal
	return do(t)
}

// OnSession calls do with a client and a session: the session in args or, if args is empty, the one that find returns.
// The journal must exist. OnSession does not connect to Temporal; do can call ConnectToTemporal.
func (a *App) OnSession(ctx context.Context, args []string, n Needs,
	find func(*TurnClient, context.Context) (string, error),
	do func(*TurnClient, string) error) error {
	n.Journal, n.offline = true, true
	return a.WithClient(ctx, n, func(t *TurnClient) (err error) {
		var session string
		if len(args) > 0 {
			session = args[0]
		} else if session, err = find(t, ctx); err != nil {
			return err
		}
		return do(t, session)
	})
}

// ConnectToTemporal connects the client to Temporal. It does nothing if the client is already connected.
func (t *TurnClient) ConnectToTemporal(ctx context.Context) error {
	if t.Online {
		return nil
	}
	c, err := t.App.connectChecked(ctx, t.Cfg)
	if err != nil {
		return err
	}
	t.connect(c)
	t.closeConn = c.Close
	return nil
}
