package cli

import (
	"context"
	"errors"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
)

// connectChecked connects to Temporal, and refuses a development server that belongs to another folder: its workers
// write to a different journal, so this command would not see the turns it starts, and a turn of the same name there is
// a different turn. If the server does not tell its owner, reach cannot check and accepts it.
func (a *app) connectChecked(ctx context.Context, cfg config.Config) (temporalconn.Conn, error) {
	c, err := a.dial(ctx, cfg)
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

// withClient starts what n asks for on this machine, and calls do with a client for turns.
func (a *app) withClient(ctx context.Context, n needs, do func(*turnClient) error) error {
	loaded, err := a.load()
	if err != nil {
		return err
	}
	stack, cfg, err := a.startStack(ctx, loaded.Config, n)
	if err != nil {
		return err
	}
	defer stack.close()
	t := &turnClient{app: a, cfg: cfg, failed: stack.failed(), closeConn: func() {}}
	defer func() { t.closeConn() }()
	open := openJournal
	if n.journal {
		open = readJournal
		if err := checkJournalExists(cfg); err != nil {
			return err
		}
	}
	if !n.offline { // before the journal, which a command that cannot reach Temporal does not create
		if err := t.connectToTemporal(ctx); err != nil {
			return err
		}
	}
	if t.store, err = open(ctx, cfg); err != nil {
		return err
	}
	defer t.store.Close()
	t.connect(t.conn)
	return do(t)
}

// onSession calls do with the named session, or with the one that find returns if none is named. Temporal may be
// unreachable; in that case the client's methods return the error.
func (a *app) onSession(ctx context.Context, args []string, n needs,
	find func(*turnClient, context.Context) (string, error),
	do func(*turnClient, string) error) error {
	n.journal, n.offline = true, true
	return a.withClient(ctx, n, func(t *turnClient) (err error) {
		session := ""
		if len(args) > 0 {
			session = args[0]
		} else if session, err = find(t, ctx); err != nil {
			return err
		}
		return do(t, session)
	})
}

// connectToTemporal connects to Temporal. If the client is already connected, call does nothing.
func (t *turnClient) connectToTemporal(ctx context.Context) error {
	if t.online {
		return nil
	}
	c, err := t.app.connectChecked(ctx, t.cfg)
	if err != nil {
		return err
	}
	t.connect(c)
	t.closeConn = c.Close
	return nil
}
