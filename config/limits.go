package config

// FleetLimits bound what all workers with one journal together request from model providers. `everturn limits set` has
// more of them.
type FleetLimits struct {
	// Requests in any minute; 0 means no limit.
	RequestsPerMinute int64 `toml:"requests_per_minute" min:"0"`
	// Tokens in any minute, input plus output; 0 means no limit. An inference reserves an estimate: a quarter of the
	// prompt's bytes plus llm.max_output_tokens, or 1024 if that is not set.
	TokensPerMinute int64 `toml:"tokens_per_minute" min:"0"`
	// Requests in flight; 0 means no limit.
	RequestsInFlight int64 `toml:"requests_in_flight" min:"0"`
}
