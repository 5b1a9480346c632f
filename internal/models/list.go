package models

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

//go:embed snapshot.json
var snapshot []byte

// List is a dated list of models and prices, sorted by provider and name.
type List struct {
	Date    string    `json:"date"`   // the date of the data, such as 2026-11-10
	Notice  string    `json:"notice"` // the sources' licences
	Vendors []Vendor  `json:"vendors"`
	Models  []Profile `json:"models"`
	// Fetched is when the list was fetched; the zero time for the built-in snapshot.
	Fetched time.Time `json:"fetched,omitzero"`
	// Origin is the identity of the file in which Keep wrote the list: see statedir.Identity.
	Origin string `json:"origin,omitempty"`
}

// Vendor is a provider whose models are in the list.
type Vendor struct {
	ID      string `json:"id"`
	BaseURL string `json:"base_url"` // of the vendor's own API
}

// BuiltIn returns the snapshot that this program was built with.
var BuiltIn = sync.OnceValue(func() *List {
	list, err := Parse(snapshot)
	if err != nil {
		panic(err) // a test parses the snapshot
	}
	return list
})

// Parse reads a list from its JSON and checks it. It refuses the whole list if one model is invalid, for instance
// because its price is negative.
func Parse(b []byte) (*List, error) {
	var list List
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("the model list is not valid JSON: %w", err)
	}
	if _, err := time.Parse(time.DateOnly, list.Date); err != nil {
		return nil, fmt.Errorf("the model list has no valid date: %w", err)
	}
	if len(list.Models) == 0 {
		return nil, errors.New("the model list is empty")
	}
	for _, p := range list.Models {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("model %q: %w", turn.Truncate(p.ID(), 100), err)
		}
	}
	slices.SortStableFunc(list.Models, func(a, b Profile) int { return strings.Compare(a.ID(), b.ID()) })
	return &list, nil
}

// maxRate is the highest price that Parse accepts, in dollars per million tokens. It is low enough that costs fit
// into turn.USD.
const maxRate = 1_000_000

// check returns an error if the profile is invalid.
func (p Profile) check() error {
	if p.Provider == "" || p.Name == "" || len(p.ID()) > 200 {
		return errors.New("it must have a provider and a name of together at most 200 bytes")
	}
	if p.ContextTokens < 0 || p.MaxOutputTokens < 0 {
		return errors.New("its numbers of tokens must not be negative")
	}
	for effort := range p.Reasoning.Efforts {
		if !effort.Known() {
			return fmt.Errorf("%q is no level of effort", effort)
		}
	}
	if p.Price == nil {
		return nil
	}
	rates := []Rates{p.Price.Rates}
	for _, t := range p.Price.Tiers {
		rates = append(rates, t.Rates)
	}
	for _, r := range rates {
		for _, n := range []float64{r.Input, r.CachedInput, r.CacheWrite, r.Output} {
			if !(n >= 0 && n <= maxRate) { // true of NaN too
				return fmt.Errorf("a price of %g dollars per million tokens; it must be from 0 to %d", n, maxRate)
			}
		}
	}
	return nil
}

// Has reports whether the list has the vendor.
func (l *List) Has(vendor string) bool {
	return slices.ContainsFunc(l.Vendors, func(v Vendor) bool { return v.ID == vendor })
}

// VendorOf returns the vendor whose API has the host of baseURL. It returns "" for any other endpoint, such as a
// proxy or a server of the operator.
func (l *List) VendorOf(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	for _, v := range l.Vendors {
		if own, err := url.Parse(v.BaseURL); err == nil && strings.EqualFold(own.Hostname(), u.Hostname()) {
			return v.ID
		}
	}
	return ""
}

// Find returns a vendor's model. It converts name to lower case, as the list has all names. If the list does not have
// the name, but has it without the date ("gpt-4.1-2025-04-14") or "-latest" at its end, Find returns that model under
// the given name.
func (l *List) Find(vendor, name string) (Profile, bool) {
	for _, n := range []string{name, undated(name)} {
		i, ok := slices.BinarySearchFunc(l.Models, vendor+":"+strings.ToLower(n),
			func(p Profile, id string) int { return strings.Compare(p.ID(), id) })
		if ok {
			p := l.Models[i]
			p.Capabilities = slices.Clone(p.Capabilities)
			if n != name {
				p.Name = name
			}
			return p, true
		}
	}
	return Profile{}, false
}

// reasoning returns how a model reasons behind an endpoint of no known vendor, such as a proxy: as the vendor's own
// model of this name, if the endpoint has the same wire API. Over Chat Completions servers differ too much.
func (l *List) reasoning(api turn.API, name string) turn.Reasoning {
	vendor := map[turn.API]string{turn.APIMessages: "anthropic", turn.APIResponses: "openai"}[api]
	p, ok := l.Find(vendor, name[strings.LastIndexByte(name, '/')+1:])
	if vendor == "" || !ok {
		return turn.Reasoning{}
	}
	return p.Reasoning
}

// undated returns the name of a model without "-latest" or a date at its end.
func undated(name string) string {
	if short, ok := strings.CutSuffix(name, "-latest"); ok {
		return short
	}
	for _, layout := range []string{"-" + time.DateOnly, "-20060102"} {
		if at := len(name) - len(layout); at > 0 {
			if _, err := time.Parse(layout, name[at:]); err == nil {
				return name[:at]
			}
		}
	}
	return name
}
