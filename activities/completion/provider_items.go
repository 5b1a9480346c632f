package completion

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

// redactItems returns the items, or nil if they contain a secret. It drops all of them together, because a provider
// refuses signed reasoning that was changed, and also items whose reasoning is missing, but accepts a message without
// items.
func redactItems(r *redact.Redactor, items *turn.ProviderItems) *turn.ProviderItems {
	joined := map[string]*strings.Builder{}
	for _, item := range items.Items {
		raw := string(item.Raw)
		if r.JSON(raw) != raw {
			return nil
		}
		var value any
		if json.Unmarshal(item.Raw, &value) == nil { // an item may be empty
			joinStrings(joined, "", value)
		}
	}
	for _, text := range joined { // a secret may be split over the parts of a summary or over several items
		if s := text.String(); r.Values(s) != s {
			return nil
		}
	}
	return items
}

// joinStrings appends each string in a JSON value to joined, under the key of its object. Elements of an array have
// the key of the array. Objects are walked in the order of their keys.
func joinStrings(joined map[string]*strings.Builder, key string, value any) {
	switch v := value.(type) {
	case string:
		if joined[key] == nil {
			joined[key] = &strings.Builder{}
		}
		joined[key].WriteString(v)
	case []any:
		for _, element := range v {
			joinStrings(joined, key, element)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			joinStrings(joined, name, v[name])
		}
	}
}
