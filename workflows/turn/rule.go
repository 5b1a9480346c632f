package turn

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
)

// Rule decides about calls of some tools by their arguments. The pattern of an argument describes one kind of value (a
// URL, an email address, a host, a number, or else a path or word), and each kind has one canonical form. A value in
// that form either matches or does not. A rule never allows a value in another form: it asks, and a later rule may
// still deny. A rule that denies also denies a value that matches in another form.
//
// A rule ignores arguments that it does not name, and follows neither links nor DNS. To confine a tool, allow the
// values that are known to be good and deny the rest of its calls in the next rule.
type Rule struct {
	// A pattern of tool IDs, as in policy.allow.
	Tool string `json:"tool" toml:"tool" maxbytes:"400" example:"mcp/files/write_*"`
	// Patterns of values by dotted key, all of which must match; without it the rule matches every call. * does not
	// match a slash; /** at the end does.
	Arguments map[string]string `json:"arguments,omitempty" toml:"arguments" maxbytes:"400" example:"path = docs/**"`
	// "allow", "ask" or "deny".
	Permit Permission `json:"permit" toml:"permit" enum:"allow,ask,deny" example:"allow"`
	// Shown with the approval request, or to the model with the denial.
	Why string `json:"why,omitempty" toml:"why" maxbytes:"400" example:"only the documentation may be written"`
}

// applies returns how certainly the rule applies to a call of the tool with these arguments.
func (r Rule) applies(t Tool, arguments json.RawMessage) certainty {
	switch {
	case !matches([]string{r.Tool}, t.ID):
		return never
	case len(r.Arguments) == 0:
		return surely
	}
	fields, err := readArguments(arguments)
	if err != nil {
		return perhaps // readers may parse the arguments differently
	}
	sure := surely
	//workflowcheck:ignore
	for key, pattern := range r.Arguments {
		sure = min(sure, r.matchArgument(fields, key, pattern))
	}
	return sure
}

// decide returns the permit of a rule that applies to a call. doubt is not empty if an earlier rule may apply: then it
// is the reason why an allowed call needs an approval.
func (r Rule) decide(t Tool, doubt string) Permit {
	call := t.ID
	if len(r.Arguments) > 0 {
		call += " with such arguments"
	}
	switch {
	case r.Permit == Allow && doubt != "":
		return Permit{Permission: Ask, Why: doubt}
	case r.Permit == Allow:
		return Permit{Permission: Allow}
	case r.Permit == Ask:
		return Permit{Permission: Ask, Why: r.because("policy requires approval of " + call)}
	}
	return Permit{Permission: Deny, Why: r.because("policy denies " + call)}
}

// doubt returns the reason for an approval if it is unclear whether the rule applies.
func (r Rule) doubt(t Tool) string {
	if r.Permit == Allow {
		return "policy requires approval of " + t.ID + " with arguments that are not in canonical form"
	}
	return r.because("policy requires approval of " + t.ID + " with such arguments")
}

// because appends the reason in the operator's configuration to the text, if there is one.
func (r Rule) because(what string) string {
	if r.Why == "" {
		return what
	}
	return what + ": " + r.Why
}

// readArguments reads arguments as one object without duplicate keys. It accepts empty arguments and null, which
// models send to tools without parameters.
func readArguments(arguments json.RawMessage) (map[string]any, error) {
	switch strings.TrimSpace(string(arguments)) {
	case "", "null":
		return nil, nil
	}
	if _, err := strictObject(string(arguments)); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(string(arguments)))
	dec.UseNumber()
	var fields map[string]any
	err := dec.Decode(&fields)
	return fields, err
}

// matchArgument returns how certainly the value at a dotted key matches a pattern. The result is perhaps if readers
// may find different values at the key.
func (r Rule) matchArgument(fields map[string]any, key, pattern string) certainty {
	readings := valuesAt(fields, key)
	exact, value := false, any(fields) // exact: the object has exactly this key
	for name := range strings.SplitSeq(key, ".") {
		object, _ := value.(map[string]any)
		value, exact = object[name]
	}
	list, isList := value.([]any)
	switch {
	case len(readings) == 0:
		return never
	case !exact || len(readings) > 1:
		return perhaps
	case !isList:
		list = []any{value}
	case len(list) == 0 && (r.Permit == Allow || matchesAll(pattern)): // it is unclear whether an empty list matches
		return perhaps
	}
	// A rule that allows needs all elements to match; a rule that denies or asks, only one.
	sure := never
	for i, v := range list {
		c := r.compare(pattern, v)
		if i == 0 || r.Permit == Allow && c < sure || r.Permit != Allow && c > sure {
			sure = c
		}
	}
	return sure
}

// compare returns how certainly one value matches a pattern. The value's JSON type must fit the pattern: a number or a
// boolean matches only patterns of its kind, * and **. A null is compared as the text null. The result for objects and
// nested lists is perhaps, because rules do not look into them.
func (r Rule) compare(pattern string, value any) certainty {
	k := kindOf(pattern)
	text, fits := "null", matchesAll(pattern) // fits: the value's type can match the pattern
	switch v := value.(type) {
	case string:
		text, fits = v, true
	case nil:
		fits = true
	case bool:
		text, fits = strconv.FormatBool(v), fits || k == kindBool
	case json.Number:
		text, fits = v.String(), canonical(kindNumber, v.String()) && (fits || k == kindNumber)
	default:
		fits = false
	}
	switch {
	case !fits:
		return perhaps
	case r.Permit == Allow:
		return matchToAllow(pattern, text)
	}
	return matchToDeny(pattern, text)
}

// valuesAt returns all values that some reader may find at a dotted key, in any order. Many readers, such as Go's own
// decoder, ignore the case of a key; some read k[] or file-name as k or fileName, some allow dots in a key, and some
// accept a list in place of its only element.
func valuesAt(value any, key string) []any {
	var found []any
	switch v := value.(type) {
	case map[string]any:
		//workflowcheck:ignore
		for name, inner := range v {
			if sameKey(name, key) {
				found = append(found, inner)
			}
			for i, c := range key { // a name may contain the key up to any of its dots
				if c == '.' && sameKey(name, key[:i]) {
					found = append(found, valuesAt(inner, key[i+1:])...)
				}
			}
		}
	case []any:
		for _, inner := range v {
			found = append(found, valuesAt(inner, key)...)
		}
	}
	return found
}

// sameKey reports whether some reader may take two keys for the same one, because they differ only in case and
// punctuation.
func sameKey(a, b string) bool {
	return strings.EqualFold(alphanumeric(a), alphanumeric(b))
}

// alphanumeric returns the letters and digits of a text.
func alphanumeric(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}
