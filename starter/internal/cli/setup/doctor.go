package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// The doctor ends within ten seconds. The context of its checks ends after checkWithin. A check that has no result
// after giveUpAfter fails; the time between the two suffices to stop a tool server that hangs.
const (
	checkWithin = 7 * time.Second
	giveUpAfter = 9 * time.Second
)

// warning is the error of a check that found something to report but no failure.
type warning struct{ text string }

func (w *warning) Error() string { return w.text }

// unchecked returns the warning of a check that cannot run because another check has failed. see is the name of that
// check.
func unchecked(see string) error { return &warning{"not checked: see " + see} }

// check is one check of the doctor. run returns a description of what it found. Its error is a *warning if turns would
// only wait, and otherwise a failure.
type check struct {
	name string
	run  func(ctx context.Context, x *examination) (string, error)
}

// checks are the doctor's checks, in the order in which their findings are shown.
var checks = []check{
	{"journal", checkJournal},
	{"model", checkModel},
	{"limits", checkLimits},
	{"tools", checkTools},
	{"commands", checkCommands},
	{"Temporal", checkTemporal},
	{"worker", checkWorker},
	{"history", checkHistory},
}

// finding is what a check found, as -o json prints it.
type finding struct {
	Check string `json:"check"`
	State string `json:"state"` // ok, warn or fail
	Text  string `json:"text,omitempty"`
	Exit  int    `json:"exit,omitempty"` // the exit code of a failure
}

// Doctor returns the command that checks everything that turns need.
func Doctor(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration, journal, model, limits, MCP servers, Temporal and workers",
		Long: `Check the configuration, journal, model, limits, MCP servers, Temporal and workers, with one line for
each, within ten seconds. The journal is written to. The last line compares the latest turns in
Temporal with the journal, which lacks some of them if it was restored to an earlier moment.

The exit code is that of the first check that fails, or 0. A warning ("warn") does
not change it: turns that it affects wait until its cause is fixed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			show := func(f finding) { fmt.Fprintln(a.Out, f.line(a)) }
			if output != app.OutputText {
				show = func(finding) {}
			}
			found := examine(cmd.Context(), a, loaded.Config, show)
			if output != app.OutputText {
				if err := app.PrintList(a.Out, output, found, nil); err != nil {
					return err
				}
			}
			for _, f := range found {
				if f.Exit != 0 {
					return &app.ExitError{Code: f.Exit}
				}
			}
			return nil
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// examine runs all checks at the same time. It calls show with each finding, in the order of checks, and returns all
// findings.
func examine(ctx context.Context, a *app.App, cfg config.Config, show func(finding)) []finding {
	checkCtx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	x := newExamination(checkCtx, a, cfg)
	checks := slices.DeleteFunc(slices.Clone(checks), func(c check) bool {
		return c.name == "commands" && !cfg.Shell.Enabled
	})
	results := make([]chan finding, len(checks))
	for i, c := range checks {
		results[i] = make(chan finding, 1)
		go func() {
			text, err := c.run(checkCtx, x)
			results[i] <- findingOf(c.name, text, err)
		}()
	}
	all := []finding{{Check: "configuration", State: "ok"}}
	show(all[0])
	giveUpCtx, cancel := context.WithTimeout(ctx, giveUpAfter)
	defer cancel()
	complete := true
	for i, c := range checks {
		f, ok := awaitFinding(giveUpCtx, results[i])
		if !ok {
			f, complete = findingOf(c.name, "", fmt.Errorf("no result within %v", giveUpAfter)), false
		}
		show(f)
		all = append(all, f)
	}
	if complete { // otherwise close would wait for a check that hangs
		x.close()
	}
	return all
}

// awaitFinding waits for a finding until ctx ends; ok is false if there is none. If ctx has ended already, it still
// returns a finding that is there.
func awaitFinding(ctx context.Context, result <-chan finding) (f finding, ok bool) {
	select {
	case f = <-result:
		return f, true
	case <-ctx.Done():
	}
	select { // the first select chooses at random if both are ready
	case f = <-result:
		return f, true
	default:
		return f, false
	}
}

// findingOf returns the finding of a check that returned text and err.
func findingOf(check, text string, err error) finding {
	var warn *warning
	switch {
	case err == nil:
		return finding{Check: check, State: "ok", Text: text}
	case errors.As(err, &warn):
		return finding{Check: check, State: "warn", Text: warn.text}
	}
	return finding{Check: check, State: "fail", Text: err.Error(), Exit: app.ExitCode(err)}
}

// line returns the finding as the text output prints it.
func (f finding) line(a *app.App) string {
	mark := map[string]string{"ok": "ok    ", "warn": "warn  ", "fail": "FAIL  "}[f.State] + f.Check
	switch {
	case f.Text == "":
		return mark
	case f.State == "ok":
		return mark + ": " + app.Line(f.Text, 200)
	}
	return mark + ": " + a.WithTypedCommands(app.Printable(f.Text))
}

// examination is one run of the doctor. Its checks share the journal and the connection to Temporal.
type examination struct {
	app *app.App
	cfg config.Config
	// journal opens the journal, once. It returns nil without an error if there is no journal yet.
	journal func() (client.Journal, error)
	// temporal connects to Temporal, once.
	temporal func() (cluster, error)
}

// cluster is a connection to the configured Temporal cluster.
type cluster struct {
	temporalconn.Conn
	address, namespace string
}

// newExamination returns an examination. ctx bounds the opening of the journal and the connection to Temporal.
func newExamination(ctx context.Context, a *app.App, cfg config.Config) *examination {
	return &examination{app: a, cfg: cfg,
		journal: sync.OnceValues(func() (client.Journal, error) {
			if !client.HasJournal(cfg) {
				return nil, nil //nolint:nilnil // there need not be one
			}
			return app.OpenJournal(ctx, cfg)
		}),
		temporal: sync.OnceValues(func() (c cluster, err error) {
			c.address, c.namespace, err = temporalconn.FromConfig(cfg.Temporal, a.Environ).Resolved()
			if err == nil {
				c.Conn, err = a.Dial(ctx, cfg)
			}
			return c, err
		}),
	}
}

// close closes the journal and the connection to Temporal. All checks must have ended.
func (x *examination) close() {
	if j, _ := x.journal(); j != nil {
		_ = j.Close() // an error changes no finding
	}
	if c, _ := x.temporal(); c.Conn != nil {
		c.Close()
	}
}
