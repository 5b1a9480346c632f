package engine

import (
	"math"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Budget converts a configured budget to that of the journal. A limit that is not set stays nil.
func Budget(b config.Budget) journal.Budget {
	return journal.Budget{Session: usd(b.SessionUSD), SessionTokens: b.SessionTokens, TenantDay: usd(b.TenantUSDPerDay),
		TenantMonth: usd(b.TenantUSDPerMonth)}
}

func usd(dollars *float64) *turn.USD {
	if dollars == nil {
		return nil
	}
	amount := turn.USD(math.Round(*dollars * float64(turn.Dollar)))
	return &amount
}
