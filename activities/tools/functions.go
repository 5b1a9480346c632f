package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/everturn/everturn/activities/tools/schema"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

const (
	maxFunctionBytes = 16 << 20    // bounds the part of a function's result that is kept
	functionTimeout  = time.Minute // of a call if neither the request nor the function has a timeout

	// functions names the server of the functions in messages.
	functions = "the local tools"
)

// function is a Go function that is offered as a tool. Its result may be of any type that can be marshalled as JSON.
type function struct {
	descriptor turn.Descriptor
	run        func(ctx context.Context, arguments json.RawMessage) (any, error)
	// replaceable functions may be replaced and removed. earlier are the hashes of the other descriptors that the function
	// had before, the latest last.
	replaceable, removed bool
	earlier              []string
}

// maxEarlier bounds function.earlier.
const maxEarlier = 100

// Option declares a property of a function, such as its risk.
type Option func(*tool.Settings)

// Repeatable declares that running the function again does no harm.
func Repeatable() Option { return func(s *tool.Settings) { s.Repeatable = true } }

// LocalActivity declares that the function is repeatable and answers within turn.LocalActivityCap: its calls run as
// local activities.
func LocalActivity() Option {
	return func(s *tool.Settings) { s.Repeatable, s.LocalActivity = true, true }
}

// Risk declares how much harm the function can do. The default is medium, or high if its name or the names of its
// arguments suggest so (see tool.SuggestedRisk).
func Risk(r turn.Risk) Option { return func(s *tool.Settings) { s.Risk = r } }

// Timeout bounds one call.
func Timeout(d time.Duration) Option { return func(s *tool.Settings) { s.Timeout = d } }

// ReadOnly declares that the function only reads, and only locally (see turn.Effects).
func ReadOnly() Option { return func(s *tool.Settings) { s.ReadOnly = true } }

// Taints declares that the result may contain text from untrusted sources (see turn.Effects).
func Taints() Option { return func(s *tool.Settings) { s.Taints = true } }

// AskUnlistedHosts declares that calls send a request to the host of the argument url. They need an approval unless the
// host matches one of the patterns.
func AskUnlistedHosts(listed []string) Option {
	return func(s *tool.Settings) { s.Hosts = &turn.HostRule{Listed: listed} }
}

// Commands declares that the argument command is a command line, and how its commands are isolated.
func Commands(rule turn.CommandRule) Option {
	return func(s *tool.Settings) { s.Commands = &rule }
}

// SessionAffinity declares that the functions keep state between the calls of a turn, so that they all go to one
// worker.
func SessionAffinity() Option { return func(s *tool.Settings) { s.SessionAffinity = true } }

// AlwaysAsks declares that each call needs an approval of its own (see turn.Effects).
func AlwaysAsks() Option { return func(s *tool.Settings) { s.AlwaysAsks = true } }

// Values declares the only values of an argument, by its name in JSON.
func Values(argument string, values ...any) Option {
	return func(s *tool.Settings) { s.Values = map[string][]any{argument: values} }
}

// Replaceable declares that the function may be removed, and replaced by adding another with its name. Calls of turns
// that have an earlier descriptor run the function that was added last.
func Replaceable() Option { return func(s *tool.Settings) { s.Replaceable = true } }

// Error is an error of a function that has a kind, such as not_found: what a model or a reader of the journal can tell
// apart without reading the text. The result of the call is {"error":{"kind":…,"message":…}}. Cause goes to the
// worker's log only.
type Error struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Cause   error  `json:"-"`
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Kind + ": " + e.Message
	}
	return e.Kind + ": " + e.Message + ": " + e.Cause.Error()
}

func (e *Error) Unwrap() error { return e.Cause }

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`)

// Add adds the tool local/<name>. Its schema is derived from In, a struct whose jsonschema tags describe the properties
// (see jsonschema.For); arguments are validated before fn sees them. The model sees a string result as it is, and any
// other result as JSON, whose schema is derived from Out for operators (see turn.Descriptor). An error from fn, or a
// panic, becomes an error result with its text, or with its kind if it is an *Error. Names consist of letters, digits,
// underscores, dots and dashes, and are unique unless a function is Replaceable.
func Add[In, Out any](
	r *Registry, name, description string, fn func(ctx context.Context, in In) (Out, error), opts ...Option,
) error {
	if !functionName.MatchString(name) {
		return fmt.Errorf("adding tool %q: a name is up to 128 letters, digits, underscores, dots and dashes", name)
	}
	var settings tool.Settings
	for _, opt := range opts {
		opt(&settings)
	}
	d, arguments, err := describe(name, description, reflect.TypeFor[In](), settings)
	if err != nil {
		return fmt.Errorf("adding tool %q: %w", name, err)
	}
	d.Details = outputDetails(reflect.TypeFor[Out]())
	run := func(ctx context.Context, raw json.RawMessage) (any, error) {
		var in In
		if err := decode(raw, arguments, &in); err != nil {
			return nil, err
		}
		return fn(ctx, in)
	}
	return r.add(name, function{descriptor: d, run: run, replaceable: settings.Replaceable})
}

// add adds a function. It returns an error if the name is taken by a function that is not replaceable.
func (r *Registry) add(name string, f function) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.functions[name]; ok {
		if !old.replaceable {
			return fmt.Errorf("adding tool %s: there is one of that name already", name)
		}
		current := func(hash string) bool { return hash == f.descriptor.Hash }
		f.earlier = slices.DeleteFunc(append(slices.Clone(old.earlier), old.descriptor.Hash), current)
		f.earlier = f.earlier[max(0, len(f.earlier)-maxEarlier):]
	}
	r.set(name, f)
	return nil
}

// Remove removes the function with this name from the catalogue if it is replaceable. Calls of turns that have it still
// run it.
func (r *Registry) Remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.functions[name]; ok && f.replaceable && !f.removed {
		f.removed = true
		r.set(name, f)
	}
}

// set sets a function and closes the channel that announces a change of the catalogue. The caller holds the lock.
func (r *Registry) set(name string, f function) {
	r.functions[name] = f
	close(r.changed)
	r.changed = make(chan struct{})
}

// describe returns the descriptor of a function whose arguments are of type in, and the compiled schema of the
// arguments. It returns an error if a schema cannot be derived or the settings contradict each other.
func describe(name, description string, in reflect.Type, settings tool.Settings) (turn.Descriptor, schema.Schema,
	error) {
	raw, err := inputSchema(in, settings.Values)
	if err != nil {
		return turn.Descriptor{}, schema.Schema{}, err
	}
	canonical, compiled, err := schema.Compile(raw)
	if err != nil {
		return turn.Descriptor{}, schema.Schema{}, err
	}
	description = strings.TrimSpace(printable.Sanitize(description))
	d := turn.Descriptor{
		ID: Local + "/" + name, Wire: turn.WireName(Local + "/" + name), Description: description, Schema: canonical,
		Activity: turn.ActivityRegular, Risk: settings.Risk, Repeatable: settings.Repeatable, Timeout: settings.Timeout,
		Effects: turn.Effects{ReadOnly: settings.ReadOnly, Taints: settings.Taints,
			SessionAffinity: settings.SessionAffinity, AlwaysAsks: settings.AlwaysAsks}, Hosts: settings.Hosts,
		Commands: settings.Commands,
		Hash:     tool.Hash(map[string]any{"name": name, "description": description, "input": canonical}),
	}
	if settings.LocalActivity {
		d.Activity = turn.ActivityLocal
	}
	if d.Risk == "" {
		d.Risk = tool.SuggestedRisk(name, canonical)
	}
	return d, compiled, settings.Check()
}

// inputSchema derives the JSON schema of arguments of type t, which must be a struct, a map or any. values lists, by
// the argument's name, the only values of some arguments.
func inputSchema(t reflect.Type, values map[string][]any) (json.RawMessage, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := &jsonschema.Schema{Type: "object"} // for the type any
	if t != reflect.TypeFor[any]() {
		var err error
		if s, err = jsonschema.ForType(t, &jsonschema.ForOptions{}); err != nil {
			return nil, err
		}
	}
	if s.Type != "object" {
		return nil, fmt.Errorf("its input %s is not an object: use a struct", t)
	}
	for name, allowed := range values {
		if s.Properties[name] == nil {
			return nil, fmt.Errorf("its input has no argument %s, for which values are declared", name)
		}
		s.Properties[name].Enum = allowed
	}
	return json.Marshal(s)
}

// outputDetails returns the JSON schema of results of type t, as the details of a descriptor. It returns nil for text,
// for an interface, which may be anything, and for a type from which no schema can be derived.
func outputDetails(t reflect.Type) json.RawMessage {
	if t.Kind() == reflect.String || t.Kind() == reflect.Interface {
		return nil
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
	if err != nil {
		return nil
	}
	b, err := json.Marshal(map[string]any{"output": s})
	if err != nil {
		return nil
	}
	return b
}

// decode validates arguments against a schema and decodes them into in, a pointer.
func decode(arguments json.RawMessage, s schema.Schema, in any) error {
	object, err := schema.Object(arguments)
	if err == nil {
		err = s.Validate(object)
	}
	if err != nil {
		return fmt.Errorf("validating arguments: %w", err)
	}
	if len(object) == 0 { // the arguments may be empty text
		arguments = json.RawMessage("{}")
	}
	return json.Unmarshal(arguments, in)
}

// callFunction runs the function of this name and waits for its result until the call's timeout. It returns an error
// only if the function was not called. A function that ignores the end of its context continues in the background, and
// its outcome is unknown; Close waits for it.
func (r *Registry) callFunction(ctx context.Context, req turn.ToolRequest, name string) (turn.ToolResult, error) {
	r.mu.Lock()
	f, ok := r.functions[name]
	r.mu.Unlock()
	if !ok {
		return turn.ToolResult{}, turn.ToolAbsent(req.Tool)
	}
	if slices.Contains(f.earlier, req.Hash) {
		f.descriptor.Hash = req.Hash
	}
	d, err := tool.Matching(map[string]turn.Descriptor{req.Tool: f.descriptor}, req, functions)
	if err != nil {
		return turn.ToolResult{}, err
	}
	began := time.Now()
	ctx = context.WithValue(ctx, requestKey{}, req)
	ctx, cancel := context.WithTimeout(ctx, tool.FirstOf(req.Timeout, d.Timeout, functionTimeout))
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)() // Close cancels the call
	done := make(chan ended, 1)
	if ctx.Err() != nil || !r.start(func() { done <- r.run(ctx, req, f) }) {
		return turn.ToolResult{}, tool.NotSent(functions, "the call was cancelled, or the worker stops", ctx.Err())
	}
	end := await(ctx, req, done)
	end.result.Duration = time.Since(began)
	return end.result, end.err
}

// start runs f in a goroutine for which Close waits. It returns false, and does not run f, if the registry is closed.
func (r *Registry) start(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.running.Go(f)
	return true
}

// unanswered returns the result of a call whose context ended before the function returned. Its outcome is unknown.
func unanswered(ctx context.Context, req turn.ToolRequest) turn.ToolResult {
	e, why := tool.Ending{Stage: tool.StageSent, By: tool.EndedByCancel, Repeatable: req.Repeatable},
		"the call was cancelled before it answered"
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		e.By, why = tool.EndedByDeadline, "it did not answer in time"
	}
	return tool.Unknown(req.Tool, e, why)
}

// run calls the function and converts what it returns to a result. An error and a panic become error results. If the
// function returns the error of its ended context, the outcome is unknown, because it may have acted before. An error of
// a function that is a *turn.Error may say that the call was not made, or may be made again.
func (r *Registry) run(ctx context.Context, req turn.ToolRequest, f function) ended {
	text, err := r.callRecovering(ctx, req, f)
	unmade := new(turn.Error)
	if errors.As(err, &unmade) && (unmade.Code == turn.CodeToolNotSent || unmade.Code == turn.CodeJournalUnavailable) {
		return ended{err: unmade}
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return ended{result: unanswered(ctx, req)}
	}
	size := int64(len(text))
	if err != nil {
		text = r.errorText(req, err)
	}
	limits := tool.Limits{Shown: r.opts.MaxResultBytes, Full: maxFunctionBytes}
	out := tool.Text(printable.Head(text, maxFunctionBytes), limits, r.opts.Secrets.Values)
	if err != nil {
		out.Outcome = turn.OutcomeError
	}
	out.SizeBytes = max(out.SizeBytes, size) // tool.Text has got at most maxFunctionBytes
	out.FromServer = f.descriptor.Taints     // an error may quote what the function has read, too
	return ended{result: out}
}

// errorText returns the text of an error result. It logs the cause of an *Error.
func (r *Registry) errorText(req turn.ToolRequest, err error) string {
	var kind *Error
	if !errors.As(err, &kind) {
		return err.Error()
	}
	if kind.Cause != nil {
		r.opts.Logger.Warn("a local tool failed", "tool", req.Tool, "turn", req.Turn, "call", req.CallID, "kind", kind.Kind,
			"error", kind.Cause)
	}
	b, err := json.Marshal(map[string]*Error{"error": kind})
	if err != nil {
		return kind.Error() // cannot happen: two strings are always JSON
	}
	return string(b)
}

// callRecovering calls the function and returns its result as text: a string as it is, anything else as JSON. It logs
// a panic of the function and returns it as an error.
func (r *Registry) callRecovering(ctx context.Context, req turn.ToolRequest, f function) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.opts.Logger.Error("a local tool panicked",
				"tool", req.Tool, "turn", req.Turn, "call", req.CallID, "stack", string(debug.Stack()))
			err = fmt.Errorf("the tool %s has a bug and panicked: %v", req.Tool, p)
		}
	}()
	out, err := f.run(ctx, req.Arguments)
	if err != nil {
		return "", err
	}
	if v := reflect.ValueOf(out); v.Kind() == reflect.String { // also of a named type
		return v.String(), nil
	}
	b, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("writing the result of %s as JSON: %w", req.Tool, err)
	}
	return string(b), nil
}

type requestKey struct{}

// CallInfo returns the request for which a function runs, from the function's context. The result is false for another
// context.
func CallInfo(ctx context.Context) (turn.ToolRequest, bool) {
	req, ok := ctx.Value(requestKey{}).(turn.ToolRequest)
	return req, ok
}
