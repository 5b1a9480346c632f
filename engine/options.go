package engine

import (
	"context"
	"errors"
	"log/slog"

	"go.temporal.io/sdk/interceptor"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/journal"
)

// Option configures an engine.
type Option func(*options)

type options struct {
	log         *slog.Logger
	environ     []string
	tools       []func(*toolbox.Local) error
	logins      map[string]Login
	wrapJournal func(journal.Store) journal.Store
	intercept   []interceptor.WorkerInterceptor
}

func newOptions(opts []Option) options {
	o := options{log: slog.New(slog.DiscardHandler), wrapJournal: func(s journal.Store) journal.Store { return s }}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// register adds the embedding program's tools.
func (o options) register(l *toolbox.Local) error {
	var errs []error
	for _, add := range o.tools {
		errs = append(errs, add(l))
	}
	return errors.Join(errs...)
}

// WithLogger sets the engine's logger. Without it, the engine does not log.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithEnviron sets the environment, in the form of os.Environ. Temporal's TEMPORAL_* variables are read from it, and
// MCP servers inherit from it what their configuration allows.
func WithEnviron(environ []string) Option { return func(o *options) { o.environ = environ } }

// WithJournal wraps the journal: the engine uses what wrap returns. Tests count reads and writes with it.
func WithJournal(wrap func(journal.Store) journal.Store) Option {
	return func(o *options) { o.wrapJournal = wrap }
}

// WithInterceptors adds interceptors to the worker's workflows and activities, for tracing and metrics. One that
// changes what a workflow does also changes its history, and must stay registered as long as its turns run.
func WithInterceptors(list ...interceptor.WorkerInterceptor) Option {
	return func(o *options) { o.intercept = append(o.intercept, list...) }
}

// WithTool adds the typed tool local/<name>. The schema of its arguments comes from In, a struct whose jsonschema tags
// describe its fields. The model gets a string result as it is and any other as JSON; an error becomes an error result.
// Names are letters, digits, underscores, dots and dashes; New fails if the name is already used. Without options a
// tool has medium risk and its calls are never repeated.
func WithTool[In, Out any](name, description string, fn func(ctx context.Context, in In) (Out, error), opts ...ToolOption) Option {
	return func(o *options) {
		o.tools = append(o.tools, func(l *toolbox.Local) error { return toolbox.AddTool(l, name, description, fn, opts...) })
	}
}

// ToolOption declares a property of a tool that its types do not show.
type ToolOption = toolbox.ToolOption

// Options of typed tools.
var (
	Repeatable    = toolbox.Repeatable
	LocalActivity = toolbox.LocalActivity
	Risk          = toolbox.Risk
	Timeout       = toolbox.Timeout
)
