package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/tools/schema"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// Bounds on what a tool may say about itself. The SDK has no such bounds.
const (
	maxNameBytes        = 200
	maxDescriptionBytes = 4 << 10
	maxDropped          = 32
	maxOfferBytes       = 512 << 10 // all of a server's tools together, because each prompt contains them
	maxListBytes        = 8 << 20   // a list of tools, including those that are not offered
	maxPagedBytes       = 64 << 20  // the pages after the first, summed over all lists of a session
)

// offer holds the tools that a server offers in one session.
type offer struct {
	catalogue turn.Catalogue
	names     map[string]string          // tool ID → the server's own name
	tools     map[string]turn.Descriptor // by tool ID
	listed    map[string]bool            // the names of the tools that the server itself lists: see setListed
}

// trimResults is sending middleware that removes unused parts of the results that the SDK keeps until the connection
// ends. It also makes the SDK request each list of tools, even if the server declared the last one cacheable. Results
// for sendUncached do not reach the SDK: it gets an empty result of the same type, which it does not use again.
func trimResults(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		if err != nil {
			return result, err
		}
		if taken, ok := ctx.Value(takenKey{}).(*sdk.Result); ok {
			*taken = result
			return reflect.New(reflect.TypeOf(result).Elem()).Interface().(sdk.Result), nil
		}
		switch r := result.(type) {
		case *sdk.ListToolsResult:
			r.Meta, r.TTLMs = nil, 0
		case *sdk.InitializeResult:
			r.Meta, r.Instructions = nil, ""
		case *sdk.DiscoverResult:
			r.Meta, r.Instructions = nil, ""
		}
		return result, nil
	}
}

// listTools requests every page of the server's list of tools. It fails if a request fails, if a cursor repeats, or if
// the list exceeds maxPages, maxTools or maxListBytes. The list of a server without tools is empty: see listError.
// paged, which is also valid with an error, is the size in bytes of the pages after the first: the SDK keeps each of
// them under its cursor until the session ends.
func listTools(ctx context.Context, cs *sdk.ClientSession, maxPages,
	maxTools int) (tools []*sdk.Tool, paged int, err error) {
	seen, size := map[string]bool{}, 0
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := cs.ListTools(ctx, params)
		if err != nil {
			return nil, paged, listError(cs, err)
		}
		tools = append(tools, page.Tools...)
		before := size
		for _, t := range page.Tools {
			size += sizeOf(t)
		}
		if params.Cursor != "" {
			paged += size - before + len(params.Cursor)
		}
		switch {
		case size > maxListBytes:
			return nil, paged, fmt.Errorf("its list of tools is over %d MiB", maxListBytes>>20)
		case len(tools) > maxTools:
			return nil, paged, fmt.Errorf("it lists more than %d tools, the maximum", maxTools)
		case page.NextCursor == "":
			return tools, paged, nil
		case seen[page.NextCursor]:
			return nil, paged, fmt.Errorf("its list of tools repeats the cursor %q", page.NextCursor)
		}
		seen[page.NextCursor] = true
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, paged, fmt.Errorf("its list of tools has more than %d pages", maxPages)
}

// sizeOf returns the size of a tool's declaration, in bytes of JSON.
func sizeOf(t *sdk.Tool) int {
	b, _ := json.Marshal(t) // t was decoded from JSON
	return len(b)
}

// listError returns the error to report for a list of tools that failed with err. It returns nil if the server declared
// no tools and does not support the method: its list is then empty.
func listError(cs *sdk.ClientSession, err error) error {
	var wire *jsonrpc.Error
	declared := cs.InitializeResult().Capabilities // nil if the server declared nothing, which says nothing about tools
	declaredNoTools := declared != nil && declared.Tools == nil
	if errors.As(err, &wire) && wire.Code == jsonrpc.CodeMethodNotFound && declaredNoTools {
		return nil
	}
	return fmt.Errorf("listing its tools: %w", err)
}

// describer turns a server's tool declarations into descriptors.
type describer struct {
	prefix   string // of tool IDs: "local" or "mcp/<server>"
	server   Server
	settings map[string]tool.Settings
	// callTimeout is the operator's timeout for all of the server's tools; 0: the turn decides.
	callTimeout time.Duration
	// redact removes the server's configured secrets from its descriptions of its tools.
	redact redactor
}

// recordMisnamed records in the catalogue which of the operator's tool settings name a tool that the server does not
// have, at most maxDropped of them. Such settings have no effect. The operator must see that, because a setting may be
// meant to raise a risk.
func (d describer) recordMisnamed(o *offer, tools []*sdk.Tool) {
	for _, name := range slices.Sorted(maps.Keys(d.settings)) {
		if len(o.catalogue.Misnamed) < maxDropped &&
			!slices.ContainsFunc(tools, func(t *sdk.Tool) bool { return t.Name == name }) {
			o.catalogue.Misnamed = append(o.catalogue.Misnamed, d.redact.line(name, 80))
		}
	}
}

// offer describes the tools that the operator allows. It takes them by name and returns them by ID, so that the order
// of the server's list changes neither prompts nor which tools exceed a limit. A tool that cannot be offered is left
// out, and the catalogue names it with the reason (Dropped). offer fails only if ctx ends.
func (d describer) offer(ctx context.Context, tools []*sdk.Tool) (offer, error) {
	o := offer{names: map[string]string{}, tools: map[string]turn.Descriptor{}}
	o.catalogue = d.emptyCatalogue()
	instructions, size := 0, 0 // of the patterns in the offered schemas; of all allowed tools, dropped ones too, in bytes
	for _, t := range slices.SortedStableFunc(slices.Values(tools),
		func(a, b *sdk.Tool) int { return cmp.Compare(a.Name, b.Name) }) {
		if ctx.Err() != nil {
			return offer{}, ctx.Err()
		}
		// A name that is not UTF-8 is not filtered, so that describe reports it.
		if utf8.ValidString(t.Name) && !d.server.allows(t.Name) {
			continue
		}
		if size += sizeOf(t); size > maxOfferBytes {
			o.drop(d.redact.text(t.Name), fmt.Errorf("with it the server's tools are over %d KiB: allow fewer of them",
				maxOfferBytes>>10))
			continue
		}
		desc, parsed, err := d.describe(t)
		if _, twice := o.names[desc.ID]; err == nil && twice {
			err = errors.New("it is listed twice; the first is kept")
		}
		if err == nil && instructions+parsed.Instructions() > schema.MaxListInstructions {
			err = fmt.Errorf(
				"with it the patterns of the server's tools compile to more than %d instructions: allow fewer of them",
				schema.MaxListInstructions)
		}
		if err != nil {
			o.drop(d.redact.text(t.Name), errors.New(d.redact.text(err.Error())))
			continue
		}
		instructions += parsed.Instructions()
		o.names[desc.ID] = t.Name
		o.tools[desc.ID] = desc
		o.catalogue.Tools = append(o.catalogue.Tools, desc)
	}
	d.recordMisnamed(&o, tools)
	slices.SortFunc(o.catalogue.Tools, func(a, b turn.Descriptor) int { return cmp.Compare(a.ID, b.ID) })
	o.catalogue.Hash = tool.Hash(o.catalogue.Tools)
	return o, nil
}

// emptyCatalogue returns the server's catalogue without tools.
func (d describer) emptyCatalogue() turn.Catalogue {
	return turn.Catalogue{
		Server: d.server.ID, Required: d.server.Required, Grace: d.server.CatalogueGrace,
		AllowToolChanges: d.server.TrustChanges, ConfigHash: d.configHash(),
	}
}

// configHash returns a hash of the settings that decide which tools the server has. Workers with different hashes
// publish different versions of the catalogue. The hash leaves out what often holds secrets: the environment, the
// headers, and the URL's user, query and fragment.
func (d describer) configHash() string {
	s := d.server
	address := s.URL
	if u, err := url.Parse(s.URL); err == nil {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		address = u.String()
	}
	return tool.Hash(map[string]any{
		"transport": s.Transport, "command": s.Command, "args": s.Args, "url": address, "allow": s.Allow, "deny": s.Deny,
		"resources": s.Resources, "prompts": s.Prompts,
	})
}

// drop records in the catalogue that a tool is not offered, and why. After maxDropped tools it records only that there
// are more.
func (o *offer) drop(name string, reason error) {
	switch n := len(o.catalogue.Dropped); {
	case n < maxDropped:
		text := fmt.Sprintf("%s: %v", printable.Line(name, 80), reason)
		text = strings.TrimPrefix(text, ": ") // without a name only the reason
		o.catalogue.Dropped = append(o.catalogue.Dropped, text)
	case n == maxDropped:
		o.catalogue.Dropped = append(o.catalogue.Dropped, "and more")
	}
}

// describe returns a tool's descriptor, bounded and redacted, and its compiled schema. It fails if the tool's name or
// schema cannot be used.
func (d describer) describe(t *sdk.Tool) (turn.Descriptor, schema.Schema, error) {
	if err := checkName(t.Name); err != nil {
		return turn.Descriptor{}, schema.Schema{}, err
	}
	if d.redact.result(t.Name) != t.Name {
		return turn.Descriptor{}, schema.Schema{}, errors.New("its name holds a secret that the server was given")
	}
	raw, err := json.Marshal(t.InputSchema)
	if err != nil {
		return turn.Descriptor{}, schema.Schema{}, fmt.Errorf("its schema cannot be read: %w", err)
	}
	canonical, parsed, err := schema.Compile([]byte(d.redact.result(string(raw))))
	if err != nil {
		return turn.Descriptor{}, schema.Schema{}, err
	}
	description, _ := printable.Cut(strings.TrimSpace(d.redact.result(printable.Sanitize(t.Description))),
		maxDescriptionBytes)
	desc := turn.Descriptor{ID: d.prefix + "/" + t.Name, Description: description, Schema: canonical,
		Activity: turn.ActivityRegular}
	desc.Wire = turn.WireName(desc.ID)
	desc.Hash, desc.Details = declarationHash(t, canonical), d.details(t)
	d.applySettings(&desc, t)
	return desc, parsed, nil
}

// declarationHash returns a hash of a tool's declaration: everything on which a model or an operator relies. A tool
// with another hash counts as changed, so the hash of an unchanged declaration must stay the same in later versions.
func declarationHash(t *sdk.Tool, schema json.RawMessage) string {
	declared := map[string]any{
		"name": t.Name, "description": t.Description, "input": schema, "output": t.OutputSchema, "annotations": t.Annotations,
	}
	if t.Title != "" { // an empty title is left out, so that it does not change the hash
		declared["title"] = t.Title
	}
	return tool.Hash(declared)
}

// maxDetailsBytes bounds turn.Descriptor.Details, in bytes.
const maxDetailsBytes = 8 << 10

// details returns the parts of a tool's declaration that only operators see: title, annotations and output schema, as a
// JSON object. It omits an output schema of half of maxDetailsBytes or more. It returns nil if there is nothing to
// show, if the whole is too long, or if redacting breaks the JSON.
func (d describer) details(t *sdk.Tool) json.RawMessage {
	shown := map[string]any{}
	if t.Title != "" {
		shown["title"] = t.Title
	}
	if t.Annotations != nil {
		shown["annotations"] = t.Annotations
	}
	if out, err := json.Marshal(t.OutputSchema); err == nil && t.OutputSchema != nil && len(out) < maxDetailsBytes/2 {
		shown["output"] = json.RawMessage(out)
	}
	b, err := json.Marshal(shown)
	if err != nil || len(shown) == 0 {
		return nil
	}
	kept := d.redact.result(string(b))
	if len(kept) > maxDetailsBytes || !json.Valid([]byte(kept)) {
		return nil
	}
	return json.RawMessage(kept)
}

// applySettings completes the descriptor with the operator's settings for the tool. A tool is repeatable by its setting
// or by an annotation of a trusted server. A timeout that is not set for the tool is the server's, which may be 0, too.
func (d describer) applySettings(desc *turn.Descriptor, t *sdk.Tool) {
	settings := d.settings[t.Name]
	hints := t.Annotations
	if hints == nil {
		hints = &sdk.ToolAnnotations{}
	}
	desc.Repeatable = settings.Repeatable || d.server.Trust && (hints.ReadOnlyHint || hints.IdempotentHint)
	desc.Timeout = cmp.Or(settings.Timeout, d.callTimeout)
	desc.TotalTimeout = cmp.Or(settings.TotalTimeout, d.server.TotalTimeout)
	desc.ElicitationTimeout, desc.Queue = max(d.server.ElicitationTimeout, 0), d.server.Queue
	if settings.LocalActivity {
		desc.Activity = turn.ActivityLocal
	}
	desc.Effects = d.effects(settings, hints)
	desc.Risk = cmp.Or(settings.Risk, d.risk(t, desc.Schema))
}

// effects returns the effects that a call can have beyond its result. A call counts as read-only if the operator says
// so, or if a trusted server declares that the tool only reads and does not reach the outside world. In MCP, a tool
// without that hint may reach the outside world.
func (d describer) effects(settings tool.Settings, hints *sdk.ToolAnnotations) turn.Effects {
	closed := hints.ReadOnlyHint && hints.OpenWorldHint != nil && !*hints.OpenWorldHint
	return turn.Effects{
		ReadOnly:        settings.ReadOnly || d.server.Trust && closed,
		Taints:          !d.server.Trust || d.server.TaintsAll,
		SessionAffinity: d.server.SessionAffinity,
	}
}

// risk returns how much harm the tool can do, from the server's annotations, or else from the words in its name and
// schema. An annotation that raises the risk (destructive) always counts, except for a tool declared read-only, for
// which MCP gives it no meaning. One that lowers the risk counts only if the operator trusts the server.
func (d describer) risk(t *sdk.Tool, schema json.RawMessage) turn.Risk {
	hints := t.Annotations
	if hints == nil {
		hints = &sdk.ToolAnnotations{}
	}
	destructive := hints.DestructiveHint
	switch {
	case !hints.ReadOnlyHint && destructive != nil && *destructive:
		return turn.RiskHigh
	case d.server.Trust && hints.ReadOnlyHint:
		return turn.RiskLow
	case d.server.Trust && destructive != nil: // declared not destructive
		return turn.RiskMedium
	}
	return tool.SuggestedRisk(t.Name, schema)
}

// checkName refuses a tool's name that is empty, too long, not UTF-8, or has white space or an unprintable character.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a tool without a name")
	case len(name) > maxNameBytes:
		return fmt.Errorf("its name is over %d bytes", maxNameBytes)
	case !utf8.ValidString(name):
		return errors.New("its name is not UTF-8")
	}
	for _, r := range name {
		if r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return fmt.Errorf("its name holds %q", r)
		}
	}
	return nil
}
