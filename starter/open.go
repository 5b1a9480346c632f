package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/cli/browser"
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

func (a *app) openCommand() *cobra.Command {
	var browsed bool
	cmd := &cobra.Command{
		Use:               "open [session]",
		Short:             "Print the Web UI's link to a session's turns, and open it with --browser",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args, browsed)
		},
	}
	cmd.Flags().BoolVar(&browsed, "browser", false, "open it in a browser too, where this is a terminal")
	return cmd
}

func (a *app) open(ctx context.Context, args []string, browsed bool) error {
	cfg, err := a.settled(ctx)
	if err != nil {
		return err
	}
	session := ""
	if len(args) > 0 {
		if session = args[0]; turn.CheckSession(session) != nil {
			return usage("%w", turn.CheckSession(session))
		}
		if err := a.known(ctx, cfg, session); err != nil {
			return err
		}
	} else {
		store, err := readJournal(ctx, cfg)
		if err != nil {
			return err
		}
		session, err = lastSession(ctx, store)
		store.Close()
		if err != nil {
			return err
		}
	}
	link := sessionLink(cfg.Temporal, workflows.WorkflowID(cfg.Tenant, session))
	fmt.Fprintln(a.out, link)
	if browsed && isTerminal(a.out) {
		return browse(link)
	}
	return nil
}

// known returns an error unless the session exists in the journal or in Temporal, which may have it first. If Temporal
// is unreachable, known cannot check and returns nil.
func (a *app) known(ctx context.Context, cfg config.Config, session string) error {
	if engine.HasJournal(cfg) {
		store, err := openJournal(ctx, cfg)
		if err != nil {
			return err
		}
		_, err = store.Session(ctx, session)
		store.Close()
		if err == nil || !errors.Is(err, journal.ErrNotFound) {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	c, err := a.reach(ctx, cfg)
	if errors.Is(err, config.ErrInvalid) {
		return err
	}
	if err != nil {
		return nil
	}
	defer c.Close()
	if _, err := client.New(c, client.Options{Tenant: cfg.Tenant}).Find(ctx, session, ""); errors.Is(err, client.ErrNotFound) {
		return usage("neither the journal nor Temporal knows a session %q; `starter list` lists what the journal has", session)
	}
	return nil
}

// quotedValue quotes a string for Temporal's list filters, in which a backslash escapes a quote.
func quotedValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// sessionLink returns the link to a list of the session's turns.
func sessionLink(c config.Temporal, workflowID string) string {
	query := "WorkflowId=" + quotedValue(workflowID)
	return webUI(c) + "/workflows?query=" + url.QueryEscape(query)
}

// browse opens a link in the user's browser.
func browse(link string) error {
	browser.Stdout = io.Discard // this command prints only the link
	if err := browser.OpenURL(link); err != nil {
		return usage("opening a browser: %w; open the link yourself", err)
	}
	return nil
}
