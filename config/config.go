package config

import (
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Config is the content of agent.toml. Its zero value is not usable: start from Default or Load.
type Config struct {
	// Tenant is the tenant that a client acts for; empty means the default tenant. A client sees and begins only that
	// tenant's sessions. Workers serve all tenants, regardless of this value.
	Tenant string `toml:"tenant"`

	Runtime    Runtime    `toml:"runtime"`
	LocalFiles LocalFiles `toml:"local_files"`
	LLM        LLM        `toml:"llm"`
	Policy     Policy     `toml:"policy"`
	Approvals  Approvals  `toml:"approvals"`
	MCP        MCP        `toml:"mcp"`
	Journal    Journal    `toml:"journal"`
	Temporal   Temporal   `toml:"temporal"`
	Worker     Worker     `toml:"worker"`
}

// Runtime describes the agent and bounds its turns.
type Runtime struct {
	// Agent is the agent's name in search attributes and in the Web UI.
	Agent string `toml:"agent"`
	// SystemPrompt is sent to the model before the transcript.
	SystemPrompt string `toml:"system_prompt"`
	// Mode is how the model requests tool calls.
	Mode turn.Mode `toml:"mode" enum:"auto,native,json"`
	// MaxSteps is the maximum number of inferences of a turn; reprompts and retried steps count.
	MaxSteps int `toml:"max_steps" min:"1"`
	// MaxToolCalls is the maximum number of tool calls of a turn.
	MaxToolCalls int `toml:"max_tool_calls" min:"0"`
	// MaxConsecutiveErrors is the number of consecutive errors that a turn survives.
	MaxConsecutiveErrors int `toml:"max_consecutive_errors" min:"0"`
	// TurnTimeout bounds the working time of inferences and tools; time spent waiting for a decision does not count.
	TurnTimeout time.Duration `toml:"turn_timeout" min:"1s"`
	// ToolTimeout bounds a tool call whose tool sets no timeout of its own.
	ToolTimeout time.Duration `toml:"tool_timeout" min:"1ms"`
	// MaxReprompts is how often a turn tells the model what was wrong with its completion.
	MaxReprompts int `toml:"max_reprompts" min:"0"`
	// MaxHistoryMessages is the maximum number of messages in a prompt.
	MaxHistoryMessages int `toml:"max_history_messages" min:"2"`
	// KeepHistoryMessages is how many messages are left when MaxHistoryMessages is exceeded. Cutting in blocks keeps
	// the prompt's prefix stable for the provider's cache.
	KeepHistoryMessages int `toml:"keep_history_messages" min:"1"`
	// MaxParallelCalls is the maximum number of tool calls of one completion that run at the same time.
	MaxParallelCalls int `toml:"max_parallel_calls" min:"1"`
	// MaxTokens is a turn's maximum of input plus output tokens; 0 means no limit.
	MaxTokens int64 `toml:"max_tokens" min:"0"`
	// MaxCostUSD is a turn's maximum cost in US dollars; 0 means no limit. Any other value is an error, because the
	// product knows no model prices yet.
	MaxCostUSD float64 `toml:"max_cost_usd" min:"0"`
	// Workspace is the folder that the local tools are confined to, relative to the working directory.
	Workspace string `toml:"workspace"`
	// MaxResultBytes is how much of a tool's output the model sees, in bytes; the journal keeps all of it.
	MaxResultBytes int `toml:"max_result_bytes" min:"1024"`
	// Redact are regular expressions (RE2) of secrets. Matches are redacted in the output of the model and the tools,
	// in the arguments of calls before they are approved and sent, and in logs. The secrets of this configuration are
	// always redacted.
	Redact []string `toml:"redact"`
}

// LocalFiles restricts which files of the workspace the file tools read.
type LocalFiles struct {
	// Deny are patterns of files that may hold credentials: see files.Options.
	Deny []string `toml:"deny"`
	// HardLinks permits reading files that have several hard links.
	HardLinks bool `toml:"hard_links"`
}

// ModeAuto leaves the mode to the known capabilities of the model.
const ModeAuto turn.Mode = "auto"

// LLM selects the model and bounds its inferences.
type LLM struct {
	// Provider is auto until Effective resolves it.
	Provider Provider `toml:"provider" enum:"auto,demo,openai"`
	// Model is the model's name; empty means the provider's default. See Effective.
	Model string `toml:"model"`
	// BaseURL is an OpenAI-compatible endpoint, for instance http://127.0.0.1:11434/v1; empty means OpenAI's own.
	BaseURL string `toml:"base_url"`
	// APIKey is sent to BaseURL.
	APIKey Secret `toml:"api_key"`
	// Temperature is nil for the provider's default; 0 is sent as 0.
	Temperature *float64 `toml:"temperature" min:"0"`
	// MaxOutputTokens bounds one completion; 0 leaves the bound to the provider.
	MaxOutputTokens int `toml:"max_output_tokens" min:"0"`
	// Media is which parts of tool results the model gets besides text; auto follows the known capabilities of the
	// model.
	Media Media `toml:"media" enum:"auto,none,images,all"`
	// RetryMax is how often a transport error or a rate limit is retried.
	RetryMax int `toml:"retry_max" min:"0"`
	// ConnectTimeout bounds dialling and the TLS handshake.
	ConnectTimeout time.Duration `toml:"connect_timeout" min:"1ms"`
	// FirstTokenTimeout bounds the time from the request to the first byte of the completion.
	FirstTokenTimeout time.Duration `toml:"first_token_timeout" min:"1ms"`
	// IdleTimeout bounds the silence between two pieces of a stream.
	IdleTimeout time.Duration `toml:"idle_timeout" min:"1ms"`
	// TotalTimeout bounds one inference as a whole.
	TotalTimeout time.Duration `toml:"total_timeout" min:"1ms"`
	// MaxRetryAfter caps the delay that a provider asks for with Retry-After.
	MaxRetryAfter time.Duration `toml:"max_retry_after" min:"0s"`
	// DemoSlow makes the demo provider answer slowly, so that its stream can be watched.
	DemoSlow bool `toml:"demo_slow"`
}

// Provider names a kind of model endpoint.
type Provider string

// The providers.
const (
	ProviderAuto   Provider = "auto"   // openai if a key or a base_url is set, else demo
	ProviderDemo   Provider = "demo"   // the built-in rule-based stand-in; no language model
	ProviderOpenAI Provider = "openai" // OpenAI, or any server that speaks its Chat Completions
)

// Media is what a model accepts besides text.
type Media string

// The values of Media.
const (
	MediaAuto   Media = "auto"
	MediaNone   Media = "none"
	MediaImages Media = "images"
	MediaAll    Media = "all"
)

// Policy decides which tools may be called and what follows an error.
type Policy struct {
	// Allow, Deny and Ask are patterns of tool IDs (local/read_file, mcp/files/*, *). Deny wins over Ask, Ask over
	// Allow; a tool that no pattern matches is denied.
	Allow []string `toml:"allow"`
	Deny  []string `toml:"deny"`
	Ask   []string `toml:"ask"`
	// AskRisk is the lowest risk at which an allowed call needs an approval.
	AskRisk turn.Risk `toml:"ask_risk" enum:"low,medium,high,never"`
	// Taint guards a session whose transcript holds text of an untrusted server: later calls that could change or send
	// something need an approval. Strict guards a session after text of any server, and covers every call.
	Taint turn.TaintMode `toml:"taint" enum:"on,off,strict"`
	// OnModelError is what follows an inference that failed permanently.
	OnModelError turn.ErrorAction `toml:"on_model_error" enum:"fail,retry,reprompt,interrupt"`
	// OnToolError is what follows a tool's error; reprompt means that the model gets the error as the call's result.
	// There is no retry: a settled call never runs again, and a call that was not sent is dispatched again in any case.
	OnToolError turn.ErrorAction `toml:"on_tool_error" enum:"fail,reprompt,interrupt"`
	// OnInvalidAction is what follows a completion that is not a valid action. There is no retry, because it would send
	// the same prompt again.
	OnInvalidAction turn.ErrorAction `toml:"on_invalid_action" enum:"fail,reprompt,interrupt"`
	// Rules apply to calls that Deny does not match. The first rule that matches a call decides, before Ask, Allow and
	// AskRisk.
	Rules []PolicyRule `toml:"rules"`
}

// PolicyRule decides about calls of a tool by their arguments.
type PolicyRule struct {
	// Tool is a pattern of tool IDs, as in Policy.Allow.
	Tool string `toml:"tool"`
	// Arguments are patterns of values by dotted key, all of which must match; an empty map matches every call. See
	// turn.Rule and turn.CheckPattern.
	Arguments map[string]string `toml:"arguments"`
	// Permit is the rule's decision.
	Permit turn.Permission `toml:"permit" enum:"allow,ask,deny"`
	// Why is shown with the request, or to the model with the denial.
	Why string `toml:"why"`
}

// AskNever as Policy.AskRisk means that risk alone never makes a call need an approval.
const AskNever turn.Risk = "never"

// Approvals bounds how long a turn waits for decisions. Waiting uses no process, no turn_timeout and no step.
type Approvals struct {
	// ApprovalExpiry is how long an approval request stays open; 0 means without limit.
	ApprovalExpiry time.Duration `toml:"approval_expiry" min:"0s"`
	// OnExpiry is the decision on an approval request that expires.
	OnExpiry turn.Permission `toml:"on_expiry" enum:"deny,allow"`
	// QuestionExpiry is how long a question of the model stays open; 0 means without limit.
	QuestionExpiry time.Duration `toml:"question_expiry" min:"0s"`
}

// Journal configures where the journal is kept.
type Journal struct {
	// Driver is the kind of database.
	Driver Driver `toml:"driver" enum:"sqlite,postgres"`
	// Path is the file of a SQLite database, relative to the working directory.
	Path string `toml:"path"`
	// URL is the connection string of a Postgres database, "postgres://user@host/database".
	URL Secret `toml:"url"`
	// Synchronous full survives a power cut, normal a crash of the process. It applies to SQLite only.
	Synchronous Synchronous `toml:"synchronous" enum:"full,normal"`
	// CacheBytes bounds the rendered prompt prefixes that a worker caches, in bytes.
	CacheBytes int64 `toml:"cache_bytes" min:"0" max:"1099511627776"`
	// ChunkRetention is how long the chunks of a finished turn are kept; 0 keeps them without limit. Transcripts are
	// always kept.
	ChunkRetention time.Duration `toml:"chunk_retention" min:"0s"`
}

// Driver is a kind of database.
type Driver string

// The databases that can hold a journal: SQLite for one machine, Postgres for workers on several.
const (
	DriverSQLite   Driver = "sqlite"
	DriverPostgres Driver = "postgres"
)

// Place describes where the journal is, for display: the file's path, or the server's kind. It leaves out the
// connection string, which may hold a password.
func (j Journal) Place() string {
	if j.Driver == DriverPostgres {
		return "Postgres"
	}
	return j.Path
}

// Synchronous is when SQLite syncs the journal's writes to disk.
type Synchronous string

// The levels of SQLite's pragma of that name.
const (
	SynchronousFull   Synchronous = "full"
	SynchronousNormal Synchronous = "normal"
)

// Temporal configures the server that runs the turns.
type Temporal struct {
	// Address is host:port; empty means Temporal's own configuration (TEMPORAL_*, profiles), or 127.0.0.1:7233 without
	// one.
	Address string `toml:"address"`
	// Namespace is empty for the one of Temporal's own configuration, or "default" without one.
	Namespace string `toml:"namespace"`
	// TaskQueue is the task queue that the workers poll.
	TaskQueue string `toml:"task_queue"`
	// UIURL is the Web UI's address for links; empty means dev_ui_port on loopback.
	UIURL string `toml:"ui_url"`
	// Profile is a profile of Temporal's own configuration file.
	Profile string `toml:"profile"`
	TLS     bool   `toml:"tls"`
	APIKey  Secret `toml:"api_key"`
	// AllowPlaintext permits a connection without TLS to a server beyond loopback.
	AllowPlaintext bool `toml:"allow_plaintext"`
	// DevUIPort is the Web UI port of the server that --dev starts.
	DevUIPort int `toml:"dev_ui_port" min:"1"`
}

// Worker bounds the resources of a worker.
type Worker struct {
	// MaxConcurrentTurns is the maximum number of workflow tasks, MaxConcurrentActivities that of inferences and tool
	// calls in flight.
	MaxConcurrentTurns      int `toml:"max_concurrent_turns" min:"2"`
	MaxConcurrentActivities int `toml:"max_concurrent_activities" min:"1"`
	// StickyCache is how many turns a worker keeps in memory between their workflow tasks. An evicted turn is rebuilt
	// from its history when it wakes, within a second. A turn that waits for a decision stays cached like any other,
	// for days if nothing evicts it: with 10,000 waiting turns a worker's memory follows this number, not theirs.
	StickyCache int `toml:"sticky_cache" min:"0"`
	// DrainTimeout is how long a stopping worker waits for its activities.
	DrainTimeout time.Duration `toml:"drain_timeout" min:"0s"`
	// Identity names the worker in the Web UI; empty means process ID and host name.
	Identity string `toml:"identity"`
}
