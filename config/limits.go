package config

// Budget limits what sessions and tenants may spend. All workers with this journal share it. Each inference reserves the
// most that it may cost before it is sent, and lowers its limit of output tokens to what is left.
type Budget struct {
	// US dollars of each session, over all of its turns; 0 means that nothing may be spent. If it is not set, there is no
	// limit.
	SessionUSD *float64 `toml:"session_usd" min:"0" max:"1000000" example:"5.0"`
	// Input plus output tokens of each session; 0 means none. If it is not set, there is no limit.
	SessionTokens *int64 `toml:"session_tokens" min:"0" example:"2000000"`
	// US dollars of each tenant in a day of UTC; 0 means that nothing may be spent. If it is not set, there is no limit.
	TenantUSDPerDay *float64 `toml:"tenant_usd_per_day" min:"0" max:"1000000" example:"20.0"`
	// US dollars of each tenant in a month of UTC; 0 means that nothing may be spent. If it is not set, there is no limit.
	TenantUSDPerMonth *float64 `toml:"tenant_usd_per_month" min:"0" max:"1000000" example:"400.0"`
}

// FleetLimits bound what all workers with one journal together request from model providers.
type FleetLimits struct {
	// Requests in any second; 0 means no limit.
	RequestsPerSecond int64 `toml:"requests_per_second" min:"0"`
	// Requests in any minute; 0 means no limit.
	RequestsPerMinute int64 `toml:"requests_per_minute" min:"0"`
	// Tokens in any minute, input plus output; 0 means no limit. An inference reserves an estimate: a quarter of the
	// prompt's bytes plus llm.max_output_tokens, or 1024 if that is not set.
	TokensPerMinute int64 `toml:"tokens_per_minute" min:"0"`
	// Requests in flight; 0 means no limit.
	RequestsInFlight int64 `toml:"requests_in_flight" min:"0"`
	// Tokens in a day of UTC; 0 means no limit. When they are used up, turns fail with the code tokens_used_up.
	TokensPerDay int64 `toml:"tokens_per_day" min:"0"`
	// Tokens in a month of UTC; 0 means no limit.
	TokensPerMonth int64 `toml:"tokens_per_month" min:"0"`
	// Percentage of the limits per second, per minute and in flight that scheduled turns leave to others.
	InteractiveReserve int64 `toml:"interactive_reserve" default:"20" min:"0" max:"90"`
}
