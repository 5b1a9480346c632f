package activities

import (
	"encoding/json"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"

	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/internal/outage"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Options are the dependencies of the activities. Journal, Model and Tools are required, and Agents if turns begin on
// this worker.
type Options struct {
	Journal Journal
	Model   Model
	Tools   Tools
	// Agents are the agents that turns may run as; the first one is the default.
	Agents []Agent
	Worker string // names this process in the journal's claims
	// Home is the task queue that only this process polls; empty if it runs no calls. TaskQueue is the task queue of its
	// turns.
	Home, TaskQueue string
	// Offers returns the versions that this worker offers of its tool servers, by server: see turn.Catalogue.Version. Nil
	// means that it offers none.
	Offers func() map[string]string
	// Redact removes secrets from text before it reaches the history, the journal or events. Nil leaves text unchanged.
	Redact *redact.Redactor
	// Queues are the task queues for the inferences and calls of the turns that begin on this worker. Elsewhere has a
	// task queue for each role that this worker lacks: see workflows.Elsewhere.
	Queues, Elsewhere turn.Queues
	// Capacity keeps inferences within the fleet limits. Nil means that there are none.
	Capacity *capacity.Limiter
	// Budget has the ceilings of each session and tenant. The ceiling of a turn is in its config.
	Budget journal.Budget
	// JournalRetryFor is how long this worker's activities retry while the journal is unavailable. Turns that begin on
	// this worker get it as their turn.Config.JournalRetryFor.
	JournalRetryFor time.Duration
	// Slots is how many activities of a task queue this worker runs at the same time; 0 means many. At most half of them
	// wait for a user.
	Slots int
	// CacheBytes bounds the cache of transcript windows; 0 means 64 MiB.
	CacheBytes int64
}

// Activities implements workflows.Activities. Register a pointer to it; it has no other exported methods.
type Activities struct {
	journal         Journal
	model           Model
	tools           Tools
	agent           Agent // the default agent
	agents          []Agent
	worker          string
	home, taskQueue string
	offers          func() map[string]string
	secrets         *redact.Redactor
	windows         *windowCache
	promptConfigs   *promptConfigCache
	turns           *lru.Cache[string, begunTurn]
	running         running
	outages         *outage.Outages // of models
	large           largeAnswers
	prompts         *semaphore.Weighted
	waitingCalls    *semaphore.Weighted // for a user
	queues          turn.Queues
	elsewhere       turn.Queues
	capacity        *capacity.Limiter
	journalRetryFor time.Duration
	budget          journal.Budget
	// times holds two kinds of entries: when a turn last showed what it waits for, and the time of a claim whose reply
	// from the journal may have been lost.
	times          *lru.Cache[string, time.Time]
	lastInferences *lru.Cache[string, lastInference] // by the hash of the head after the inference
}

// New returns the activities with empty caches.
func New(o Options) (*Activities, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.Slots == 0 {
		o.Slots = 2 * maxWaitingCalls
	}
	if o.Offers == nil {
		o.Offers = func() map[string]string { return nil }
	}
	if len(o.Agents) == 0 {
		o.Agents = []Agent{{}} // for tests that begin no turns
	}
	windows, err := newWindowCache(o.CacheBytes)
	if err != nil {
		return nil, fmt.Errorf("making the cache of prompts: %w", err)
	}
	promptConfigs, err := newPromptConfigCache(o.Journal)
	if err != nil {
		return nil, fmt.Errorf("making the cache of prompt configs: %w", err)
	}
	turns, err := lru.New[string, begunTurn](maxTurns)
	if err != nil {
		return nil, fmt.Errorf("making the cache of turns: %w", err)
	}
	times, err := lru.New[string, time.Time](maxTurns)
	if err != nil {
		return nil, fmt.Errorf("making the cache of times: %w", err)
	}
	last, err := lru.New[string, lastInference](maxLastInferences)
	if err != nil {
		return nil, fmt.Errorf("making the cache of compactions: %w", err)
	}
	return &Activities{
		lastInferences: last,
		turns:          turns, outages: outage.New(maxModelPause), large: make(largeAnswers, 4),
		prompts: semaphore.NewWeighted(largePrompts), journal: o.Journal,
		waitingCalls: semaphore.NewWeighted(int64(min(maxWaitingCalls, o.Slots/2))),
		capacity:     o.Capacity, budget: o.Budget, times: times, journalRetryFor: o.JournalRetryFor,
		model: Redacted(o.Model, o.Redact), tools: o.Tools, agent: o.Agents[0], agents: o.Agents, worker: o.Worker,
		home: o.Home, taskQueue: o.TaskQueue, offers: o.Offers,
		secrets: o.Redact, windows: windows, promptConfigs: promptConfigs, queues: o.Queues, elsewhere: o.Elsewhere,
	}, nil
}

// decodeConfig decodes a turn config from the JSON in the journal.
func decodeConfig(raw json.RawMessage) (turn.Config, error) {
	var c turn.Config
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, turn.Errorf(turn.CodeInternal, err, "the turn's config cannot be read")
	}
	return c, nil
}
