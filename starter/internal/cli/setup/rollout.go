package setup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/rollout"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
)

// Rollout returns the commands for versions of the worker.
func Rollout(a *app.App) *cobra.Command {
	cmd := app.Parent("rollout", "Move turns from one version of the worker to another",
		rolloutStatus(a), rolloutPromote(a), rolloutRamp(a), rolloutRollback(a), rolloutDrain(a))
	cmd.Long = `Move turns from one version of the worker to another. With [worker] deployment, a turn stays on the
version of the worker that began it, so that new code never continues old turns halfway. These
commands say on which version turns begin. A turn moves when it ends and the session's next one
begins, when its history is long, and, with drain, while it waits for an approval or an answer. The
inferences and tool calls of workers that do not run turns have no version.

A version is a build ID: TEMPORAL_WORKER_BUILD_ID, or else the version that the worker prints.`
	return cmd
}

// onDeployment calls do with the configured deployment and a build ID: the first of args or, without args, that of a
// worker with this program and configuration. The build ID is "" if this program has no version.
func onDeployment(ctx context.Context, a *app.App, args []string,
	do func(d rollout.Deployment, build string) error) error {
	loaded, err := a.Load()
	if err != nil {
		return err
	}
	cfg := loaded.Config
	if cfg.Worker.Deployment == "" {
		return app.Usage("worker.deployment is not set, so turns run on any worker: set it in agent.toml, for workers " +
			"and clients")
	}
	build := ""
	if len(args) > 0 {
		build = args[0]
	} else if v, err := rollout.VersionOf(cfg.Worker, a.Environ); err == nil {
		build = v.BuildID
	}
	return onCluster(ctx, a, cfg, func(c temporalconn.Conn, _, namespace string) error {
		return do(rollout.Deployment{
			Conn: c, Namespace: namespace, Name: cfg.Worker.Deployment, TaskQueue: cfg.Temporal.TaskQueue,
		}, build)
	})
}

// rolloutStatus returns the command that shows the versions.
func rolloutStatus(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the versions with their workers and turns",
		Long: `Show the versions with the workers that poll for turns, the runs that stay on each (turns and
deliveries), how many of them wait for a decision, and how many fail again and again. The server
checks every few minutes whether a version is drained.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDeployment(cmd.Context(), a, nil, func(d rollout.Deployment, _ string) error {
				s, err := d.Status(cmd.Context())
				if err != nil {
					return err
				}
				if output == app.OutputJSON {
					return app.WriteJSON(a.Out, s)
				}
				return printVersions(a, s)
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON)
	return cmd
}

// printVersions prints a table of the versions.
func printVersions(a *app.App, s rollout.Status) error {
	rows := make([][]string, len(s.Versions))
	for i, v := range s.Versions {
		state := v.State
		if v.BuildID == s.Ramping {
			state = fmt.Sprintf("ramping %g %%", s.RampPercent)
		}
		rows[i] = []string{app.Line(v.BuildID, 60), state, strconv.Itoa(v.Workers), strconv.FormatInt(v.Turns, 10),
			strconv.FormatInt(v.Waiting, 10), strconv.FormatInt(v.Problems, 10)}
	}
	if s.Current == "" {
		a.Note("no version is current, so turns begin on workers without a deployment: `everturn rollout promote`")
	}
	if s.Updating {
		a.Note("not all task queues follow the latest change yet")
	}
	return a.Table([]string{"VERSION", "STATE", "WORKERS", "RUNS", "WAITING", "FAILING"}, rows)
}

// rolloutPromote returns the command that makes a version the current one.
func rolloutPromote(a *app.App) *cobra.Command {
	gate, wait := true, time.Minute
	cmd := &cobra.Command{
		Use:   "promote [build-id]",
		Short: "Let turns begin on a version",
		Long: `Let turns begin on a version, by default that of this program. It waits for a worker of the version,
and then runs a check on it, without a model: the worker takes a workflow and an activity, and
reaches Temporal, the journal and its required servers. If the check fails, nothing changes. Turns
that wait move with everturn rollout drain.`,
		Example: `  everturn rollout promote v1.3.0`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onDeployment(cmd.Context(), a, args, func(d rollout.Deployment, build string) error {
				if err := checkVersion(cmd.Context(), d, build, gate, wait); err != nil {
					return rolloutError(err)
				}
				changed, err := d.Promote(cmd.Context(), build)
				switch {
				case err != nil:
					return rolloutError(err)
				case !changed:
					a.Note("turns begin on version %s already", build)
				default:
					a.Note("turns begin on version %s; the version before can stop when it is drained: `everturn rollout status`",
						build)
				}
				return nil
			})
		},
	}
	gateFlags(cmd, &gate, &wait)
	return cmd
}

// gateFlags adds the flags for checkVersion.
func gateFlags(cmd *cobra.Command, gate *bool, wait *time.Duration) {
	cmd.Flags().BoolVar(gate, "gate", *gate, "check the version first")
	cmd.Flags().DurationVar(wait, "wait", *wait, "how long to wait for a worker of the version: a `duration`")
}

// checkVersion waits up to wait for a worker of a version and, if gate is true, runs the gate on it. It returns an
// error if no worker comes or the gate fails.
func checkVersion(ctx context.Context, d rollout.Deployment, build string, gate bool, wait time.Duration) error {
	if build == "" {
		return app.Usage("this program was built without a version: name the build ID")
	}
	waitCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := d.Await(waitCtx, build); err != nil || !gate {
		return err
	}
	return d.Gate(ctx, build)
}

// rolloutRamp returns the command that lets a share of the sessions begin turns on a version.
func rolloutRamp(a *app.App) *cobra.Command {
	gate, wait := true, time.Minute
	cmd := &cobra.Command{
		Use:   "ramp <build-id> <percent>",
		Short: "Let a share of the sessions begin turns on a version",
		Long: `Let a share of the sessions begin turns on a version, always the same sessions for the same share. 0
ends the ramp. The version is checked first, as by everturn rollout promote.`,
		Example: `  everturn rollout ramp v1.3.0 10`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			percent, err := strconv.ParseFloat(args[1], 32)
			if err != nil || percent < 0 || percent > 100 {
				return app.Usage("%q is not a percentage; it must be from 0 to 100", app.Line(args[1], 20))
			}
			return onDeployment(cmd.Context(), a, args, func(d rollout.Deployment, build string) error {
				if percent > 0 {
					if err := checkVersion(cmd.Context(), d, build, gate, wait); err != nil {
						return rolloutError(err)
					}
				}
				if err := d.Ramp(cmd.Context(), build, float32(percent)); err != nil {
					return rolloutError(err)
				}
				a.Note("%g %% of the sessions begin turns on version %s", percent, build)
				return nil
			})
		},
	}
	gateFlags(cmd, &gate, &wait)
	return cmd
}

// rolloutRollback returns the command that undoes a ramp or a promotion.
func rolloutRollback(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "rollback",
		Short: "End a ramp, or let turns begin on the version before",
		Long: `End a ramp or, if there is none, let turns begin on the version that was current before, if it has a
worker. Turns that began on the other version stay there until they are drained.`,
		Example: `  everturn rollout rollback`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onDeployment(cmd.Context(), a, nil, func(d rollout.Deployment, _ string) error {
				build, err := d.Rollback(cmd.Context())
				if err == nil {
					a.Note("turns begin on version %s", build)
				}
				return rolloutError(err)
			})
		},
	}
}

// rolloutDrain returns the command that drains a version.
func rolloutDrain(a *app.App) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain <build-id>",
		Short: "Move the waiting turns of a version, and wait until it has none",
		Long: `Move the turns that wait for an approval or an answer from a version to the current one, and wait until
no run stays on it. Its workers must run until then. Other turns end on their version, also those that
wait for an elicitation.`,
		Example: `  everturn rollout drain v1.2.0 --timeout 10m`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onDeployment(cmd.Context(), a, args, func(d rollout.Deployment, build string) error {
				ctx, cancel := context.WithCancel(cmd.Context())
				if timeout > 0 {
					ctx, cancel = context.WithTimeout(cmd.Context(), timeout)
				}
				defer cancel()
				left := int64(0) // runs on the version, as reported last
				err := d.Drain(ctx, build, func(runs, waiting int64) {
					left = runs
					a.Note("%s left on version %s, %d of them waiting", ui.Count(int(runs), "run"), build, waiting)
				})
				if errors.Is(err, context.DeadlineExceeded) {
					return &app.ExitError{Code: app.ExitTimeout, Cause: fmt.Errorf("%s left on version %s after %s: keep a "+
						"worker of it", ui.Count(int(left), "run"), build, timeout)}
				}
				return rolloutError(err)
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait: a `duration`; 0 means without limit")
	return cmd
}

// rolloutError returns err, with the exit code ExitFailed if the change was refused.
func rolloutError(err error) error {
	if errors.Is(err, rollout.ErrRefused) {
		return &app.ExitError{Code: app.ExitFailed, Cause: err}
	}
	return err
}
