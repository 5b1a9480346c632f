package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.temporal.io/sdk/interceptor"

	"github.com/everturn/everturn/activities/completion"
	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/workflows/turn"
)

// Option configures an engine.
type Option func(*options)

type options struct {
	log         *slog.Logger
	environ     []string
	tools       []func(*tools.Registry) error
	logins      map[string]Login
	wrapJournal func(Journal) Journal
	intercept   []interceptor.WorkerInterceptor
	sinks       []Sink
	model       Model
	slowDemo    bool
}

// newOptions applies opts to the defaults: no logging, the process's environment, the journal without a wrapper.
func newOptions(opts []Option) options {
	o := options{log: slog.New(slog.DiscardHandler), environ: os.Environ(), wrapJournal: func(s Journal) Journal { return s }}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithLogger sets the engine's logger. Without it, the engine does not log.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithEnviron sets the environment, in the form of os.Environ, which is the default. Temporal's TEMPORAL_* variables
// are read from it, and MCP servers inherit from it what their configuration allows.
func WithEnviron(environ []string) Option { return func(o *options) { o.environ = environ } }

// Model answers prompts. Its errors are *turn.Error, whose code says whether the inference is tried again.
type Model = completion.Model

// WithModel replaces the configured providers by a model of the program's own, for instance one that replays recorded
// completions. Turns still record llm.provider and llm.model, and prompts are still rendered for them.
func WithModel(m Model) Option { return func(o *options) { o.model = m } }

// WithSlowDemo makes the built-in demo model answer slowly enough to watch.
func WithSlowDemo(slow bool) Option { return func(o *options) { o.slowDemo = slow } }

// WithJournal wraps the journal: the engine uses what wrap returns, for instance to count reads and writes in a test.
func WithJournal(wrap func(Journal) Journal) Option {
	return func(o *options) { o.wrapJournal = wrap }
}

// WithInterceptors adds interceptors to the worker's workflows and activities, for tracing and metrics. One that
// changes what a workflow does also changes its history, and must stay registered as long as its turns run.
func WithInterceptors(list ...interceptor.WorkerInterceptor) Option {
	return func(o *options) { o.intercept = append(o.intercept, list...) }
}

// WithTool adds the typed tool local/<name>. The schema of its arguments comes from In, a struct whose jsonschema tags
// describe its fields. The model gets a string result as it is and any other as JSON; an error becomes an error result,
// and a *ToolError one with its kind. Names are letters, digits, underscores, dots and dashes; New fails if the name is
// already used. Without options a tool has medium risk, or high risk if its name or its arguments suggest so (such as
// "delete"), and its calls are never repeated.
func WithTool[In, Out any](
	name, description string, fn func(ctx context.Context, in In) (Out, error), opts ...ToolOption,
) Option {
	return func(o *options) {
		o.tools = append(o.tools, func(r *tools.Registry) error {
			return tools.Add(r, name, description, fn, opts...)
		})
	}
}

// ToolError is an error of a typed tool with a kind. The model and the journal get its Kind and its Message:
// {"error":{"kind":"not_found","message":"there is no table 9"}}. Its Cause, an error or nil, is only logged.
type ToolError = tools.Error

// ToolOption declares a property of a tool that its types do not show.
type ToolOption = tools.Option

// Repeatable declares that running the tool again does no harm, so that a call with an unknown outcome is repeated.
func Repeatable() ToolOption { return tools.Repeatable() }

// LocalActivity declares that the tool is repeatable and always returns within a second (turn.LocalActivityCap). Its
// calls cost fewer events in Temporal's history.
func LocalActivity() ToolOption { return tools.LocalActivity() }

// ReadOnly declares that the tool changes nothing and sends nothing out, so that the taint of a session (see Taints)
// does not make its calls need an approval.
func ReadOnly() ToolOption { return tools.ReadOnly() }

// Risk declares how much harm the tool can do. The policy decides by it whether a call needs an approval: by default,
// if it is turn.RiskHigh.
func Risk(r turn.Risk) ToolOption { return tools.Risk(r) }

// Timeout bounds one call. Without it, the limit is [runtime] tool_timeout.
func Timeout(d time.Duration) ToolOption { return tools.Timeout(d) }

// Taints declares that a result may contain text of an untrusted source, such as a web page or a mail. It taints the
// session: under the default policy, later calls of each tool that is not ReadOnly need an approval, those of this tool
// included.
func Taints() ToolOption { return tools.Taints() }

// Values declares the only values of an argument, by its name in JSON.
func Values(argument string, values ...any) ToolOption { return tools.Values(argument, values...) }

// CallInfo returns the call for which a tool runs, from the context of its function. Turn and CallID together identify
// the call in all of its attempts. The result is false for another context.
func CallInfo(ctx context.Context) (turn.ToolRequest, bool) { return tools.CallInfo(ctx) }

// RequestContext returns the value that the client has sent as client.SendInput.Context with the message of the turn
// for which a tool runs, decoded into a T. It returns a zero T if there is none.
func RequestContext[T any](ctx context.Context) (value T, err error) {
	req, ok := tools.CallInfo(ctx)
	if !ok || len(req.Context) == 0 {
		return value, nil
	}
	if err := json.Unmarshal(req.Context, &value); err != nil {
		return value, fmt.Errorf("the context of the message is not a %T: %w", value, err)
	}
	return value, nil
}
