package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/adapters"
	"github.com/everturn/everturn/internal/openjournal"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/rollout"
	"github.com/everturn/everturn/internal/telemetry"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Engine is a worker: it hosts tools, keeps a journal and runs turns.
type Engine struct {
	id        string // of this process, in the journal's reports on workers
	home      string // the task queue that only this process polls; empty if it runs no calls
	offers    offers // the versions of the catalogues that this worker offers
	cfg       config.Config
	options   options
	journal   Journal
	journalID string
	tools     *tools.Registry
	trees     *workspace.Store // nil if sessions have no trees
	model     *adapters.Model
	// instructions are those of skills and AGENTS.md.
	instructions *adapters.Instructions
	keys         *codec.Keys // nil without encryption
	converter    converter.DataConverter
	client       client.Client
	namespace    string
	version      rollout.Version // of its Worker Deployment
	workers      []worker.Worker // one for each task queue
	probe        probe
	capacity     *capacity.Limiter
	fatal        chan error // holds the first reason why the engine cannot continue: see fail
	secrets      *redact.Redactor
	telemetry    *telemetry.Telemetry // nil if it is off
	sinks        []*sink
	log          *slog.Logger
}

// New opens the journal, connects to Temporal and the MCP servers and publishes their catalogues. The engine polls
// nothing before Run. The caller closes the engine.
//
// Errors: config.ErrInvalid, config.ErrCredentials, client.ErrUnreachable (of Temporal), journal.ErrUnavailable,
// journal.ErrReadOnly, journal.ErrNewer, and that of a required MCP server.
func New(ctx context.Context, cfg config.Config, opts ...Option) (*Engine, error) {
	e := newEngine(cfg, opts)
	// Each step may use what the earlier ones have opened: secrets, models, tools, the journal, the connection.
	for _, step := range []func(context.Context) error{
		e.openKeys, e.openProbe, e.openModel, e.openTelemetry, e.openTools, e.openInstructions,
		e.openJournal,
		e.connect, e.publish, e.build,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// Run polls until ctx ends, then drains, and returns nil: activities get [worker] drain_timeout to finish. It returns
// early, with an error, if the worker cannot start, if the journal's file is deleted or replaced
// (journal.ErrReplaced), or if Temporal rejects the worker for longer than the SDK accepts: two minutes of polls that
// the server calls invalid, for instance because the namespace was deleted.
func (e *Engine) Run(ctx context.Context) error {
	background, stop := context.WithCancel(ctx)
	defer stop()
	var tasks sync.WaitGroup
	tasks.Go(func() { e.watch(background) })
	tasks.Go(func() { e.prune(background, pruneEvery) })
	tasks.Go(func() { e.sweepTrees(background, sweepEvery) })
	tasks.Go(func() { e.watchJournal(background) })
	tasks.Go(func() { e.watchGauges(background) })
	tasks.Go(func() { e.refresh(background) })
	// The report must precede the first poll: another worker that lacks a tool of this worker's turns finds this one by
	// it.
	e.reportOnce(ctx)
	e.warnOfOtherFolders(ctx)
	err := e.start()
	if err == nil {
		e.probe.polls.Store(true)
		_, model := e.model.Default()
		e.log.Info("worker polls", "task_queue", e.cfg.Temporal.TaskQueue, "roles", e.cfg.Worker.Roles, "model", model)
		select {
		case <-ctx.Done():
		case err = <-e.fatal:
			err = fmt.Errorf("the worker stops: %w", err)
		}
		e.probe.polls.Store(false)
		stopAll(e.workers)
	} else {
		err = fmt.Errorf("starting the worker: %w", err)
	}
	stop()
	tasks.Wait()
	return err
}

// fail makes Run drain and return err. It never blocks: errors after the first one are dropped.
func (e *Engine) fail(err error) {
	select {
	case e.fatal <- err:
	default:
	}
}

// Journal returns the engine's journal, for programs that are also a client on a connection of their own: see
// client.Options. Others call client.Open, which opens both. Close closes the engine's journal.
func (e *Engine) Journal() Journal { return e.journal }

// Close closes what New has opened, the journal last, because the sinks and the tools use it. New calls Close on an
// engine that it could not complete.
func (e *Engine) Close() error {
	var errs []error
	if e.probe.server != nil {
		errs = append(errs, e.probe.server.Close())
	}
	if e.tools != nil { // before the sinks, which get the ends of the servers' processes
		errs = append(errs, e.tools.Close())
	}
	e.closeSinks()
	errs = append(errs, e.telemetry.Close(context.Background()))
	if e.client != nil {
		e.client.Close()
	}
	if e.model != nil {
		errs = append(errs, e.model.Close())
	}
	e.capacity.Close()
	if e.journal != nil {
		errs = append(errs, e.journal.Close())
	}
	return errors.Join(errs...)
}

// openJournal opens the journal, guards it against outages of its database, and reads its ID. It rejects a journal that
// this process may only read.
func (e *Engine) openJournal(ctx context.Context) error {
	j, err := openjournal.Open(ctx, e.cfg)
	if err != nil {
		return err
	}
	j = j.Guarded()
	e.journal = e.observed(e.options.wrapJournal(j))
	if err := j.ReadOnly(); err != nil {
		return fmt.Errorf("a worker writes to its journal: %w", err)
	}
	e.journalID, err = j.ID(ctx)
	return err
}

// prepareWithin bounds the checks and changes of a namespace before the worker polls.
const prepareWithin = 30 * time.Second

// connect connects to Temporal, rejects the development server of another journal, and creates the search attributes
// that the workflows use. The connection's identity tells other processes the worker's journal and settings.
func (e *Engine) connect(ctx context.Context) error {
	opts := temporalconn.FromConfig(e.cfg.Temporal, e.options.environ)
	opts.Identity, opts.Logger = temporalconn.WithMarks(e.identity(), e.journalID, e.cfg.Settings()),
		e.log
	opts.Keys, opts.Worker = e.keys, true
	opts.Metrics = e.telemetry.SDK()
	c, err := temporalconn.Dial(ctx, opts)
	if err != nil {
		return err
	}
	e.client = c
	address, namespace, err := opts.Resolved()
	if err != nil {
		return err
	}
	e.converter = e.keys.DataConverter(namespace)
	e.namespace = namespace
	ctx, cancel := context.WithTimeout(ctx, prepareWithin)
	defer cancel()
	if err := temporalconn.CheckOwner(ctx, c, address, namespace, e.cfg.Journal.Path); err != nil {
		return err
	}
	e.warnOfOtherJournals(ctx)
	return temporalconn.EnsureAttributes(ctx, c, namespace, workflows.SearchAttributes())
}

// warnOfOtherJournals logs a warning about each worker on the task queue that keeps another journal, because a
// session's turns would then be split between both. It is not an error, because Temporal lists a worker of another
// machine for minutes after it has stopped.
func (e *Engine) warnOfOtherJournals(ctx context.Context) {
	queue := e.cfg.Temporal.TaskQueue
	pollers, err := temporalconn.Pollers(ctx, e.client, queue)
	if err != nil {
		e.log.Warn("looking for other workers", "error", err)
		return
	}
	for _, other := range temporalconn.WithOtherJournal(pollers, e.journalID) {
		e.log.Warn("another worker polls this task queue, or did a minute ago, and keeps another journal: turns of a "+
			"session would be in both. Stop one of them, or give it a task queue of its own ([temporal] task_queue)",
			"worker", other.Identity, "task_queue", queue)
	}
}

// publish records the servers' catalogues in the journal before a turn needs them. It waits only briefly for an
// optional server whose catalogue is in the journal: turns begin with its last tools, and watch publishes changes
// later.
func (e *Engine) publish(ctx context.Context) error {
	recorded, err := e.journal.OfferedBy(ctx, nil)
	if err != nil {
		return fmt.Errorf("reading the catalogues: %w", err)
	}
	mayBeLate := func(server string) bool {
		return slices.ContainsFunc(recorded, func(c turn.Catalogue) bool { return c.Server == server && !c.Required })
	}
	for _, c := range e.tools.CataloguesSoon(ctx, mayBeLate) {
		e.offers.set(c)
		if err := e.publishUnlessAvailable(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// publishCatalogue records a catalogue in the journal, and logs a warning if its server is unavailable or if tools of
// it are left out.
func (e *Engine) publishCatalogue(ctx context.Context, c turn.Catalogue) error {
	switch {
	case c.Problem != "":
		c.Since = time.Now() // if the server was unavailable before, the journal keeps the time since when
		e.log.Warn("MCP server is not available", "server", c.Server, "required", c.Required, "problem", c.Problem)
	case len(c.Dropped) > 0:
		e.log.Warn("tools were left out", "server", c.Server, "dropped", c.Dropped)
	}
	if err := e.journal.PublishCatalogue(ctx, c); err != nil {
		return fmt.Errorf("publishing the catalogue of %s: %w", c.Server, err)
	}
	return nil
}

// identity returns the worker's name in Temporal: the process ID and the host name.
func (e *Engine) identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%d@%s", os.Getpid(), host)
}

// build creates the activities, and a worker of the SDK for each task queue.
func (e *Engine) build(context.Context) (err error) {
	if e.version, err = rollout.VersionOf(e.cfg.Worker, e.options.environ); err != nil {
		return err
	}
	acts, err := activities.New(activities.Options{
		JournalRetryFor: e.cfg.Tuning.JournalRetryFor,
		Home:            e.home, TaskQueue: e.cfg.Temporal.TaskQueue, Offers: e.offers.versions,
		Queues: queuesOf(e.cfg), Elsewhere: elsewhere(e.cfg),
		Journal: e.journal, Model: e.observedModel(), Tools: e.observedTools(), Agents: e.cfg.AllAgents(),
		Settings: e.settings(),
		Budget:   Budget(e.cfg.Budget),
		Worker:   e.identity(),
		Redact:   e.secrets, CacheBytes: e.cfg.Tuning.CacheBytes, Capacity: e.openCapacity(),
		Slots: e.cfg.Worker.MaxConcurrentActivities,
	})
	if err != nil {
		return err
	}
	e.workers = e.newWorkers(acts, e.home)
	return nil
}
