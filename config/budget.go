package config

// Budget limits what sessions and tenants may spend. All workers with this journal share it. Each inference reserves
// the most that it may cost before it is sent, and lowers its limit of output tokens to what is left.
type Budget struct {
	// US dollars of each session, over all of its turns and their subagents; 0 means that nothing may be spent. If it is
	// not set, there is no limit.
	SessionUSD *float64 `toml:"session_usd" min:"0" max:"1000000" example:"5.0"`
	// Input plus output tokens of the same; 0 means none. If it is not set, there is no limit.
	SessionTokens *int64 `toml:"session_tokens" min:"0" example:"2000000"`
	// US dollars of each tenant in a day of UTC; 0 means that nothing may be spent. If it is not set, there is no limit.
	TenantUSDPerDay *float64 `toml:"tenant_usd_per_day" min:"0" max:"1000000" example:"20.0"`
	// US dollars of each tenant in a month of UTC; 0 means that nothing may be spent. If it is not set, there is no limit.
	TenantUSDPerMonth *float64 `toml:"tenant_usd_per_month" min:"0" max:"1000000" example:"400.0"`
}
