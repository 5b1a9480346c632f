package engine

import (
	"context"
	"errors"
	"log/slog"

	"go.temporal.io/sdk/interceptor"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/journal"
)

// Option changes how an engine is built.
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

// WithLogger sets where the engine logs; without it, it does not.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithEnviron hands over the environment, as os.Environ gives it: Temporal's TEMPORAL_* variables are read from it, and
// MCP servers inherit from it what their configuration allows.
func WithEnviron(environ []string) Option { return func(o *options) { o.environ = environ } }

// WithJournal wraps the journal: what wrap returns is what the engine uses. Tests count reads and writes with it.
func WithJournal(wrap func(journal.Store) journal.Store) Option {
	return func(o *options) { o.wrapJournal = wrap }
}

// WithInterceptors puts interceptors around the worker's workflows and activities, for tracing and metrics. One that
// changes what a workflow does changes its history, too: it must stay as long as its turns run.
func WithInterceptors(list ...interceptor.WorkerInterceptor) Option {
	return func(o *options) { o.intercept = append(o.intercept, list...) }
}

// WithTool adds the typed tool local/<name>. The schema of its arguments comes from In, a struct whose jsonschema tags
// describe its fields. A string result is shown to the model as it is, any other as JSON; an error becomes an error
// result. Names are letters, digits, underscores, dots and dashes; one that is taken makes New fail. Without options
// a tool is of medium risk and its calls are never repeated.
func WithTool[In, Out any](name, description string, fn func(ctx context.Context, in In) (Out, error), opts ...ToolOption) Option {
	return func(o *options) {
		o.tools = append(o.tools, func(l *toolbox.Local) error { return toolbox.AddTool(l, name, description, fn, opts...) })
	}
}

// ToolOption says of a tool what its types do not.
type ToolOption = toolbox.ToolOption

// Options of typed tools.
var (
	Repeatable    = toolbox.Repeatable
	LocalActivity = toolbox.LocalActivity
	Risk          = toolbox.Risk
	Timeout       = toolbox.Timeout
)
