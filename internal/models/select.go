package models

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Preference is the order of the models that a selection returns.
type Preference string

// The preferences.
const (
	CostFirst    Preference = "cost_first"    // the lowest expected cost
	LatencyFirst Preference = "latency_first" // the operator's class of latency
	QualityFirst Preference = "quality_first" // the operator's tier of quality
)

// Selection is a set of requirements for a model. Prices are in dollars per million tokens; nil means no maximum.
type Selection struct {
	Require          []Capability
	MaxInputPrice    *float64
	MaxOutputPrice   *float64
	MinContextTokens int64
	Preference       Preference // empty means CostFirst
}

// The tokens of a typical inference, whose cost CostFirst compares. An agent's step has much more input than output.
const (
	expectedInput  = 10_000
	expectedOutput = 1_000
)

// Expected returns the cost in dollars of an inference with 10,000 tokens of input and 1,000 of output.
func (p *Price) Expected() float64 {
	r := p.Rates
	for _, t := range p.Tiers {
		if expectedInput > t.Above {
			r = t.Rates
		}
	}
	return (r.Input*expectedInput + r.Output*expectedOutput) / 1e6
}

// Select returns the models of the configured providers that meet all requirements, best first, and equally good ones
// in the order of their IDs. Unknown values do not meet a requirement: a model fits a maximum price only if its price
// is known, and QualityFirst only considers models with a quality tier. The error says how many models each
// requirement excluded.
func (m Models) Select(s Selection) ([]Resolved, error) {
	excluded := map[string]int{}
	var fit []Resolved
	for _, r := range m.Candidates() {
		if why := s.unmet(r.Profile); why != "" {
			excluded[why]++
		} else {
			fit = append(fit, r)
		}
	}
	if len(fit) == 0 {
		return nil, noneFits(excluded)
	}
	slices.SortStableFunc(fit, func(a, b Resolved) int {
		return cmp.Or(s.compare(a.Profile, b.Profile), strings.Compare(a.ID(), b.ID()))
	})
	return fit, nil
}

// Candidates returns all models of the configured providers: the models in the list, and those that the operator
// describes.
func (m Models) Candidates() (out []Resolved) {
	seen := map[string]bool{}
	add := func(e Endpoint, name string) {
		if r, err := m.find(e, name); err == nil && !seen[r.ID()] {
			seen[r.ID()] = true
			out = append(out, r)
		}
	}
	for _, e := range m.Endpoints {
		for _, p := range m.List.Models {
			if p.Provider == e.Vendor {
				add(e, p.Name)
			}
		}
	}
	for _, o := range m.Overrides {
		provider, name, ok := strings.Cut(o.Model, ":")
		i := slices.IndexFunc(m.Endpoints, func(e Endpoint) bool { return ok && e.ID == provider })
		if i >= 0 {
			add(m.Endpoints[i], name)
		} else if r, err := m.Resolve(o.Model); err == nil && !seen[r.ID()] {
			seen[r.ID()] = true
			out = append(out, r)
		}
	}
	return out
}

// unmet returns the requirement that a model does not meet, as a predicate for an error message ("cost more"), or "" if
// it meets all.
func (s Selection) unmet(p Profile) string {
	for _, c := range s.Require {
		if !p.Has(c) {
			return "lack " + string(c)
		}
	}
	switch {
	case s.MinContextTokens > 0 && p.ContextTokens < s.MinContextTokens:
		return "have a smaller context window, or one that is not known"
	case (s.MaxInputPrice != nil || s.MaxOutputPrice != nil) && p.Price == nil:
		return "have no known price"
	case s.MaxInputPrice != nil && p.Price.Input > *s.MaxInputPrice,
		s.MaxOutputPrice != nil && p.Price.Output > *s.MaxOutputPrice:
		return "cost more"
	case s.Preference == QualityFirst && p.Quality == 0:
		return "have no quality tier (set quality under [[models]])"
	}
	return ""
}

// compare orders two models by the preference, and equal ones by their expected cost. Models whose price or latency
// class is unknown come last.
func (s Selection) compare(a, b Profile) int {
	byCost := compareKnown(a.Price != nil, b.Price != nil,
		func() int { return cmp.Compare(a.Price.Expected(), b.Price.Expected()) })
	switch s.Preference {
	case LatencyFirst:
		return cmp.Or(cmp.Compare(latencyRank(a.Latency), latencyRank(b.Latency)), byCost)
	case QualityFirst:
		return cmp.Or(cmp.Compare(a.Quality, b.Quality), byCost) // both are known: see unmet
	}
	return byCost
}

// compareKnown orders two values of which each may be unknown. a and b report whether they are known. Unknown values
// come last.
func compareKnown(a, b bool, compare func() int) int {
	switch {
	case a && b:
		return compare()
	case a:
		return -1
	case b:
		return 1
	}
	return 0
}

// latencies are the classes of latency, the fastest first.
var latencies = []string{"fast", "medium", "slow"}

// latencyRank returns the position of a latency class, from 0 for the fastest. An unknown class is last.
func latencyRank(class string) int {
	if i := slices.Index(latencies, class); i >= 0 {
		return i
	}
	return len(latencies)
}

// noneFits returns the error of a selection that no model meets. excluded is the number of models by the requirement
// that excluded them.
func noneFits(excluded map[string]int) error {
	var why []string
	for reason, n := range excluded {
		why = append(why, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(why)
	if len(why) == 0 {
		why = []string{"the configured providers serve names of their own; describe their models under [[models]]"}
	}
	return fmt.Errorf("no model fits the selection: %s", strings.Join(why, "; "))
}
