package config

import "time"

// Config is the whole of agent.toml. Its zero value is not usable: begin with Default or Load.
type Config struct {
	// Tenant is for whom a client acts, empty for the one default tenant: it sees that tenant's sessions and no others, and
	// begins sessions of that tenant. Workers serve all tenants, whatever it says.
	Tenant string `toml:"tenant"`

	Runtime    Runtime    `toml:"runtime"`
	LocalFiles LocalFiles `toml:"local_files"`
	LLM        LLM        `toml:"llm"`
	Policy     Policy     `toml:"policy"`
	Approvals  Approvals  `toml:"people"`
	MCP        MCP        `toml:"mcp"`
	Journal    Journal    `toml:"journal"`
	Temporal   Temporal   `toml:"temporal"`
	Worker     Worker     `toml:"worker"`
}

// Runtime says what the agent is and bounds its turns.
type Runtime struct {
	// Agent is the agent's name in indexes and in the Web UI.
	Agent string `toml:"agent"`
	// SystemPrompt is what the model is told before the transcript.
	SystemPrompt string `toml:"system_prompt"`
	// Mode is how the model asks for tools.
	Mode Mode `toml:"mode" enum:"auto,native,json"`
	// MaxSteps bounds a turn's inferences; reprompts and retried steps count.
	MaxSteps int `toml:"max_steps" min:"1"`
	// MaxToolCalls bounds a turn's tool calls.
	MaxToolCalls int `toml:"max_tool_calls" min:"0"`
	// MaxConsecutiveErrors is how many errors in a row a turn survives.
	MaxConsecutiveErrors int `toml:"max_consecutive_errors" min:"0"`
	// TurnTimeout bounds the time that inferences and tools work; waiting for a person does not count.
	TurnTimeout time.Duration `toml:"turn_timeout" min:"1s"`
	// ToolTimeout bounds one tool call whose tool says nothing else.
	ToolTimeout time.Duration `toml:"tool_timeout" min:"1ms"`
	// MaxReprompts is how often a turn tells the model what was wrong with its answer.
	MaxReprompts int `toml:"max_reprompts" min:"0"`
	// MaxHistoryMessages is how many messages a prompt holds at most.
	MaxHistoryMessages int `toml:"max_history_messages" min:"2"`
	// KeepHistoryMessages is how many are left when MaxHistoryMessages is passed. Cutting in blocks keeps the
	// prompt's prefix stable for the provider's cache.
	KeepHistoryMessages int `toml:"keep_history_messages" min:"1"`
	// MaxParallelCalls bounds the tool calls of one answer that run at the same time.
	MaxParallelCalls int `toml:"max_parallel_calls" min:"1"`
	// MaxTokens is a turn's ceiling of input plus output tokens; 0 means none.
	MaxTokens int64 `toml:"max_tokens" min:"0"`
	// MaxCostUSD is a turn's ceiling in US dollars; 0 means none. Any other value is an error: no model's price is known yet.
	MaxCostUSD float64 `toml:"max_cost_usd" min:"0"`
	// Workspace is the folder that the local tools are confined to, relative to the working directory.
	Workspace string `toml:"workspace"`
	// MaxResultBytes is how much of a tool's output the model is shown, in bytes; the journal keeps the whole.
	MaxResultBytes int `toml:"max_result_bytes" min:"1024"`
	// Redact are regular expressions (RE2) of secrets that are blanked in what the model and the tools say, in the arguments
	// of calls before they are approved and sent, and in logs. The values of this configuration are blanked without one.
	Redact []string `toml:"redact"`
}

// LocalFiles says which files of the workspace the file tools do not read.
type LocalFiles struct {
	// Deny are patterns of files that may hold credentials: see files.Options.
	Deny []string `toml:"deny"`
	// HardLinks permits reading files that have several hard links.
	HardLinks bool `toml:"hard_links"`
}

// Mode is how a model asks for tools.
type Mode string

// The modes.
const (
	ModeAuto   Mode = "auto"   // by what the model is known to do
	ModeNative Mode = "native" // the provider's tool calls
	ModeJSON   Mode = "json"   // one JSON action an answer
)

// LLM says which model answers and how long it may take.
type LLM struct {
	// Provider is auto until Effective decides.
	Provider Provider `toml:"provider" enum:"auto,demo,openai"`
	// Model is the model's name; empty means the provider's default. See Effective.
	Model string `toml:"model"`
	// BaseURL is an OpenAI-compatible endpoint, for instance http://127.0.0.1:11434/v1; empty means OpenAI's own.
	BaseURL string `toml:"base_url"`
	// APIKey is sent to BaseURL.
	APIKey Secret `toml:"api_key"`
	// Temperature is nil where the provider's default is wanted; 0 is sent as 0.
	Temperature *float64 `toml:"temperature" min:"0"`
	// MaxOutputTokens bounds one answer; 0 leaves it to the provider.
	MaxOutputTokens int `toml:"max_output_tokens" min:"0"`
	// Media is what the model is shown of tools' results beside text; auto goes by what is known of the model.
	Media Media `toml:"media" enum:"auto,none,images,all"`
	// RetryMax is how often a transport error or a rate limit is tried again.
	RetryMax int `toml:"retry_max" min:"0"`
	// ConnectTimeout bounds dialling and the TLS handshake.
	ConnectTimeout time.Duration `toml:"connect_timeout" min:"1ms"`
	// FirstTokenTimeout bounds the time from the request to the answer's first byte.
	FirstTokenTimeout time.Duration `toml:"first_token_timeout" min:"1ms"`
	// IdleTimeout bounds the silence between two pieces of a stream.
	IdleTimeout time.Duration `toml:"idle_timeout" min:"1ms"`
	// TotalTimeout bounds one inference as a whole.
	TotalTimeout time.Duration `toml:"total_timeout" min:"1ms"`
	// MaxRetryAfter caps the delay that a provider asks for with Retry-After.
	MaxRetryAfter time.Duration `toml:"max_retry_after" min:"0s"`
	// DemoSlow makes the demo provider answer slowly, to be watched.
	DemoSlow bool `toml:"demo_slow"`
}

// Provider names a kind of model endpoint.
type Provider string

// The providers.
const (
	ProviderAuto   Provider = "auto"   // openai where a key or a base_url is set, else demo
	ProviderDemo   Provider = "demo"   // the built-in rule-based stand-in; no language model
	ProviderOpenAI Provider = "openai" // OpenAI, or any server that speaks its Chat Completions
)

// Media is what a model takes beside text.
type Media string

// The choices.
const (
	MediaAuto   Media = "auto"
	MediaNone   Media = "none"
	MediaImages Media = "images"
	MediaAll    Media = "all"
)

// Policy says which tools may be called and what follows an error.
type Policy struct {
	// Allow, Deny and Ask are patterns of tool IDs (local/read_file, mcp/files/*, *). Deny wins over Ask, Ask over
	// Allow; a tool that no pattern names is denied.
	Allow []string `toml:"allow"`
	Deny  []string `toml:"deny"`
	Ask   []string `toml:"ask"`
	// AskRisk is the risk from which on an allowed call asks a person.
	AskRisk AskRisk `toml:"ask_risk" enum:"low,medium,high,never"`
	// Taint guards a session whose transcript holds the words of servers that are not trusted: from then on a call that
	// could change or send something needs a person's approval. Strict does so after any server's words, for every call.
	Taint Taint `toml:"taint" enum:"on,off,strict"`
	// OnModelError follows an inference that failed for good.
	OnModelError ErrorAction `toml:"on_model_error" enum:"fail,retry,reprompt,interrupt"`
	// OnToolError follows a tool's error; reprompt means that the model is given the error as the call's result. There
	// is no retry: what the ledger has settled is never run again, and a call that was not sent is dispatched again anyway.
	OnToolError ErrorAction `toml:"on_tool_error" enum:"fail,reprompt,interrupt"`
	// OnInvalidAction follows an answer that is no valid action. There is no retry: it would ask the same again.
	OnInvalidAction ErrorAction `toml:"on_invalid_action" enum:"fail,reprompt,interrupt"`
	// Rules weigh what Deny leaves over; the first that applies to a call decides, before Ask, Allow and AskRisk.
	Rules []PolicyRule `toml:"rules"`
}

// PolicyRule decides about calls of some tools by their arguments.
type PolicyRule struct {
	// Tool is a pattern of tool IDs, as in Policy.Allow.
	Tool string `toml:"tool"`
	// Arguments are patterns of values by dotted key, all of which must match; none means every call. See
	// turn.Rule and turn.CheckPattern.
	Arguments map[string]string `toml:"arguments"`
	// Permit is what the rule decides.
	Permit Permit `toml:"permit" enum:"allow,ask,deny"`
	// Why is told to the person who is asked, or to the model that is refused.
	Why string `toml:"why"`
}

// Permit is what becomes of a call.
type Permit string

// What may become of a call.
const (
	PermitAllow Permit = "allow"
	PermitAsk   Permit = "ask" // a person decides
	PermitDeny  Permit = "deny"
)

// Approvals says how long a turn waits for them. Waiting costs no process, no turn_timeout and no step.
type Approvals struct {
	// ApprovalExpiry is how long an approval may be given; 0 waits for ever.
	ApprovalExpiry time.Duration `toml:"approval_expiry" min:"0s"`
	// OnExpiry is what an approval that nobody gave comes to.
	OnExpiry Permit `toml:"on_expiry" enum:"deny,allow"`
	// QuestionExpiry is how long a question of the model's may be answered; 0 waits for ever.
	QuestionExpiry time.Duration `toml:"question_expiry" min:"0s"`
}

// AskRisk is a threshold of risk.
type AskRisk string

// The thresholds, in rising order.
const (
	AskLow    AskRisk = "low" // every call asks
	AskMedium AskRisk = "medium"
	AskHigh   AskRisk = "high"
	AskNever  AskRisk = "never"
)

// Taint is how a session is guarded that has read what strangers say.
type Taint string

// The modes.
const (
	TaintOff    Taint = "off"
	TaintOn     Taint = "on"
	TaintStrict Taint = "strict"
)

// ErrorAction is what follows an error.
type ErrorAction string

// The decisions.
const (
	ErrorFail      ErrorAction = "fail"      // the turn ends as failed
	ErrorRetry     ErrorAction = "retry"     // the same again; costs a step
	ErrorReprompt  ErrorAction = "reprompt"  // the model is told; costs a step
	ErrorInterrupt ErrorAction = "interrupt" // the turn ends with its partial result, for a person to look at
)

// MCP holds the tool servers.
type MCP struct {
	Servers []MCPServer `toml:"servers"`
}

// MCPServer is one server of tools that speaks the Model Context Protocol.
type MCPServer struct {
	// ID names the server in tool IDs: mcp/<id>/<tool>.
	ID string `toml:"id"`
	// Transport is stdio (Command is started as a child), http (URL is called; streamable HTTP) or sse (its predecessor).
	Transport Transport `toml:"transport" enum:"stdio,http,sse"`
	// Command and Args start the server, Dir is its working directory (empty: the worker's).
	Command string   `toml:"command"`
	Args    []string `toml:"args"`
	Dir     string   `toml:"dir"`
	// User is the account, by name or number, that the server's process runs as; empty: the worker's. It needs a
	// worker that runs as root.
	User string `toml:"user"`
	// Env is given to the server besides the variables that EnvAllow lets through. Nothing else is inherited.
	Env      map[string]Secret `toml:"env"`
	EnvAllow []string          `toml:"env_allow"`
	// URL and Headers are for the transport http.
	URL     string            `toml:"url"`
	Headers map[string]Secret `toml:"headers"`
	// Networks are the private networks (10.0.0.0/8) in which URL may be; loopback is open where URL itself names it.
	Networks []string `toml:"networks"`
	// OAuth gets a token by client credentials, for http and sse.
	OAuth OAuth `toml:"oauth"`
	// Required: a turn refuses to start while the server cannot be reached. Else the model is told so.
	Required bool `toml:"required"`
	// ConnectTimeout bounds starting, connecting and listing the tools.
	ConnectTimeout time.Duration `toml:"connect_timeout" min:"1ms"`
	// CallTimeout bounds a call; 0 means runtime.tool_timeout. Progress that the server reports begins it anew, up to
	// TotalTimeout in all; 0: progress renews nothing.
	CallTimeout  time.Duration `toml:"call_timeout" min:"0s"`
	TotalTimeout time.Duration `toml:"total_timeout" min:"0s"`
	// IdleTimeout ends a connection that nobody uses; 0 keeps it.
	IdleTimeout time.Duration `toml:"idle_timeout" min:"0s"`
	// CatalogueGrace is how long turns may still begin with the tools of a server that has become unavailable: their calls
	// wait for it. 0 means 1 minute, and 10 minutes if the server is required.
	CatalogueGrace time.Duration `toml:"catalogue_grace" min:"0s"`
	// MaxConcurrentCalls bounds the calls in flight to the server, per worker.
	MaxConcurrentCalls int `toml:"max_concurrent_calls" min:"1"`
	// Allow and Deny are patterns of the server's own tool names. Empty Allow means all; Deny wins.
	Allow []string `toml:"allow"`
	Deny  []string `toml:"deny"`
	// Trust believes the server's annotations (read-only, idempotent) where Tools says nothing.
	Trust bool `toml:"trust"`
	// TrustChanges lets the server change its tools; else a tool that changes is held back until somebody accepts it.
	AllowToolChanges bool `toml:"trust_changes"`
	// Stateful "turn": the server remembers between calls, so that those of a turn go to one connection of one worker.
	SessionAffinity SessionAffinity `toml:"stateful" enum:",turn"`
	// HoldQuestions lets a server of an older protocol ask the user in the middle of a call, and is how long the call is
	// held for it; 0 does not let it. Servers of the newest protocol ask without holding anything.
	ElicitationTimeout time.Duration `toml:"hold_questions" min:"0s"`
	// Resources and Prompts offer the server's resources and prompts to the model, as tools that list and read them.
	Resources bool `toml:"resources"`
	Prompts   bool `toml:"prompts"`
	// Everywhere promises that every worker hosts this server.
	Everywhere bool `toml:"everywhere"`
	// Tools is the operator's word on single tools, by the server's own name of the tool.
	Tools map[string]MCPTool `toml:"tools"`
}

// OAuth is what a client-credentials grant (RFC 6749, 4.4) needs.
type OAuth struct {
	TokenURL     string   `toml:"token_url"`
	ClientID     string   `toml:"client_id"`
	ClientSecret Secret   `toml:"client_secret"`
	Scopes       []string `toml:"scopes"`
}

// SessionAffinity is how long a server remembers.
type SessionAffinity string

// AffinityTurn: as long as a turn.
const AffinityTurn SessionAffinity = "turn"

// Transport is how a tool server is spoken to.
type Transport string

// The transports.
const (
	TransportStdio Transport = "stdio"
	TransportHTTP  Transport = "http"
	TransportSSE   Transport = "sse"
)

// MCPTool is the operator's word on one tool.
type MCPTool struct {
	// Repeatable: running a call again does no harm.
	Repeatable bool `toml:"repeatable"`
	// Quick: it answers within a second, and may run as a local activity. Needs Repeatable and the server Everywhere.
	Quick bool `toml:"quick"`
	// Risk is how much harm the tool can do. Empty: what the annotations of a trusted server say, else medium, or high if
	// the server calls the tool destructive or the tool's words say so (delete, shell, …).
	Risk Risk `toml:"risk" enum:",low,medium,high"`
	// Timeout bounds a call; 0 means the server's call_timeout. TotalTimeout is as the server's.
	Timeout      time.Duration `toml:"timeout" min:"0s"`
	TotalTimeout time.Duration `toml:"total_timeout" min:"0s"`
	// Detach lets a call that is over its time go on for so long: the model is told that its outcome is unknown, and what
	// became of it as soon as it is known.
	Detach time.Duration `toml:"detach" min:"0s"`
	// Contained: a call only reads, and only here; it changes nothing and sends nothing to anybody. See policy.taint.
	Contained bool `toml:"contained"`
}

// Risk is what a tool may do at worst.
type Risk string

// The risks, in rising order; the empty one is not said.
const (
	RiskUnsaid Risk = ""
	RiskLow    Risk = "low"
	RiskMedium Risk = "medium"
	RiskHigh   Risk = "high"
)

// Journal says where transcripts and ledgers are kept.
type Journal struct {
	// Driver is the kind of database.
	Driver Driver `toml:"driver" enum:"sqlite,postgres"`
	// Path is the file of a SQLite database, relative to the working directory.
	Path string `toml:"path"`
	// URL is the connection string of a Postgres database, "postgres://user@host/database".
	URL Secret `toml:"url"`
	// Synchronous full survives a power cut, normal a crash of the process. It is SQLite's.
	Synchronous Synchronous `toml:"synchronous" enum:"full,normal"`
	// CacheBytes bounds the rendered prompt prefixes that a worker keeps, in bytes.
	CacheBytes int64 `toml:"cache_bytes" min:"0" max:"1099511627776"`
	// ChunkRetention is how long the stream of a finished turn is kept for readers; 0 keeps all. Transcripts are kept.
	ChunkRetention time.Duration `toml:"chunk_retention" min:"0s"`
}

// Driver is a kind of database.
type Driver string

// The databases that a journal may be in: SQLite for one machine, Postgres for workers on several.
const (
	DriverSQLite   Driver = "sqlite"
	DriverPostgres Driver = "postgres"
)

// Place says where the journal is, for people: the file, or the server's kind. A connection string may hold a password.
func (j Journal) Place() string {
	if j.Driver == DriverPostgres {
		return "Postgres"
	}
	return j.Path
}

// Synchronous is how hard the journal pushes its writes to disk.
type Synchronous string

// The levels, as SQLite's pragma of that name has them.
const (
	SynchronousFull   Synchronous = "full"
	SynchronousNormal Synchronous = "normal"
)

// Temporal says which server runs the turns.
type Temporal struct {
	// Address is host:port; empty means Temporal's own configuration (TEMPORAL_*, profiles), and without it
	// 127.0.0.1:7233.
	Address string `toml:"address"`
	// Namespace is empty where Temporal's own configuration decides, and without it "default".
	Namespace string `toml:"namespace"`
	// TaskQueue is where turns wait for workers.
	TaskQueue string `toml:"task_queue"`
	// UIURL is the Web UI's address for links; empty means dev_ui_port on loopback.
	UIURL string `toml:"ui_url"`
	// Profile is a profile of Temporal's own configuration file.
	Profile string `toml:"profile"`
	TLS     bool   `toml:"tls"`
	APIKey  Secret `toml:"api_key"`
	// AllowPlaintext permits a server beyond loopback without TLS.
	AllowPlaintext bool `toml:"allow_plaintext"`
	// DevUIPort is the Web UI's port of the server that --dev starts.
	DevUIPort int `toml:"dev_ui_port" min:"1"`
}

// Worker sizes a worker.
type Worker struct {
	// MaxConcurrentTurns bounds the workflow tasks, MaxConcurrentActivities the inferences and tool calls in flight.
	MaxConcurrentTurns      int `toml:"max_concurrent_turns" min:"2"`
	MaxConcurrentActivities int `toml:"max_concurrent_activities" min:"1"`
	// StickyCache is how many turns a worker keeps in memory between their tasks; one beyond is read from its history
	// again when it wakes, within a second. A turn that waits for people is kept like any other, for days where nothing
	// pushes it out: with 10,000 of them parked this number, not theirs, is what a worker's memory follows.
	StickyCache int `toml:"sticky_cache" min:"0"`
	// DrainTimeout is how long a worker that was asked to stop waits for its activities.
	DrainTimeout time.Duration `toml:"drain_timeout" min:"0s"`
	// Identity names the worker in the Web UI; empty means process and host.
	Identity string `toml:"identity"`
}
