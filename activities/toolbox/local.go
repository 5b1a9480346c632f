package toolbox

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/toolbox/schema"
	"github.com/everturn/everturn/workflows/turn"
)

// Local holds the tools that this program implements itself: typed Go functions. Add tools with AddTool, then pass it
// to New. It is safe for concurrent use.
type Local struct {
	mu      sync.Mutex
	tools   map[string]localTool
	changed chan struct{} // closed when a tool is added, and then replaced
}

// localTool is a Go function as a tool. The function's result may be of any type that can be marshalled as JSON.
type localTool struct {
	declared *mcp.Tool
	settings ToolSettings
	run      func(ctx context.Context, arguments json.RawMessage) (any, error)
}

// NewLocal returns a Local without tools.
func NewLocal() *Local { return &Local{tools: map[string]localTool{}, changed: make(chan struct{})} }

// ToolOption declares a property of a local tool that its types do not show.
type ToolOption func(*ToolSettings)

// Repeatable declares that running the tool again does no harm.
func Repeatable() ToolOption { return func(s *ToolSettings) { s.Repeatable = true } }

// LocalActivity declares that the tool is repeatable and answers within turn.LocalActivityCap: its calls run as local
// activities.
func LocalActivity() ToolOption {
	return func(s *ToolSettings) { s.Repeatable, s.LocalActivity = true, true }
}

// Risk declares how much harm the tool can do. The default is medium, or high if its name or the names of its arguments
// suggest so (see harmWords).
func Risk(r turn.Risk) ToolOption { return func(s *ToolSettings) { s.Risk = r } }

// Timeout bounds one call.
func Timeout(d time.Duration) ToolOption { return func(s *ToolSettings) { s.Timeout = d } }

// ReadOnly declares that the tool only reads, and only locally (see turn.Effects).
func ReadOnly() ToolOption { return func(s *ToolSettings) { s.ReadOnly = true } }

var localName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`)

// AddTool adds the tool local/<name>. Its schema is derived from In, a struct whose jsonschema tags describe the
// properties (see jsonschema.For); arguments are validated before fn sees them. The model sees a string result as it
// is, and any other result as JSON. An error from fn, or a panic, becomes an error result with its text. Names consist
// of letters, digits, underscores, dots and dashes, and are unique.
func AddTool[In, Out any](
	l *Local, name, description string, fn func(ctx context.Context, in In) (Out, error), opts ...ToolOption,
) error {
	var settings ToolSettings
	for _, opt := range opts {
		opt(&settings)
	}
	input, resolved, err := inputSchema(reflect.TypeFor[In]())
	if err != nil {
		return fmt.Errorf("adding tool %q: %w", name, err)
	}
	run := func(ctx context.Context, arguments json.RawMessage) (any, error) {
		var in In
		if err := decode(arguments, resolved, &in); err != nil {
			return nil, err
		}
		return fn(ctx, in)
	}
	declared := &mcp.Tool{Name: name, Description: description, InputSchema: input}
	return l.add(localTool{declared: declared, settings: settings, run: run})
}

func (l *Local) add(t localTool) error {
	name := t.declared.Name
	if !localName.MatchString(name) {
		return fmt.Errorf("adding tool %q: a name is up to 128 letters, digits, underscores, dots and dashes", name)
	}
	switch t.settings.Risk {
	case "", turn.RiskLow, turn.RiskMedium, turn.RiskHigh:
	default:
		return fmt.Errorf("adding tool %s: risk %q is not known", name, t.settings.Risk)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.tools[name]; ok {
		return fmt.Errorf("adding tool %s: there is one of that name already", name)
	}
	l.tools[name] = t
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// find returns the tool with this name; false if there is none.
func (l *Local) find(name string) (localTool, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, ok := l.tools[name]
	return t, ok
}

// list returns the declarations and settings of all tools, and a channel that is closed when another tool is added.
func (l *Local) list() (tools []*mcp.Tool, settings map[string]ToolSettings, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	settings = make(map[string]ToolSettings, len(l.tools))
	for name, t := range l.tools {
		tools, settings[name] = append(tools, t.declared), t.settings
	}
	return tools, settings, l.changed
}

// inputSchema derives the schema of arguments of type t, which must be an object. declared is the same schema in the
// form in which servers declare theirs.
func inputSchema(t reflect.Type) (declared any, resolved *jsonschema.Resolved, err error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := &jsonschema.Schema{Type: "object"} // of any
	if t != reflect.TypeFor[any]() {
		if s, err = jsonschema.ForType(t, &jsonschema.ForOptions{}); err != nil {
			return nil, nil, err
		}
	}
	if s.Type != "object" {
		return nil, nil, fmt.Errorf("its input %s is not an object: use a struct", t)
	}
	raw, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(raw, &declared)
	}
	if err == nil {
		resolved, err = s.Resolve(nil)
	}
	return declared, resolved, err
}

// decode validates arguments and decodes them into the struct that in points to.
func decode(arguments json.RawMessage, s *jsonschema.Resolved, in any) error {
	object, err := schema.Object(arguments)
	if err == nil {
		err = s.Validate(object)
	}
	if err != nil {
		return fmt.Errorf("validating arguments: %w", err)
	}
	if len(object) == 0 {
		arguments = json.RawMessage("{}")
	}
	return json.Unmarshal(arguments, in)
}

type toolRequestKey struct{}

// CallInfo returns the request that a local tool runs for, from the tool's context.
func CallInfo(ctx context.Context) (turn.ToolRequest, bool) {
	req, ok := ctx.Value(toolRequestKey{}).(turn.ToolRequest)
	return req, ok
}
