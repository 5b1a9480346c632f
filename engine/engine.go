package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/rollout"
	"github.com/everturn/everturn/internal/skills"
	"github.com/everturn/everturn/internal/telemetry"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Engine is a worker: it hosts tools, keeps a journal and runs turns.
type Engine struct {
	id        string // of this process, in the journal's reports on workers
	home      string // the task queue that only this process polls
	offers    offers // what it offers of its tool servers
	cfg       config.Config
	options   options
	journal   Journal
	journalID string
	tools     *tools.Registry
	model     *model
	skills    skills.Set
	// projectWords are those of a trusted workspace's AGENTS.md, for the system prompt.
	projectWords string
	models       atomic.Pointer[models.Models]
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
	for _, step := range []func(context.Context) error{
		e.openKeys, e.openProbe, e.openModel, e.openModels, e.openTelemetry, e.openTools, e.openSkills,
		e.openJournal,
		e.connect, e.publish, e.build,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// Run polls until ctx ends, then drains: activities get [worker] drain_timeout to finish. It returns early, with an
// error, if the journal's file is deleted or replaced (journal.ErrReplaced), or if Temporal rejects the worker for
// longer than the SDK accepts: two minutes of polls that the server calls invalid, for instance because the namespace
// was deleted.
func (e *Engine) Run(ctx context.Context) error {
	watched, stop := context.WithCancel(ctx)
	defer stop()
	var beside sync.WaitGroup
	beside.Go(func() { e.watch(watched) })
	beside.Go(func() { e.prune(watched, pruneEvery) })
	beside.Go(func() { e.watchJournal(watched) })
	beside.Go(func() { e.watchGauges(watched) })
	beside.Go(func() { e.refreshModels(watched) })
	e.reportOnce(ctx) // before it polls: calls of its turns may go to other workers, which send them back
	err := e.start()
	if err == nil {
		e.probe.polls.Store(true)
		e.log.Info("worker polls", "task_queue", e.cfg.Temporal.TaskQueue, "roles", e.cfg.Worker.Roles,
			"model", e.model.name)
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
	beside.Wait()
	return err
}

// fail makes Run drain and return err. Only the first error counts.
func (e *Engine) fail(err error) {
	select {
	case e.fatal <- err:
	default:
	}
}

// Journal returns the engine's journal, for programs that are also a client: see client.Options. Close closes it.
func (e *Engine) Journal() Journal { return e.journal }

// Close closes tools, model, connection and journal. It is safe after a New that failed.
func (e *Engine) Close() error {
	var errs []error
	if e.probe.server != nil {
		errs = append(errs, e.probe.server.Close())
	}
	e.closeSinks()
	errs = append(errs, e.telemetry.Close(context.Background()))
	if e.client != nil {
		e.client.Close()
	}
	if e.tools != nil {
		errs = append(errs, e.tools.Close())
	}
	if e.model != nil {
		errs = append(errs, e.model.close())
	}
	e.capacity.Close()
	if e.journal != nil {
		errs = append(errs, e.journal.Close())
	}
	return errors.Join(errs...)
}

func (e *Engine) openJournal(ctx context.Context) error {
	j, err := OpenJournal(ctx, e.cfg)
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

// prepareWithin bounds the preparation of a namespace before the worker polls.
const prepareWithin = 30 * time.Second

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
	e.warnOfOtherJournals(ctx, namespace)
	return temporalconn.EnsureAttributes(ctx, c, namespace, workflows.SearchAttributes())
}

// warnOfOtherJournals logs a warning about workers on the task queue that would write this worker's turns to another
// journal. It never refuses to start: except on a development server, a worker that stopped a moment ago looks like a
// running one.
func (e *Engine) warnOfOtherJournals(ctx context.Context, namespace string) {
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

// publish records the servers' catalogues in the journal before the first turn can ask for them. It does not wait for
// an optional server that the journal already knows: turns use its last tools, or take them up when it is back.
func (e *Engine) publish(ctx context.Context) error {
	known, err := e.journal.OfferedBy(ctx, nil)
	if err != nil {
		return fmt.Errorf("reading the catalogues: %w", err)
	}
	heardOf := func(server string) bool {
		return slices.ContainsFunc(known, func(c turn.Catalogue) bool { return c.Server == server && !c.Required })
	}
	for _, c := range e.tools.CataloguesSoon(ctx, heardOf) {
		e.offers.set(c)
		if err := e.publishUnlessAvailable(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) publishCatalogue(ctx context.Context, c turn.Catalogue) error {
	switch {
	case c.Problem != "":
		c.Since = time.Now() // the journal keeps an earlier time
		e.log.Warn("MCP server is not available", "server", c.Server, "required", c.Required, "problem", c.Problem)
	case len(c.Dropped) > 0:
		e.log.Warn("tools were left out", "server", c.Server, "dropped", c.Dropped)
	}
	if err := e.journal.PublishCatalogue(ctx, c); err != nil {
		return fmt.Errorf("publishing the catalogue of %s: %w", c.Server, err)
	}
	return nil
}

func (e *Engine) identity() string {
	if e.cfg.Worker.Identity != "" {
		return e.cfg.Worker.Identity
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%d@%s", os.Getpid(), host)
}

// build creates the activities and the workers.
func (e *Engine) build(context.Context) (err error) {
	if e.version, err = rollout.VersionOf(e.cfg.Worker); err != nil {
		return err
	}
	acts, err := activities.New(activities.Options{
		JournalRetryFor: e.cfg.Journal.RetryFor,
		Home:            e.home, TaskQueue: e.cfg.Temporal.TaskQueue, Offers: e.offers.versions,
		Queues: queuesOf(e.cfg), Elsewhere: elsewhere(e.cfg),
		Journal: e.journal, Model: e.observedModel(), Tools: e.observedTools(), Agents: e.agents(),
		Budget: Budget(e.cfg.Budget),
		Worker: e.identity(),
		Redact: e.secrets, CacheBytes: e.cfg.Journal.CacheBytes, Capacity: e.openCapacity(),
	})
	if err != nil {
		return err
	}
	e.workers = e.newWorkers(acts, e.home)
	return nil
}
