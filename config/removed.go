package config

import "regexp"

// removed says what to do with keys that earlier builds had, by the dotted key without indexes.
var removed = map[string]string{
	"runtime.keep_history_messages":       "remove it: three fifths of max_history_messages are kept",
	"agents.max_tool_calls":               "remove it: max_steps of the agent and runtime.max_tool_calls bound its calls",
	"agents.retry_for":                    "use llm.retry_for, or the flag --retry-for",
	"journal.driver":                      "remove it: a journal with a url is a Postgres database",
	"mcp.servers.on_all_workers":          "remove it: every worker with the role tools hosts a server without a queue",
	"mcp.servers.timeouts.idle":           "remove it: an unused connection stays open for 10m",
	"mcp.servers.timeouts.catalogue":      "remove it: 1m, or 10m if the server is required",
	"provider_limits.requests_per_second": "use `everturn limits set`",
	"provider_limits.tokens_per_day":      "use `everturn limits set`",
	"provider_limits.tokens_per_month":    "use `everturn limits set`",
	"provider_limits.interactive_reserve": "use `everturn limits set`",
	"tenant_limits.requests_per_second":   "use `everturn limits set`",
	"tenant_limits.tokens_per_day":        "use `everturn limits set`, or budget.tenant_usd_per_day",
	"tenant_limits.tokens_per_month":      "use `everturn limits set`",
	"tenant_limits.interactive_reserve":   "use `everturn limits set`",
	"skills.sources.type":                 "remove it: every source is a directory",
	"skills.sources.recursive":            "remove it: sources are searched six folders deep",
	"runtime.agent":                       "remove it: the agent of [runtime] is `default`, and others are in [[agents]]",
	"runtime.mode": "use capabilities under [[models]]: a model without tool_use writes JSON " +
		"actions",
	"runtime.max_parallel_calls": "remove it: 8 calls run at the same time; a server can bound its own",
	"runtime.max_agent_depth": "remove it: the lists `agents` say which agent may call which, at most " +
		"five deep",
	"runtime.max_argument_bytes": "remove it: the arguments of a call have at most 1 MiB",
	"journal.cache_bytes":        "remove it: a worker caches at most 64 MiB of rendered prompts",
	"journal.retry_for":          "remove it: turns wait an hour for an unavailable journal",
	"llm.retry_max":              "use llm.retry_for",
	"canvas.repo":                "use workspace.mode = \"tree\"; the repository is runtime.workspace",
	"skills.deny": "remove the folder of the skill, or name those that an agent may use in " +
		"skills of [[agents]]",
	"models.max_output_tokens": "use llm.max_output_tokens",
	"codec_server.url":         "set TEMPORAL_CODEC_ENDPOINT",
	"codec_server.tls_cert":    "use the flag --tls-cert of `everturn codec serve`",
	"codec_server.tls_key":     "use the flag --tls-key of `everturn codec serve`",
	"mcp.servers.transport": "remove it: a server with a url speaks streamable HTTP, or SSE if its " +
		"path ends in /sse",
	"mcp.servers.timeouts.total": "set total_timeout of the tools that need it",
	"mcp.servers.resources":      "use offer = [\"resources\"]",
	"mcp.servers.prompts":        "use offer = [\"prompts\"]",
	"telemetry": "remove it: the variables of OpenTelemetry (OTEL_*) configure traces and " +
		"metrics",
	"telemetry.metrics_address":   "set OTEL_METRICS_EXPORTER=prometheus, OTEL_EXPORTER_PROMETHEUS_HOST and _PORT",
	"telemetry.content":           "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
	"temporal.dev_ui_port":        "remove it: the Web UI of --dev has the port of temporal.address plus 1000",
	"temporal.allow_plaintext":    "set TEMPORAL_TLS=false",
	"temporal.tls":                "set TEMPORAL_TLS",
	"temporal.api_key":            "set TEMPORAL_API_KEY",
	"temporal.profile":            "set TEMPORAL_PROFILE",
	"worker.build_id":             "set TEMPORAL_WORKER_BUILD_ID",
	"worker.server_queues":        "name the queues in worker.roles",
	"worker.sticky_cache":         "remove it: a worker keeps 100 turns in memory",
	"worker.max_pollers":          "remove it: a worker keeps at most 10 polls open for each task queue",
	"worker.max_concurrent_turns": "remove it: a worker runs at most 100 workflow tasks at the same time",
	"worker.identity":             "remove it: a worker's name is its process ID and host name",
	"worker.stop_grace":           "give the process manager three times worker.drain_timeout and 10s",
	"approvals.approval_expiry":   "use approvals.expiry",
	"approvals.question_expiry":   "use approvals.expiry",
	"approvals.on_expiry":         "remove it: an approval request that expires is denied",
	"llm.connect_timeout":         "remove it: connecting takes at most 10s",
	"llm.first_token_timeout":     "use llm.idle_timeout",
	"llm.total_timeout": "remove it: an inference takes at most 30m, and llm.idle_timeout bounds " +
		"its silence",
	"llm.context_tokens":               "use context_tokens under [[models]]",
	"llm.media":                        "use capabilities under [[models]]",
	"llm.demo_slow":                    "use the flag --slow",
	"prompt.verbatim_user_tokens":      "remove it: 20000 tokens are kept, but at most a third of the target",
	"prompt.skills_token_budget_ratio": "remove it: skills take at most a tenth of the context window",
}

// index matches the index of a list element in a dotted key.
var index = regexp.MustCompile(`\[[0-9]+\]`)

// instead returns what to do instead of an unknown key, or "": see removed.
func instead(key string) string { return removed[index.ReplaceAllString(key, "")] }
