package models

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/everturn/everturn/workflows/turn"
)

// Endpoint is a configured provider.
type Endpoint struct {
	ID string
	// Vendor is the provider's ID in the model list. It is empty for an endpoint that the list does not have, such as a
	// proxy, Ollama or vLLM.
	Vendor string
	// API is the configured wire protocol; empty means the one in the model list.
	API turn.API
	// Thinking is how its models take effort, if the list does not say.
	Thinking turn.ThinkingFormat
	// Settings are those of all its inferences.
	Settings turn.ModelSettings
}

// Override is the operator's description of a model. A zero value leaves the value from the model list.
type Override struct {
	Model           string // "provider:name", or the name of a model of any provider
	ContextTokens   int64
	MaxOutputTokens int64
	Capabilities    []Capability  // nil: the list's
	Efforts         []turn.Effort // nil: the list's
	Price           *Price
	Latency         string
	Quality         int
}

// Status says where the description of a model comes from.
type Status string

// The statuses. For any other model, Resolve returns an *UnknownError.
const (
	Mapped              Status = "mapped"                // the list has it
	MappedWithOverrides Status = "mapped_with_overrides" // the operator describes it, or its endpoint is not in the list
)

// Resolved is a model of a configured provider. Its Provider is the provider's ID in the configuration.
type Resolved struct {
	Profile
	Status  Status `json:"status"`
	guessed bool   // neither the list nor the operator says what the model can do
}

// Models are the models that an agent's configured providers offer.
type Models struct {
	List      *List
	Endpoints []Endpoint // the first one is the default
	Overrides []Override
}

// Demo is the ID of the built-in provider, whose answers follow rules. Its models exist at no other provider.
const Demo = "demo"

// UnknownError means that no configured provider has a model of this name.
type UnknownError struct {
	Name         string
	Provider     string   // the provider that the name refers to
	Date         string   // of the list
	Alternatives []string // the nearest names, in the form provider:name
	Configured   bool     // the provider is in the configuration
	Providers    []string // those in the configuration, if Provider is not
	Exact        string   // the name that Requested takes as one of the default provider, if there may be such a model
}

func (e *UnknownError) Error() string {
	if !e.Configured {
		s := fmt.Sprintf("model %q: provider %s is not configured, only %s; choose another model, or set llm.provider to "+
			"the provider or add it to [[providers]], with its key", turn.Truncate(e.Name, 100), e.Provider,
			strings.Join(e.Providers, ", "))
		if e.Exact != "" {
			s += "; if the name of the model has the colon, write " + turn.Truncate(e.Exact, 120)
		}
		return s
	}
	s := fmt.Sprintf("provider %s has no model %q in the list of %s", e.Provider, turn.Truncate(e.Name, 100), e.Date)
	if len(e.Alternatives) > 0 {
		s += "; the nearest are " + strings.Join(e.Alternatives, ", ")
	}
	return s + ". If it exists, run `everturn models update`, or describe it under [[models]] in agent.toml"
}

// Resolve finds a model by "provider:name" or by its name alone. It looks for a name alone at the default provider
// first. If the part before a colon is not a provider, as in llama3.2:3b, the whole is a name alone. The error is an
// *UnknownError.
func (m Models) Resolve(name string) (Resolved, error) {
	endpoint := m.Endpoints[0]
	if before, after, ok := strings.Cut(name, ":"); ok {
		if i := slices.IndexFunc(m.Endpoints, func(e Endpoint) bool { return e.ID == before }); i >= 0 {
			return m.find(m.Endpoints[i], after)
		}
		// The name is one of a provider that is not configured, unless the default endpoint may have any name.
		if m.List.Has(before) && endpoint.Vendor != "" || before == Demo {
			return Resolved{}, m.noProvider(name, before)
		}
	}
	first, err := m.find(endpoint, name)
	if err == nil {
		return first, nil
	}
	for _, e := range m.Endpoints[1:] {
		if e.Vendor == "" {
			continue // such an endpoint would accept any name
		}
		if found, err := m.find(e, name); err == nil {
			return found, nil
		}
	}
	return Resolved{}, err
}

// A name of the form provider:name, and the tag of a name such as qwen3:8b or mistral:latest, as Ollama has them.
var (
	providerPrefix = regexp.MustCompile(`^[a-z0-9_-]{1,32}:`)
	tagged         = regexp.MustCompile(`^[^:]+:(latest|[0-9][^:]*)$`)
)

// Requested is Resolve for a name that a user gives with a message. In it, what is before a colon must be a configured
// provider, although a server of the operator may have models of any name: otherwise it would get a misspelt provider
// as a part of the model's name. Names that the operator describes and tags such as qwen3:8b stay names.
func (m Models) Requested(name string) (Resolved, error) {
	prefix := strings.TrimSuffix(providerPrefix.FindString(name), ":")
	tag := m.Endpoints[0].Vendor == "" && tagged.MatchString(name)
	known := slices.ContainsFunc(m.Endpoints, func(e Endpoint) bool { return e.ID == prefix }) ||
		slices.ContainsFunc(m.Overrides, func(o Override) bool { return o.Model == name })
	if prefix != "" && !known && !tag {
		return Resolved{}, m.noProvider(name, prefix)
	}
	return m.Resolve(name)
}

// noProvider returns the error for a name of a provider that is not configured.
func (m Models) noProvider(name, provider string) error {
	e := &UnknownError{Name: name, Provider: provider, Date: m.List.Date}
	for _, endpoint := range m.Endpoints {
		e.Providers = append(e.Providers, endpoint.ID)
	}
	if first := m.Endpoints[0]; first.Vendor == "" {
		e.Exact = first.ID + ":" + name
	}
	return e
}

// find returns the model of an endpoint with this name, with the operator's overrides. An endpoint without Vendor has
// every name; of a listed vendor, the list or an override must have the model.
func (m Models) find(e Endpoint, name string) (Resolved, error) {
	r := Resolved{Status: Mapped}
	var known bool
	if r.Profile, known = m.List.Find(e.Vendor, name); !known {
		r.Status = MappedWithOverrides
		r.Profile = Profile{Name: name, Capabilities: CapabilitiesOf(name), Reasoning: m.List.reasoning(e.API, name)}
	}
	r.Provider, r.API = e.ID, cmp.Or(e.API, r.API)
	r.Reasoning.Format = cmp.Or(r.Reasoning.Format, e.Thinking)
	described := false
	r.guessed = !known
	for _, o := range m.Overrides {
		if o.Model == r.ID() || o.Model == name {
			o.apply(&r.Profile)
			described, r.guessed = true, r.guessed && o.Capabilities == nil
		}
	}
	switch {
	case described:
		r.Status = MappedWithOverrides
	case !known && (e.Vendor != "" || name == ""):
		return Resolved{}, &UnknownError{Name: name, Provider: e.ID, Date: m.List.Date, Configured: true,
			Alternatives: m.nearest(e, name)}
	}
	return r, nil
}

// apply replaces the values of p that the override gives.
func (o Override) apply(p *Profile) {
	p.ContextTokens = cmp.Or(o.ContextTokens, p.ContextTokens)
	p.MaxOutputTokens = cmp.Or(o.MaxOutputTokens, p.MaxOutputTokens)
	p.Latency, p.Quality = cmp.Or(o.Latency, p.Latency), cmp.Or(o.Quality, p.Quality)
	if o.Capabilities != nil {
		p.Capabilities = slices.Clone(o.Capabilities)
	}
	if o.Price != nil {
		p.Price = o.Price
	}
	if o.Efforts != nil {
		p.Reasoning.Efforts = words(o.Efforts, p.Reasoning)
	}
}

// words returns the provider's words for these efforts: those of known, a model's description, or else those of the
// wire API.
func words(efforts []turn.Effort, known turn.Reasoning) map[turn.Effort]string {
	out := make(map[turn.Effort]string, len(efforts))
	for _, e := range efforts {
		word, ok := known.Efforts[e]
		if !ok {
			word = turn.Reasoning{}.Word(e)
		}
		out[e] = word
	}
	return out
}

// maxAlternatives bounds the names that an UnknownError suggests.
const maxAlternatives = 3

// nearest returns the IDs of the endpoint's models whose names have the fewest edits from name.
func (m Models) nearest(e Endpoint, name string) (ids []string) {
	var names []string
	for _, p := range m.List.Models {
		if p.Provider == e.Vendor {
			names = append(names, p.Name)
		}
	}
	name = strings.ToLower(turn.Truncate(name, 100))
	slices.SortStableFunc(names, func(a, b string) int {
		return levenshtein.ComputeDistance(name, a) - levenshtein.ComputeDistance(name, b)
	})
	for _, n := range names[:min(len(names), maxAlternatives)] {
		ids = append(ids, e.ID+":"+n)
	}
	return ids
}

// Model returns the form of r that a turn config keeps. why is the reason for its selection.
func (m Models) Model(r Resolved, why string) turn.Model {
	mode := turn.ModeJSON
	if r.Has(ToolUse) {
		mode = turn.ModeNative
	}
	out := turn.Model{Provider: r.Provider, Name: r.Name, API: r.API, Mode: mode, ContextTokens: r.ContextTokens,
		MaxOutputTokens: r.MaxOutputTokens, Price: r.Price.Exact(), Reasoning: r.Reasoning, Guessed: r.guessed, Why: why}
	for _, e := range m.Endpoints {
		if e.ID == r.Provider {
			out.Settings = e.Settings
		}
	}
	return out
}
