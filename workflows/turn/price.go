package turn

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// USD is an amount of money in picodollars, 10⁻¹² US dollars. In JSON it is a number of dollars, such as 0.00125. The
// unit makes costs exact: prices of one microdollar per million tokens are one picodollar per token.
type USD int64

// Dollar is one US dollar. The largest USD is about 9.2 million dollars.
const Dollar USD = 1_000_000_000_000

// MarshalJSON returns the amount as an exact decimal number of dollars.
func (u USD) MarshalJSON() ([]byte, error) {
	s := new(big.Rat).SetFrac64(int64(u), int64(Dollar)).FloatString(12)
	return []byte(strings.TrimSuffix(strings.TrimRight(s, "0"), ".")), nil
}

// UnmarshalJSON reads a number of dollars, which may be in quotes. It rounds digits after the twelfth, and refuses
// amounts that do not fit.
func (u *USD) UnmarshalJSON(b []byte) error {
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return fmt.Errorf("an amount in dollars must be a number: %w", err)
	}
	f, ok := new(big.Float).SetPrec(128).SetString(n.String())
	if !ok {
		return fmt.Errorf("%q is not an amount in dollars", Truncate(n.String(), 40))
	}
	f.Mul(f, new(big.Float).SetInt64(int64(Dollar)))
	half := 0.5 // Int truncates towards zero, so adding half away from zero rounds
	if f.Sign() < 0 {
		half = -0.5
	}
	i, _ := f.Add(f, big.NewFloat(half)).Int(nil)
	if !i.IsInt64() {
		return fmt.Errorf("%q dollars do not fit; the maximum is 9 million", Truncate(n.String(), 40))
	}
	*u = USD(i.Int64())
	return nil
}

// Dollars returns the amount in dollars.
func (u USD) Dollars() float64 { return float64(u) / float64(Dollar) }

// String returns the amount in dollars for display: two digits after the point from one cent on, and otherwise two
// significant digits.
func (u USD) String() string {
	digits, a := 2, max(u, -u)
	if a < Dollar/100 {
		for ; a > 0 && a < Dollar/10 && digits < 12; a *= 10 { // one digit for each zero after the point
			digits++
		}
	}
	return "$" + new(big.Rat).SetFrac64(int64(u), int64(Dollar)).FloatString(digits)
}

// Rates are the prices of one token each, in picodollars: a rate of 1,250,000 is 1.25 dollars per million tokens.
type Rates struct {
	Input       int64 `json:"input"`
	CachedInput int64 `json:"cached_input"` // of input tokens that the provider read from its cache
	CacheWrite  int64 `json:"cache_write"`  // of input tokens that the provider wrote to its cache
	Output      int64 `json:"output"`       // reasoning included
}

// Price is the price of a model's tokens. Tiers are in ascending order of Above; the last one that an inference's input
// exceeds applies to all of its tokens.
type Price struct {
	Rates
	Tiers []Tier `json:"tiers,omitempty"`
}

// Tier are the rates of inferences whose input has more than Above tokens.
type Tier struct {
	Above int64 `json:"above"`
	Rates
}

// maxCost is the largest result of Price.Cost. It is so far below the largest USD that the sum of several does not
// overflow.
const maxCost = math.MaxInt64 / 8

// Cost returns the price of the usage, but at most about 1.15 million dollars.
func (p Price) Cost(u Usage) USD {
	r := p.Rates
	for _, t := range p.Tiers {
		if u.InputTokens > t.Above {
			r = t.Rates
		}
	}
	uncached := max(u.InputTokens-u.CachedTokens-u.CacheWriteTokens, 0)
	// The sum of floats shows whether the sum of integers would overflow.
	about := float64(uncached)*float64(r.Input) + float64(u.CachedTokens)*float64(r.CachedInput) +
		float64(u.CacheWriteTokens)*float64(r.CacheWrite) + float64(u.OutputTokens)*float64(r.Output)
	if about > maxCost {
		return maxCost
	}
	return USD(uncached*r.Input + u.CachedTokens*r.CachedInput + u.CacheWriteTokens*r.CacheWrite +
		u.OutputTokens*r.Output)
}
