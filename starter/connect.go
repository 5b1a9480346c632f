package main

import (
	"context"
	"errors"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/cluster"
	"github.com/everturn/everturn/journal"
)

// settled is the configuration with the cluster that it means.
func (a *app) settled(ctx context.Context) (config.Config, error) {
	loaded, err := a.load()
	if err != nil {
		return config.Config{}, err
	}
	_, cfg, err := a.bringUp(ctx, loaded.Config, needs{})
	return cfg, err
}

// reach connects to Temporal, unless it is another folder's development server: what is asked for there another journal
// has, its workers would carry turns on where this command does not see them, and a turn of the same name is another's. Of
// a server that does not tell whose it is nothing can be said.
func (a *app) reach(ctx context.Context, cfg config.Config) (cluster.Conn, error) {
	c, err := a.dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := cluster.CheckOwner(ctx, c, cfg.Temporal.Address, cfg.Temporal.Namespace, cfg.Journal.Path); errors.Is(err, config.ErrInvalid) {
		c.Close()
		return nil, err
	}
	return c, nil
}

// withClient opens what a turn is started and followed with.
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

// withTemporal does something that Temporal has to be there for.
func (a *app) withTemporal(ctx context.Context, open func(context.Context, config.Config) (journal.Store, error), do func(*turnClient) error) error {
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

// onSession does something with a session, the one that is meant where none is named. Temporal may be away unless this
// command is to bring it up: the client of the turns says so.
func (a *app) onSession(ctx context.Context, args []string, n needs, meant func(*turnClient, context.Context) (string, error), do func(context.Context, *turnClient, string) error) error {
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

// call connects to Temporal. A client that is connected stays so.
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
