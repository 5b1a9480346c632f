package adapters

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/everturn/everturn/activities/completion"
	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/activities/inference/chat"
	"github.com/everturn/everturn/activities/inference/demo"
	"github.com/everturn/everturn/activities/inference/messages"
	"github.com/everturn/everturn/activities/inference/responses"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/tape"
	"github.com/everturn/everturn/workflows/turn"
)

// Model sends each prompt to its provider, and knows the models that the configuration names. It implements
// completion.Model.
type Model struct {
	cfg       config.Config
	secrets   *redact.Redactor
	log       *slog.Logger
	provider  string                         // the default provider
	name      string                         // the default model
	own       completion.Model               // replaces the providers; nil if there is none
	tape      *tape.Tape                     // records or replays; nil without llm.tape
	providers map[string]*inference.Endpoint // nil if this worker makes no inferences
	demo      *demo.Server
	slowDemo  bool // makes the demo answer slowly
	list      atomic.Pointer[models.Models]
	notes     []string // settings that the default model does not get
}

// OpenModel returns the configured model. On a worker that makes inferences, it also opens the tape and, unless own
// replaces them, the providers' endpoints, and starts the demo's server if the demo is the provider. Endpoints are not
// contacted. own may be nil. slowDemo makes the demo answer slowly enough to watch. The caller closes the model.
//
// Errors: config.ErrCredentials, config.ErrInvalid.
func OpenModel(ctx context.Context, cfg config.Config, own completion.Model, slowDemo bool,
	secrets *redact.Redactor, log *slog.Logger) (*Model, error) {
	c := cfg.EffectiveLLM()
	m := &Model{cfg: cfg, own: own, slowDemo: slowDemo, secrets: secrets, log: log,
		provider: string(c.Provider), name: c.Model}
	if err := m.open(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Default returns the default provider and its model.
func (m *Model) Default() (provider, model string) { return m.provider, m.name }

func (m *Model) open(ctx context.Context) error {
	if m.cfg.Worker.Has(config.RoleInference) {
		if err := m.openTape(); err != nil {
			return err
		}
		if m.own == nil {
			if err := m.openProviders(ctx); err != nil {
				return err
			}
		}
	}
	return m.openList()
}

// openProviders sets the endpoints of all providers.
func (m *Model) openProviders(ctx context.Context) error {
	if err := m.cfg.CheckCredentials(); err != nil {
		return err
	}
	m.providers = map[string]*inference.Endpoint{}
	if m.cfg.EffectiveLLM().Provider == config.ProviderDemo {
		server, err := demo.Start(ctx, demo.Options{Slow: m.slowDemo})
		if err != nil {
			return err
		}
		m.demo = server
		// Inferences reach the demo over HTTP in the wire format of a real provider.
		demoProvider := config.ModelProvider{ID: config.ProviderDemo, API: turn.APIChat, BaseURL: server.URL(), APIKey: "none"}
		if err := m.openProvider(demoProvider); err != nil {
			return err
		}
	}
	for _, id := range m.cfg.ProviderIDs() {
		p, _ := m.cfg.ModelProvider(id)
		if err := m.openProvider(p); err != nil {
			return err
		}
	}
	return nil
}

// openTape opens the tape of llm.tape, if one is configured. Inferences go through the tape, which records the answers
// of the model behind it, or answers in its place.
func (m *Model) openTape() error {
	folder, replays, err := m.cfg.LLM.TapeFolder()
	if folder == "" || err != nil {
		return err
	}
	m.tape, err = tape.Open(folder, replays, completion.Redacted(untaped{m}, m.secrets), m.secrets, m.log)
	if err != nil {
		return fmt.Errorf("%w: llm.tape: %w", config.ErrInvalid, err)
	}
	m.log.Warn("a tape is in use", "llm.tape", m.cfg.LLM.Tape)
	return nil
}

// untaped is the model whose answers the tape records: its Infer does not go through the tape.
type untaped struct{ *Model }

func (m untaped) Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	return m.inferUntaped(ctx, p, sink)
}

// openProvider adds the endpoint of a provider. The endpoint resolves a model's capabilities at each prompt,
// because the list of models may change while the worker runs.
func (m *Model) openProvider(p config.ModelProvider) error {
	c := m.cfg.LLM
	endpoint, err := inference.New(inference.Options{
		Name: string(p.ID), BaseURL: p.BaseURL, APIKey: p.APIKey.Reveal(), Redact: m.secrets,
		IdleTimeout: c.IdleTimeout, Header: headerOf(p), ExtraBody: json.RawMessage(p.ExtraBody),
		Capabilities: func(model string) []models.Capability {
			r, err := m.list.Load().Resolve(string(p.ID) + ":" + model)
			if err != nil {
				return models.CapabilitiesOf(model)
			}
			return r.Capabilities
		},
		Wire: func(prompt turn.Prompt) inference.Wire { return wires[apiOf(p, prompt)] },
	})
	if err != nil {
		return err
	}
	m.providers[string(p.ID)] = endpoint
	return nil
}

// headerOf returns the configured fields of the header of a provider's requests.
func headerOf(p config.ModelProvider) http.Header {
	h := http.Header{}
	for name, value := range p.Headers {
		h.Set(name, value.Reveal())
	}
	return h
}

// wires are the implementations of the wire APIs.
var wires = map[turn.API]inference.Wire{
	turn.APIChat: chat.Wire{}, turn.APIResponses: responses.Wire{}, turn.APIMessages: messages.Wire{},
}

// newerOpenAI matches the models of OpenAI that Responses serves best. Some of them take tools nowhere else.
var newerOpenAI = regexp.MustCompile(`^(gpt-([5-9]|\d\d)|o\d|codex)`)

// apiOf returns the wire API for a prompt: the one that is configured or known for the provider, else that of the
// prompt. Otherwise it is Responses for newer models of OpenAI at OpenAI's own address, and Chat Completions for all
// others.
func apiOf(p config.ModelProvider, prompt turn.Prompt) turn.API {
	switch {
	case p.API != config.APIAuto && p.API != "":
		return p.API
	case prompt.API != "":
		return prompt.API
	case p.ID == config.ProviderOpenAI && p.Official() && newerOpenAI.MatchString(prompt.Model):
		return turn.APIResponses
	}
	return turn.APIChat
}

// endpoint returns the endpoint of the prompt's provider, or of the default one if the prompt names none.
func (m *Model) endpoint(p turn.Prompt) (*inference.Endpoint, error) {
	id := cmp.Or(p.Provider, m.provider)
	if endpoint := m.providers[id]; endpoint != nil {
		return endpoint, nil
	}
	return nil, turn.NewError(turn.CodeConfigInvalid, nil, fmt.Sprintf(
		"this worker has no provider %q; add it to [[providers]] in agent.toml, or set its key, and start the worker again",
		turn.Truncate(id, 60)))
}

// Infer implements completion.Model.
func (m *Model) Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	if m.tape != nil {
		return m.tape.Infer(ctx, p, sink)
	}
	return m.inferUntaped(ctx, p, sink)
}

// inferUntaped sends a prompt to the embedding program's model, if it has one, and otherwise to the prompt's provider.
func (m *Model) inferUntaped(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	if m.own != nil {
		return m.own.Infer(ctx, p, sink)
	}
	endpoint, err := m.endpoint(p)
	if err != nil {
		return turn.Completion{}, err
	}
	return endpoint.Infer(ctx, p, sink)
}

// Takes implements completion.Model.
func (m *Model) Takes(p turn.Prompt, mediaType string) bool {
	if m.own != nil {
		return m.own.Takes(p, mediaType)
	}
	endpoint, err := m.endpoint(p)
	return err == nil && endpoint.Takes(p, mediaType)
}

// Close closes the endpoints of the providers and the demo's server.
func (m *Model) Close() error {
	var errs []error
	for _, endpoint := range m.providers {
		errs = append(errs, endpoint.Close())
	}
	if m.demo != nil {
		errs = append(errs, m.demo.Close())
	}
	return errors.Join(errs...)
}

// CheckModel checks that the configured provider answers, without making an inference. It returns the provider and the
// model for display. It sends nothing if this worker makes no inferences or if a tape answers.
func CheckModel(ctx context.Context, cfg config.Config) (string, error) {
	m, err := OpenModel(ctx, cfg, nil, false, Secrets(cfg, nil), slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	name := strings.Join(append([]string{m.provider + ", " + m.name}, m.notes...), "; ")
	if m.providers == nil {
		return name + "; other workers call it (worker.roles)", m.Close()
	}
	if cfg.LLM.Replays() {
		return name + "; it is not asked, llm.tape answers", m.Close()
	}
	err = m.providers[m.provider].Ping(ctx)
	return name, errors.Join(err, m.Close())
}
