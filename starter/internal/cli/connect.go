package cli

import (
	"context"
	"errors"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/cluster"
	"github.com/everturn/everturn/journal"
)

// settled returns the configuration with the address and namespace of its cluster resolved.
func (a *app) settled(ctx context.Context) (config.Config, error) {
	loaded, err := a.load()
	if err != nil {
		return config.Config{}, err
	}
	_, cfg, err := a.bringUp(ctx, loaded.Config, needs{})
	return cfg, err
}

// reach connects to Temporal, and refuses a development server that belongs to another folder: its workers write to a
// different journal, so this command would not see the turns it starts, and a turn of the same name there is a
// different turn. If the server does not tell its owner, reach cannot check and accepts it.
func (a *app) reach(ctx context.Context, cfg config.Config) (cluster.Conn, error) {
	c, err := a.dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := cluster.CheckOwner(ctx, c, cfg.Temporal.Address, cfg.Temporal.Namespace,
		cfg.Journal.Path); errors.Is(err, config.ErrInvalid) {
		c.Close()
		return nil, err
	}
	return c, nil
}

// withClient opens the connection and the journal that starting and following a turn need.
func (a *app) withClient(ctx context.Context, cfg config.Config, stack *local, do func(*turnClient) error) error {
	c, err := a.reach(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	store, err := openJournal(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	return do(a.newTurnClient(c, store, cfg, stack.failed()))
}

// withTemporal calls do with a client that is connected to Temporal.
func (a *app) withTemporal(ctx context.Context, open func(context.Context, config.Config) (journal.Store, error),
	do func(*turnClient) error) error {
	cfg, err := a.settled(ctx)
	if err != nil {
		return err
	}
	store, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	t := a.newTurnClient(nil, store, cfg, nil)
	defer func() { t.hangUp() }()
	if err := t.call(ctx); err != nil {
		return err
	}
	return do(t)
}

// onSession calls do with the named session, or with the one that meant returns if none is named. Temporal may be
// unreachable unless n requires this command to start it; in that case the client's methods return the error.
func (a *app) onSession(ctx context.Context, args []string, n needs, meant func(*turnClient, context.Context) (string,
	error), do func(context.Context, *turnClient, string) error) error {
	loaded, err := a.load()
	if err != nil {
		return err
	}
	stack, cfg, err := a.bringUp(ctx, loaded.Config, n)
	if err != nil {
		return err
	}
	defer stack.close()
	store, err := readJournal(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	t := a.newTurnClient(nil, store, cfg, stack.failed())
	defer func() { t.hangUp() }()
	if len(args) > 0 {
		return do(ctx, t, args[0])
	}
	session, err := meant(t, ctx)
	if err != nil {
		return err
	}
	return do(ctx, t, session)
}

// call connects to Temporal. If the client is already connected, call does nothing.
func (t *turnClient) call(ctx context.Context) error {
	if t.online {
		return nil
	}
	c, err := t.app.reach(ctx, t.cfg)
	if err != nil {
		return err
	}
	t.connect(c)
	t.hangUp = c.Close
	return nil
}
