package config

import "time"

// Tuning holds settings that agent.toml does not have, because their defaults suit every installation. Programs may set
// them.
type Tuning struct {
	// ParallelCalls is the maximum number of tool calls of one completion that run at the same time.
	ParallelCalls int
	// ArgumentBytes is the maximum number of bytes of the arguments of one tool call. A larger call does not run, and the
	// model is told.
	ArgumentBytes int
	// AgentDepth bounds two chains: agents that call agents, and turns that each begin with the answer of a background
	// subagent.
	AgentDepth int
	// RetryMax is the maximum number of retries of an inference within llm.retry_for; nil means no maximum.
	RetryMax *int
	// CacheBytes is the maximum number of bytes of rendered prompts that a worker caches in memory.
	CacheBytes int64
	// JournalRetryFor is how long turns wait for a journal that is unavailable, before they fail. The wait uses no working
	// time of a turn.
	JournalRetryFor time.Duration
}

// The defaults of Tuning.
const (
	parallelCalls   = 8         // more than models request; max_concurrent_calls bounds what a server gets
	argumentBytes   = 1 << 20   // half of the largest payload that Temporal takes
	agentDepth      = 5         // agents, steps and costs bound a tree before; this bounds the names of its agents
	cacheBytes      = 64 << 20  // the prompts of a few hundred turns
	journalRetryFor = time.Hour // an operator has replaced a full disk or restarted a server by then
)

func defaultTuning() Tuning {
	return Tuning{ParallelCalls: parallelCalls, ArgumentBytes: argumentBytes, AgentDepth: agentDepth,
		CacheBytes: cacheBytes, JournalRetryFor: journalRetryFor}
}
