package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/everturn/everturn/workflows/turn"
)

// APIAuto as ModelProvider.API leaves the wire API to the model and the endpoint.
const APIAuto turn.API = "auto"

// knownProviders are the providers that need no base_url, by ID.
var knownProviders = map[Provider]ModelProvider{
	ProviderOpenAI: {BaseURL: "https://api.openai.com/v1"},
	"anthropic":    {BaseURL: "https://api.anthropic.com/v1", API: turn.APIMessages},
	"deepseek":     {BaseURL: "https://api.deepseek.com/v1", API: turn.APIChat},
	"gemini":       {BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", API: turn.APIChat},
	"groq":         {BaseURL: "https://api.groq.com/openai/v1", API: turn.APIChat},
	"mistral":      {BaseURL: "https://api.mistral.ai/v1", API: turn.APIChat},
	"openrouter":   {BaseURL: "https://openrouter.ai/api/v1", API: turn.APIChat, ThinkingFormat: turn.ThinkingOpenRouter},
	"xai":          {BaseURL: "https://api.x.ai/v1", API: turn.APIResponses},
}

// defaultModels has the default model of each known provider, and the demo's only model. A test of package adapters
// checks that the model list has them.
var defaultModels = map[Provider]string{
	ProviderDemo:   "demo",
	ProviderOpenAI: "gpt-4.1-mini",
	"anthropic":    "claude-sonnet-5-5",
	"deepseek":     "deepseek-flash",
	"gemini":       "gemini-3.8-flash",
	"groq":         "openai/gpt-oss-120b",
	"mistral":      "mistral-large-4",
	"openrouter":   "openrouter/auto", // which chooses one by the prompt
	"xai":          "grok-4.7",
}

// KeyVariable returns the environment variable of a provider's key: ANTHROPIC_API_KEY.
func KeyVariable(id Provider) string {
	return strings.ToUpper(strings.ReplaceAll(string(id), "-", "_")) + "_API_KEY"
}

// applyProviderKeys takes API keys from the environment. It sets the key of each block of [[providers]] that has none,
// and adds a block for each known provider that has no block but a key. It adds none for openai, whose key is that of
// [llm].
func (l *loader) applyProviderKeys() {
	c := &l.loaded.Config
	for i := range c.Providers {
		if p := &c.Providers[i]; p.APIKey == "" {
			p.APIKey = Secret(l.env[KeyVariable(p.ID)])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(knownProviders)) {
		key := l.env[KeyVariable(id)]
		if id != ProviderOpenAI && key != "" && c.block(id) == nil {
			c.Providers = append(c.Providers, ModelProvider{ID: id, API: APIAuto, APIKey: Secret(key)})
		}
	}
}

// block returns the block of a provider in [[providers]], or nil.
func (c Config) block(id Provider) *ModelProvider {
	i := slices.IndexFunc(c.Providers, func(p ModelProvider) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return &c.Providers[i]
}

// ProviderIDs returns the IDs of the providers that a model may name, without the demo: those of [[providers]], openai,
// and the one of [llm]. A worker that makes no inferences has no keys, so its turns may name all known providers.
func (c Config) ProviderIDs() []Provider {
	ids := []Provider{ProviderOpenAI}
	for _, p := range c.Providers {
		ids = append(ids, p.ID)
	}
	if chosen := c.EffectiveLLM().Provider; chosen != ProviderDemo {
		ids = append(ids, chosen)
	}
	if !c.Worker.Has(RoleInference) {
		ids = slices.AppendSeq(ids, maps.Keys(knownProviders))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// ModelProvider returns the settings of a provider: those of its block in [[providers]], completed by the built-in ones
// of a known provider. Without a block, openai has the base_url and api_key of [llm]. The second result is false if id
// neither has a block nor is known.
func (c Config) ModelProvider(id Provider) (ModelProvider, bool) {
	known, ok := knownProviders[id]
	p := ModelProvider{ID: id, API: APIAuto}
	if b := c.block(id); b != nil {
		p, ok = *b, true
	} else if id == ProviderOpenAI {
		p.BaseURL, p.APIKey = c.LLM.BaseURL, c.LLM.APIKey
	}
	if p.API == APIAuto || p.API == "" {
		p.API = cmp.Or(known.API, APIAuto)
	}
	p.BaseURL = cmp.Or(p.BaseURL, known.BaseURL)
	p.ThinkingFormat = cmp.Or(p.ThinkingFormat, known.ThinkingFormat)
	return p, ok
}

// Official reports whether the provider is a vendor at its own address.
func (p ModelProvider) Official() bool {
	known, ok := knownProviders[p.ID]
	return ok && p.BaseURL == known.BaseURL
}

// EffectiveLLM returns [llm] with its provider and model resolved; the model stays empty if llm.select chooses it among
// those of a provider that is not known. A model "anthropic:claude-…" names its provider, unless llm.provider names
// another. If llm.base_url is set, a prefix names a provider only if it is openai or has a block in [[providers]],
// because the server there may have models such as "mistral:7b". The demo has only one model, which replaces any other.
func (c Config) EffectiveLLM() LLM {
	l := c.LLM
	if before, name, ok := strings.Cut(l.Model, ":"); ok && name != "" {
		id := Provider(before)
		_, exists := c.ModelProvider(id)
		isProvider := exists && (l.BaseURL == "" || id == ProviderOpenAI || c.block(id) != nil)
		if isProvider && (l.Provider == ProviderAuto || l.Provider == id) {
			l.Provider, l.Model = id, name
		}
	}
	if l.Provider == ProviderAuto {
		l.Provider = c.autoProvider()
	}
	if l.Model == "" || l.Provider == ProviderDemo {
		l.Model = defaultModels[l.Provider]
	}
	return l
}

// autoProvider returns the provider that "auto" stands for: openai if [llm] has its key or an address, or if
// [[providers]] has it; otherwise the first of c.Providers that needs no key or has one; otherwise the demo. The known
// providers whose keys are in the environment follow those of the file (see applyProviderKeys).
func (c Config) autoProvider() Provider {
	if c.LLM.APIKey != "" || c.LLM.BaseURL != "" || c.block(ProviderOpenAI) != nil {
		return ProviderOpenAI
	}
	for _, b := range c.Providers {
		if p, _ := c.ModelProvider(b.ID); p.APIKey != "" || !p.Official() {
			return p.ID
		}
	}
	return ProviderDemo
}

// ProviderKnown reports whether the configuration determines the provider. It does not if the provider is "auto" and
// nothing here says which: then the API key may be set for other workers only.
func (c Config) ProviderKnown() bool {
	return c.LLM.Provider == ProviderDemo || c.EffectiveLLM().Provider != ProviderDemo
}

// TapeFolder returns the folder of llm.tape, and whether models' answers are replayed from it rather than recorded into
// it. Without a tape, folder is empty. The text of an error continues after the key llm.tape.
func (l LLM) TapeFolder() (folder string, replays bool, err error) {
	mode, folder, _ := strings.Cut(l.Tape, ":")
	replays = mode == "replay"
	valid := folder != "" && (replays || mode == "record")
	if l.Tape != "" && !valid {
		return "", false, fmt.Errorf(`is %s; it must be "record:DIR" or "replay:DIR"`, quote(l.Tape))
	}
	return folder, replays, nil
}

// Replays reports whether a tape answers in place of the models.
func (l LLM) Replays() bool {
	_, replays, err := l.TapeFolder()
	return err == nil && replays
}

// CheckCredentials returns an *Error that matches ErrCredentials if the provider of [llm] needs an API key and has
// none. The demo, a replayed tape, and a server at an address other than the vendor's own need no key.
func (c Config) CheckCredentials() error {
	l := c.EffectiveLLM()
	p, exists := c.ModelProvider(l.Provider) // Validate reports a provider that does not exist
	needsKey := exists && p.Official() && l.Provider != ProviderDemo && !c.LLM.Replays()
	if !needsKey || p.APIKey != "" {
		return nil
	}
	key, instead := "providers.api_key", "the provider's api_key in [[providers]]"
	if p.ID == ProviderOpenAI {
		key, instead = "llm.api_key", "llm.base_url for a server that needs no key"
	}
	return &Error{Problems: []Problem{{Key: key, Credentials: true, Message: fmt.Sprintf(
		`%s is unset, and provider "%s" needs one; set %s, or %s, or provider = "demo"`, key, p.ID, KeyVariable(p.ID),
		instead)}}}
}

// providers checks [[providers]], and unless the demo answers, that the provider of [llm] exists and has a model, and
// that llm.base_url has an effect.
func (v *validator) providers(c Config) {
	for i, p := range c.Providers {
		key := fmt.Sprintf("providers[%d]", i)
		switch _, known := knownProviders[p.ID]; {
		case p.ID == ProviderAuto || p.ID == ProviderDemo || !serverID.MatchString(string(p.ID)):
			v.add(key+".id", "is %s; it must be at most 32 of a-z, 0-9, _ and -, and neither auto nor demo",
				quote(string(p.ID)))
		case slices.IndexFunc(c.Providers, func(o ModelProvider) bool { return o.ID == p.ID }) < i:
			v.add(key+".id", "is %q, like that of another provider; give every provider its own ID", p.ID)
		case !known && p.BaseURL == "":
			v.add(key+".base_url", "is unset, and no provider with this id is known; set its address")
		}
		v.address(key+".base_url", p.BaseURL)
		v.stops(key+".stop", p.ModelSettings)
		v.requests(key, p)
	}
	l := c.EffectiveLLM()
	if l.Provider == ProviderDemo {
		return
	}
	if _, ok := c.ModelProvider(l.Provider); !ok {
		known := []string{string(ProviderAuto), string(ProviderDemo)}
		for id := range maps.Keys(knownProviders) {
			known = append(known, string(id))
		}
		for _, p := range c.Providers {
			known = append(known, string(p.ID))
		}
		slices.Sort(known)
		v.add("llm.provider", "%s", suggest(fmt.Sprintf("is %s; it must be the id of one in [[providers]], or one of %s",
			quote(string(l.Provider)), strings.Join(slices.Compact(known), ", ")), string(l.Provider), known))
	} else if l.Model == "" && c.LLM.Select.Preference == "" {
		v.add("llm.model", "is empty; name a model of the provider %q, or set llm.select.preference", l.Provider)
	}
	if b := c.block(ProviderOpenAI); b != nil && c.LLM.BaseURL != "" && c.LLM.BaseURL != b.BaseURL {
		v.add("providers", `has an entry "openai", so llm.base_url has no effect; remove one of them`)
	}
}

// ownFields are the fields of a request that the adapters write, and that ModelProvider.ExtraBody cannot replace.
var ownFields = []string{"model", "messages", "input", "system", "instructions", "tools", "stream", "store"}

// requests checks what a provider adds to its requests: the header and the body.
func (v *validator) requests(key string, p ModelProvider) {
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(p.Headers[name].Reveal()) {
			v.add(key+".headers", "has %s, which is not a valid HTTP header", quote(name))
		}
	}
	if p.ExtraBody == "" {
		return
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(p.ExtraBody), &fields); err != nil || fields == nil {
		v.add(key+".extra_body", `is not a JSON object, such as {"top_k": 40}`)
	}
	for _, name := range ownFields {
		if _, ok := fields[name]; ok {
			v.add(key+".extra_body", "has the field %q, which only the worker writes; remove it", name)
		}
	}
}

// endpoint returns the ID of the provider of [llm], or the host of its base_url if that is not the vendor's own
// address. It is part of the name of the task queue of inferences (see Queue), so all workers must compute the same.
func (c Config) endpoint() string {
	id := c.EffectiveLLM().Provider
	p, _ := c.ModelProvider(id)
	if u, err := url.Parse(p.BaseURL); err == nil && id != ProviderDemo && !p.Official() {
		return cmp.Or(u.Host, string(id))
	}
	return string(id)
}
