package config

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/workflows/turn"
)

// Config is the content of agent.toml. Its zero value is not usable: start from Default or Load.
//
// The comment of each field is also its documentation in Example, Schema and docs/configuration.md. The tags give its
// key (toml), its default, the values of presets that differ from it (preset), the values that it accepts (enum) and
// its limits (min, max, maxbytes, and zero, which says what 0 means although it is less than min). shown="written"
// makes Loaded.Changes show a Secret.
type Config struct {
	// The agent, and the limits of its turns.
	Runtime Runtime `toml:"runtime"`
	// More agents, one block each: see docs/agents.md.
	Agents []turn.Agent `toml:"agents"`
	// The tools list_files, read_file and search_text, and those that write. None of them reaches .git, .everturn, and the
	// configuration, journal, keys and tapes that this file names.
	LocalFiles LocalFiles `toml:"local_files"`
	// The tool fetch_url, which reads pages of the web.
	Web Web `toml:"web"`
	// The tool shell, which runs commands on Linux: see docs/shell.md.
	Shell Shell `toml:"shell"`
	// Where file tools and commands act: in one folder, or in a tree for each session. See docs/workspace.md.
	Workspace Workspace `toml:"workspace"`
	// How commands are isolated: see docs/shell.md. A worker tries the isolation when it starts, and does not offer the
	// tool shell if it does not hold.
	Sandbox Sandbox `toml:"sandbox"`
	// The model, and the limits of its inferences.
	LLM LLM `toml:"llm"`
	// Model providers besides OpenAI, one block each. Those of docs/models.md need no block if their key is in the
	// environment: ANTHROPIC_API_KEY, and so on.
	Providers []ModelProvider `toml:"providers"`
	// Models that the built-in list lacks or describes wrongly: `everturn models list` shows it. On an endpoint of
	// base_url that is not a known vendor's, any name is accepted, and its context window and price are unknown unless
	// they are set here.
	Models []Model `toml:"models"`
	// How a conversation that becomes too long for the model's context window is compacted. The transcript stays as it
	// is: only prompts change, `everturn show` says when, and `everturn rewind` to before that moment undoes it.
	Prompt Prompt `toml:"prompt"`
	// What all workers with this journal together may request from each provider. `everturn limits` shows and changes it.
	ProviderLimits FleetLimits `toml:"provider_limits"`
	// What all workers with this journal together may request for each tenant, from all providers.
	TenantLimits FleetLimits `toml:"tenant_limits"`
	// What each session and each tenant may spend. An inference that does not fit ends its turn with the code
	// budget_used_up. Limits in dollars need models whose prices are known. `everturn usage` shows what was spent.
	Budget Budget `toml:"budget"`
	// Instructions for the model in folders, of which each turn gets those that fit its request: see docs/skills.md.
	Skills Skills `toml:"skills"`
	// Tools whose calls a client runs, one block each: the turn hands a call out, and waits until a client sends the
	// result. See docs/local-tools.md.
	ClientTools []ClientTool `toml:"client_tools"`
	// Which tools may be called, and what follows an error. Each worker applies its own policy: give every worker on a
	// task queue the same agent.toml.
	Policy turn.Policy `toml:"policy"`
	// How long a turn waits for approvals and answers. Waiting uses no process, no turn_timeout and no step.
	Approvals turn.Approvals `toml:"approvals"`
	// The database of transcripts and tool calls.
	Journal Journal `toml:"journal"`
	// The Temporal server that runs the turns.
	Temporal Temporal `toml:"temporal"`
	// The resources of a worker.
	Worker Worker `toml:"worker"`
	// The keys that encrypt what Temporal keeps and, as an option, the journal. docs/encryption.md says what stays
	// readable.
	Encryption Encryption `toml:"encryption"`
	// The server that decrypts for the Web UI and Temporal's command line: `everturn codec serve`.
	CodecServer CodecServer `toml:"codec_server"`
	// The server of the HTTP API: `everturn serve`. See docs/http.md.
	HTTP HTTP `toml:"http"`
	// Servers that speak the Model Context Protocol (MCP).
	MCP MCP `toml:"mcp"`

	// These fields are no settings of the file, and stay the last ones.

	// Tenant is the tenant of this client, which the flag --tenant or EVERTURN_TENANT names: it sees and begins only
	// sessions of this tenant. Empty means the default tenant. Workers serve all tenants. It has no key, because a file is
	// for all tenants.
	Tenant string
	Tuning Tuning

	// The files that Load looked for: see Sources.
	sources []string
}

// Sources returns the absolute paths of the files that Load looked for: the configuration file, which may be missing,
// and the files of ${file:...} references.
func (c Config) Sources() []string { return slices.Clone(c.sources) }

// addSource records a file. A path that cannot be made absolute, because the working directory is gone, stays as it is.
func (c *Config) addSource(path string) {
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	c.sources = append(c.sources, path)
}

// Runtime describes the agent and limits its turns.
type Runtime struct {
	// Sent to the model before the conversation. The date follows it and, if the agent has tools for the workspace, its
	// folder and the operating system.
	SystemPrompt string `toml:"system_prompt"`
	// The limits of turns that are not set: max_steps, max_tool_calls and turn_timeout, and idle_timeout in [llm].
	// "standard" has their defaults. "brief" is for short questions: 12 steps, 8 calls and 90s, and an idle_timeout of 1m.
	// "coding" is for work of hours: 250 steps, 500 calls and 4h.
	Preset Preset `toml:"preset" default:"standard" enum:"brief,standard,coding"`
	// Maximum number of inferences in a turn and in those of its subagents; reprompts and retries count.
	MaxSteps int `toml:"max_steps" default:"50" preset:"brief=12,coding=250" min:"1"`
	// Maximum number of tool calls in a turn and in those of its subagents.
	MaxToolCalls int `toml:"max_tool_calls" default:"100" preset:"brief=8,coding=500" min:"0"`
	// Number of consecutive errors that a turn survives.
	MaxConsecutiveErrors int `toml:"max_consecutive_errors" default:"2" min:"0"`
	// Maximum working time of a turn's inferences and tools in total. Waiting for approvals and answers does not count.
	TurnTimeout time.Duration `toml:"turn_timeout" default:"30m" preset:"brief=1m30s,coding=4h" min:"1s"`
	// Timeout of a tool call, unless its server or tool sets another.
	ToolTimeout time.Duration `toml:"tool_timeout" default:"15s" min:"1ms"`
	// How often a turn tells the model what was wrong with its completion; 0 means never.
	MaxReprompts int `toml:"max_reprompts" default:"1" min:"0"`
	// Maximum number of messages in a prompt. Longer transcripts are cut in blocks, so that the provider can cache
	// prompts. 0 means no maximum if prompts are compacted before they exceed the model's context window (see [prompt]),
	// and otherwise 50. A longer transcript is cut to three fifths of the maximum.
	MaxHistoryMessages int `toml:"max_history_messages" min:"0"`
	// Maximum number of input plus output tokens of a turn and of all that comes of it; 0 means no limit. Before each
	// inference, the worker computes the most that it can use. If that is more than what is left, it lowers the limit of
	// output tokens; if not even 64 fit, the turn ends. A provider that ignores the limit of output tokens can exceed the
	// maximum, by its last answer.
	MaxTokens int64 `toml:"max_tokens" min:"0"`
	// The same in US dollars. The prices of the turn's models must be known.
	MaxCostUSD float64 `toml:"max_cost_usd" min:"0" max:"1000000"`
	// The folder that the local tools are confined to, relative to the working directory.
	Workspace string `toml:"workspace" default:"." required:"true"`
	// The workspace's AGENTS.md, and the skills in its folders .agents/skills and .claude/skills, become part of the
	// prompt. If it is not set, they do in a folder that the user trusts (see `everturn trust`), and for a worker in the
	// folder in which it was started. Set it only for a workspace whose authors may instruct the agent.
	TrustWorkspace *bool `toml:"trust_workspace" example:"true"`
	// Agents of [[agents]] that the default agent may call, each as the tool agent/<id>.
	Agents []string `toml:"agents" example:"reviewer"`
	// Maximum number of bytes of a tool's output that the model sees; the journal keeps all of it.
	MaxResultBytes int `toml:"max_result_bytes" default:"65536" min:"1024"`
	// Regular expressions (RE2) of secrets. Matches are redacted in the output of the model and the tools, in the
	// arguments of calls before they are approved and sent, and in logs. Secrets of this file are always redacted.
	Redact []string `toml:"redact"`
}

// LocalFiles says what the file tools may do in the workspace.
type LocalFiles struct {
	// Patterns of files that may hold credentials. A pattern matches the end of a path and ignores letter case. A
	// pattern that ends in a slash matches a directory and everything in it. ! makes an exception. The last pattern
	// that matches decides.
	Deny []string `toml:"deny"`
	// Allow reading files with several hard links, whose other names may be outside the workspace. Package managers
	// that share files between projects, such as pnpm and uv, create them.
	HardLinks bool `toml:"hard_links"`
	// Offer the tools write_file, edit_file, patch_file and delete_file too. Which of them need an approval, the policy
	// says: deleting is of high risk, the others are of medium risk.
	Write bool `toml:"write"`
}

// Web says what fetch_url may read. What it reads taints the session: see policy.taint.
type Web struct {
	// Offer the tool.
	Fetch bool `toml:"fetch"`
	// Patterns of the hosts to which it may send requests, with whatever the model has read, without an approval. Calls
	// to other public hosts need one. "*" lists every host.
	Hosts []string `toml:"hosts" example:"docs.python.org,*.wikipedia.org"`
	// Private networks that it may reach, in CIDR notation; 127.0.0.0/8 is this machine.
	Networks []string `toml:"networks" example:"10.1.0.0/16"`
}

// LLM selects the model and limits its inferences.
type LLM struct {
	// The provider of the model. "openai": OpenAI, or any server that implements its Chat Completions. "demo": a built-in
	// set of rules without a language model. Or the id of another provider: see [[providers]]. "auto": openai if an
	// api_key or a base_url is set; else the first of [[providers]] that has a key or an address of its own; else the
	// first provider of docs/models.md whose key is in the environment, in the order of their names; else demo.
	Provider Provider `toml:"provider" default:"auto" maxbytes:"32"`
	// The model, as its name or "provider:name"; empty means the one that [llm.select] selects, or else the provider's
	// default: see docs/models.md. A message can name another (--model).
	Model string `toml:"model" maxbytes:"200"`
	// Models that take over, in this order, when an inference has failed permanently, or for as long as fallback_after,
	// with an error that another model may not have: the provider is unreachable, overloaded or out of quota, or does not
	// have the model. The rest of the turn stays with the model that took over.
	Fallback []string `toml:"fallback" example:"openai:gpt-4.1"`
	// Selects the model by what it must do and may cost, if model is empty.
	Select Select `toml:"select"`
	// Where newer lists of models are fetched from, every 6 hours while a worker runs; empty means that the built-in list
	// stays. `everturn models update` fetches one now.
	ModelsURL string `toml:"models_url"`
	// An OpenAI-compatible endpoint, for instance "http://127.0.0.1:11434/v1" for Ollama; empty means OpenAI's own.
	// OPENAI_BASE_URL applies if it is not set here.
	BaseURL string `toml:"base_url"`
	// The key that is sent to base_url. OPENAI_API_KEY applies if it is not set here. Do not write the key itself into
	// this file.
	APIKey             Secret `toml:"api_key" example:"${MY_PROVIDER_KEY}"`
	turn.ModelSettings        // of all inferences
	// Maximum number of tokens in one completion; 0 leaves the limit to the provider.
	MaxOutputTokens int `toml:"max_output_tokens" min:"0"`
	// How long an inference waits for a provider that is unreachable, overloaded, silent or limits the rate, before it
	// fails; "0s" means that it fails at once. The wait uses no working time of the turn. If the provider says that it
	// accepts requests again later than that, the inference fails at once, too. A message can set another (--retry-for).
	RetryFor time.Duration `toml:"retry_for" default:"15m" min:"0s" max:"744h"`
	// How long it waits before the next model of fallback takes over.
	FallbackAfter time.Duration `toml:"fallback_after" default:"1m" min:"0s"`
	// Maximum silence of the provider: before the first event of its response, and between two events.
	IdleTimeout time.Duration `toml:"idle_timeout" default:"5m" preset:"brief=1m" min:"1ms"`
	// "record:DIR" keeps each request to a model and its answer as a file in the folder; "replay:DIR" answers from these
	// files, without a network and a key: see docs/tapes.md. Empty means neither.
	Tape string `toml:"tape" maxbytes:"4096" example:"record:tapes"`
}

// Prompt says how prompts are compacted.
type Prompt struct {
	// "auto": before an inference whose prompt would take more than 0.75 of the context window, old tool outputs are
	// replaced by references that local/read_artifact resolves; if it still takes more than 0.4, a model summarizes the
	// beginning of the conversation. "off": prompts are never compacted.
	Compaction Compaction `toml:"compaction" default:"auto" enum:"auto,off"`
	// The part of the context window above which a prompt is compacted.
	TriggerRatio float64 `toml:"compaction_trigger_ratio" default:"0.75" min:"0.05" max:"1"`
	// The part of the context window that a compacted prompt takes; it must be lower than the trigger.
	TargetRatio float64 `toml:"compaction_target_ratio" default:"0.4" min:"0.01" max:"0.95"`
	// The model that writes the summaries, as its name or "provider:name"; empty means the turn's model.
	SummaryModel string `toml:"summary_model" maxbytes:"200"`
	// The room for the skills of a turn in its prompt, in tokens, but at most a tenth of the context window if that is
	// known; 0 means that none is selected.
	SkillsTokens int `toml:"skills_token_budget_tokens" default:"1800" min:"0" max:"1000000"`
}

// Skills says where skills are.
type Skills struct {
	// The folders with skills, one block each. The workspace's own come first: see runtime.trust_workspace.
	Sources []SkillSource `toml:"sources"`
}

// SkillSource is a folder with skills.
type SkillSource struct {
	// The folder, relative to the working directory. Each skill is a folder with a SKILL.md in it, at most six deep.
	Path string `toml:"path" required:"true" example:"skills"`
}

// Compact says whether prompts are compacted.
type Compaction string

// The values of Compact.
const (
	CompactionAuto Compaction = "auto"
	CompactionOff  Compaction = "off"
)

// ModelProvider is where models are requested.
type ModelProvider struct {
	// Names the provider, in llm.provider and in "provider:model": a-z, 0-9, _ and -.
	ID Provider `toml:"id" example:"anthropic"`
	// The wire API: "chat" (OpenAI's Chat Completions), "responses" (OpenAI's Responses), "messages" (Anthropic's
	// Messages), or "auto" by the provider and the model.
	API turn.API `toml:"api" default:"auto" enum:"auto,chat,responses,messages"`
	// The address, including its version, for instance "http://127.0.0.1:8000/v1"; empty means that of the provider with
	// this id, if it is known.
	BaseURL string `toml:"base_url"`
	// The key that is sent to base_url. The variable of the id (ANTHROPIC_API_KEY for "anthropic") applies if it is not
	// set here. Do not write the key itself into this file.
	APIKey Secret `toml:"api_key" example:"${MY_PROVIDER_KEY}"`
	// HTTP headers of each request.
	Headers map[string]Secret `toml:"headers"`
	// A JSON object whose fields are added to the body of each request, or replace those of the same name: what a server
	// takes that no setting describes, such as {"top_k": 40}.
	ExtraBody string `toml:"extra_body" maxbytes:"65536" example:"{\"top_k\": 40}"`
	// How its models take effort, if the list of models does not say: "openrouter", "deepseek", "zai", "together", "qwen"
	// (enable_thinking), "chat-template" (vLLM, llama.cpp). Empty means reasoning_effort.
	ThinkingFormat     turn.ThinkingFormat `toml:"thinking_format" enum:",openrouter,deepseek,zai,together,qwen,chat-template" example:"chat-template"`
	turn.ModelSettings                     // of its inferences, over those of [llm]
}

// Provider is the ID of a model provider.
type Provider string

// The providers. EffectiveLLM resolves ProviderAuto.
const (
	ProviderAuto   Provider = "auto"
	ProviderDemo   Provider = "demo"
	ProviderOpenAI Provider = "openai"
)

// Journal configures where the journal is kept.
type Journal struct {
	// The file of a SQLite database, for the workers of one machine, relative to the working directory.
	Path string `toml:"path" default:".everturn/journal.db" required:"true"`
	// The connection string of a Postgres database, for workers on several machines; then path has no effect. For instance
	// "postgres://everturn@db.example/everturn". A password is better in the environment:
	// "postgres://everturn:${JOURNAL_PASSWORD}@db.example/everturn". Run `everturn journal migrate` first.
	URL Secret `toml:"url" shown:"written"`
	// SQLite only: "full" survives a power cut, "normal" a crash of the process.
	Synchronous Synchronous `toml:"synchronous" default:"full" enum:"full,normal"`
	// How long the stream of a finished turn is kept; "0s" means without limit. Transcripts and tool calls are always
	// kept.
	EventRetention time.Duration `toml:"event_retention" default:"720h" min:"1m" zero:"to keep all events"`
}

// Postgres reports whether the journal is in a Postgres database, and not in a SQLite file.
func (j Journal) Postgres() bool { return j.URL != "" }

// Place describes where the journal is, for display: the file's path, or the server's kind. It leaves out the
// connection string, which may hold a password.
func (j Journal) Place() string {
	if j.Postgres() {
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
	// host:port; empty means that of Temporal's own configuration (TEMPORAL_ADDRESS, temporal.toml), else
	// 127.0.0.1:7233. TEMPORAL_API_KEY, TEMPORAL_TLS (false permits an unencrypted connection to another machine) and
	// TEMPORAL_PROFILE apply, too.
	Address string `toml:"address"`
	// Empty means that of Temporal's own configuration, else "default".
	Namespace string `toml:"namespace"`
	// The task queue that workers poll.
	TaskQueue string `toml:"task_queue" default:"everturn" required:"true"`
	// The Web UI's address for links; empty means this machine, on the port that is 1000 above that of address, where the
	// server of --dev has it.
	UIURL string `toml:"ui_url"`
}

// StateDir returns the folder in which Everturn keeps the trees of sessions: .everturn, beside or around the file
// journal.path.
func (c Config) StateDir() string {
	dir := filepath.Dir(c.Journal.Path)
	if filepath.Base(dir) == statedir.Name {
		return dir
	}
	return filepath.Join(dir, statedir.Name)
}

// Worker limits the resources of a worker.
type Worker struct {
	// What this worker does: "turns" runs the workflows, "inference" calls the model, "tools" calls tools. Each role has
	// a task queue of its own, except that a worker runs the inferences and tool calls of its own turns if it has these
	// roles (see separate_queues). Every role needs a worker. A worker without "inference" needs no API key, and one
	// without "tools" starts no MCP server. The queue of an MCP server ([[mcp.servers]] queue) is a role, too: to host
	// this server.
	Roles []Role `toml:"roles" default:"turns,inference,tools"`
	// Send the inferences and tool calls of this worker's turns to their own task queues even if it has these roles, so
	// that all workers of the role share them. A rate limit that Temporal keeps for a task queue needs it. It makes
	// each of them start a few milliseconds later.
	SeparateQueues bool `toml:"separate_queues"`
	// Maximum number of inferences and tool calls at the same time, per task queue.
	MaxConcurrentActivities int `toml:"max_concurrent_activities" default:"100" min:"1"`
	// How long a stopping worker waits for its inferences and tool calls. Those that take longer are cut off: another
	// worker repeats the inference, and a call that cannot be repeated has an unknown outcome. Give the process manager
	// three times this and 10s between SIGTERM and SIGKILL: terminationGracePeriodSeconds in Kubernetes,
	// stop_grace_period in Compose, TimeoutStopSec in systemd.
	DrainTimeout time.Duration `toml:"drain_timeout" default:"30s" min:"0s"`
	// host:port for GET /healthz (the process runs) and /readyz (it polls, and reaches Temporal, the journal and its
	// required servers). Without a host, only this machine is served; 0.0.0.0:8081 serves a container's network. Empty
	// means off.
	HealthAddress string `toml:"health_address" example:":8081"`
	// The Worker Deployment of Temporal that this worker's turns belong to: they stay on the version of the worker that
	// began them, and `everturn rollout` says which version begins turns. Clients need the same name. Empty means that
	// any worker runs any turn. TEMPORAL_DEPLOYMENT_NAME applies if it is not set here. The worker's version is
	// TEMPORAL_WORKER_BUILD_ID, or else that of the program.
	Deployment string `toml:"deployment" maxbytes:"100" example:"everturn"`
}
