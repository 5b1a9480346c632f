package config

import (
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// DefaultModel is the model of provider openai if the configuration names none.
const DefaultModel = "gpt-4.1-mini"

// DemoModel is the only model of provider demo.
const DemoModel = "demo"

// Default returns the default configuration.
func Default() Config {
	return Config{
		Runtime:    defaultRuntime(),
		LocalFiles: LocalFiles{Deny: defaultDeny()},
		LLM: LLM{
			Provider: ProviderAuto, RetryMax: 2, Media: MediaAuto,
			ConnectTimeout: 10 * time.Second, FirstTokenTimeout: time.Minute, IdleTimeout: 30 * time.Second,
			TotalTimeout: 5 * time.Minute, MaxRetryAfter: time.Minute,
		},
		Policy: Policy{
			Allow: []string{"local/*", "mcp/*"}, AskRisk: turn.RiskHigh, Taint: turn.TaintOn,
			OnModelError: turn.ErrorFail, OnToolError: turn.ErrorReprompt, OnInvalidAction: turn.ErrorReprompt,
		},
		Approvals: Approvals{
			ApprovalExpiry: 7 * 24 * time.Hour, OnExpiry: turn.Deny, QuestionExpiry: 7 * 24 * time.Hour,
		},
		Journal: Journal{
			Driver: DriverSQLite, Path: ".everturn/journal.db", Synchronous: SynchronousFull, CacheBytes: 64 << 20,
			ChunkRetention: 30 * 24 * time.Hour,
		},
		Temporal: Temporal{TaskQueue: "everturn", DevUIPort: 8233},
		Worker: Worker{
			MaxConcurrentTurns: 100, MaxConcurrentActivities: 100, StickyCache: 100,
			DrainTimeout: 30 * time.Second,
		},
	}
}

func defaultRuntime() Runtime {
	return Runtime{
		Agent: "default",
		SystemPrompt: "You are a careful assistant. Use the tools to look things up instead of guessing, " +
			"and say so when they do not answer the question.",
		Mode: ModeAuto, MaxSteps: 12, MaxToolCalls: 8, MaxConsecutiveErrors: 2,
		TurnTimeout: 90 * time.Second, ToolTimeout: 15 * time.Second, MaxReprompts: 1,
		MaxHistoryMessages: 50, KeepHistoryMessages: 30, MaxParallelCalls: 8,
		Workspace: ".", MaxResultBytes: 64 << 10, Redact: defaultRedact(),
	}
}

// defaultRedact returns patterns of secrets that have a published form: API keys of OpenAI and compatible providers,
// GitHub, AWS and Slack tokens, private keys, bearer tokens and JSON web tokens.
func defaultRedact() []string {
	return []string{
		`\bsk-[A-Za-z0-9_-]{16,}`,
		`gh[pousr]_[A-Za-z0-9]{36,}`,
		`AKIA[0-9A-Z]{16}`,
		`xox[abeprs]-[A-Za-z0-9-]{10,}`,
		`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`,
		`(?i)bearer\s+[A-Za-z0-9._~+/-]{16,}=*`,
		`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`,
	}
}

// defaultDeny returns patterns of files in which programs usually keep credentials.
func defaultDeny() []string {
	return []string{
		".env*", "*.env", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist", ".env/", ".envs/",
		"id_*", "!id_*.*", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
		"*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.p8", "*.jks", "*.keystore", "*.kdbx",
		".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd", ".git-credentials", ".vault-token",
		".dockercfg", ".s3cfg", ".boto", "kubeconfig", "*.tfstate", "*.tfstate.*", ".password-store/",
		".aws/", ".azure/", ".gnupg/", ".kube/", ".ssh/", ".config/gcloud/", ".config/gh/", ".docker/config.json",
		"credentials", "credentials.json", "credentials.toml", "client_secret*.json", "*service-account*.json",
		"secrets.env", "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", "agent.toml",
	}
}

// defaultServer returns the defaults of an entry of [[mcp.servers]].
func defaultServer() MCPServer {
	return MCPServer{Transport: TransportStdio, ConnectTimeout: time.Minute, IdleTimeout: 10 * time.Minute, MaxConcurrentCalls: 64}
}

// Effective returns l with its provider and model resolved.
func (l LLM) Effective() LLM {
	if l.Provider == ProviderAuto {
		l.Provider = ProviderDemo
		if l.APIKey != "" || l.BaseURL != "" {
			l.Provider = ProviderOpenAI
		}
	}
	switch {
	case l.Provider == ProviderDemo:
		l.Model = DemoModel
	case l.Model == "":
		l.Model = DefaultModel
	}
	return l
}
