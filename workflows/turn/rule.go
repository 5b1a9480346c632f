package turn

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Rule decides about calls of some tools by their arguments. The pattern of an argument is about one kind of value (see
// kindOf), and each kind has one canonical form. A value in that form matches or does not. A rule never allows any other
// value: it asks, and a later rule may still deny. A rule that denies also denies what it matches in another form.
//
// A rule does not look at arguments that it does not name, and follows neither links nor DNS. To confine a tool, allow
// what is known to be good and deny the rest of its calls in the next rule, rather than deny what is known to be bad.
type Rule struct {
	// Tool is a pattern of tool IDs, as in Policy.Allow.
	Tool string `json:"tool"`
	// Arguments are patterns of values by dotted key ("options.path"); all of them must match, and a key that is not there
	// does not. None: every call. Of a list all elements must match for allow, one for deny and ask; an object as a value is
	// asked about. In a pattern * and ? match within one segment between slashes; a /** at the end, or ** alone, matches
	// any number of segments.
	Arguments map[string]string `json:"arguments,omitempty"`
	Permit    Permission        `json:"permit"`
	// Why is told to the person who is asked, or to the model that is refused.
	Why string `json:"why,omitempty"`
}

// certainty is how sure it is that a rule is meant by a call.
type certainty int

const (
	never certainty = iota
	perhaps
	surely
)

// applies says whether the rule is meant by a call of the tool with these arguments; nil are arguments that nobody knows.
func (r Rule) applies(t Tool, arguments json.RawMessage) certainty {
	switch {
	case !matches([]string{r.Tool}, t.ID):
		return never
	case len(r.Arguments) == 0:
		return surely
	case arguments == nil:
		return perhaps
	}
	fields, err := readArguments(arguments)
	if err != nil {
		return perhaps // each reader makes of them what it will
	}
	sure := surely
	//workflowcheck:ignore
	for key, pattern := range r.Arguments {
		sure = min(sure, r.holds(fields, key, pattern))
	}
	return sure
}

// decide is the rule's word on a call; doubt is what an earlier rule perhaps asks for.
func (r Rule) decide(t Tool, doubt string) (Permission, string) {
	switch {
	case r.Permit == Allow && doubt != "":
		return Ask, doubt
	case r.Permit == Allow:
		return Allow, ""
	case r.Permit == Ask:
		return Ask, r.reason("policy asks a person before %s"+r.such(), t)
	}
	return Deny, r.reason("policy denies %s"+r.such(), t)
}

// doubt is why a person is asked if the rule perhaps applies. If the arguments are not known yet, a rule that allows
// asks nothing.
func (r Rule) doubt(t Tool, arguments json.RawMessage) string {
	switch {
	case arguments == nil && r.Permit == Allow:
		return ""
	case arguments == nil || r.Permit != Allow:
		return r.reason("policy asks a person before %s with such arguments", t)
	}
	return fmt.Sprintf("policy asks a person before %s with arguments that are not in canonical form", t.ID)
}

func (r Rule) such() string {
	if len(r.Arguments) == 0 {
		return ""
	}
	return " with such arguments"
}

// reason is what the rule did to a tool, with the operator's own words where there are some.
func (r Rule) reason(did string, t Tool) string {
	if r.Why == "" {
		return fmt.Sprintf(did, t.ID)
	}
	return fmt.Sprintf(did, t.ID) + ": " + r.Why
}

// readArguments reads arguments as one object in which no key comes twice. Tools without parameters are called with
// nothing, or null.
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

// holds says whether the value at a dotted key matches a pattern.
func (r Rule) holds(fields map[string]any, key, pattern string) certainty {
	readings := valuesAt(fields, key)
	value, plain := valueAt(fields, key)
	if len(readings) == 0 {
		return never
	}
	if !plain || len(readings) > 1 {
		return perhaps
	}
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	if r.Permit != Allow {
		sure := never
		for _, v := range list {
			sure = max(sure, weighValue(bars, pattern, v))
		}
		return sure
	}
	sure := surely
	if len(list) == 0 {
		sure = perhaps
	}
	for _, v := range list {
		sure = min(sure, weighValue(allows, pattern, v))
	}
	return sure
}

// weighValue weighs one value. It does not look into objects and nested lists.
func weighValue(weigh func(pattern, text string) certainty, pattern string, value any) certainty {
	switch v := value.(type) {
	case string:
		return weigh(pattern, v)
	case nil:
		return weigh(pattern, "null")
	case []any, map[string]any:
		return perhaps
	default:
		return weigh(pattern, fmt.Sprint(v))
	}
}

// valueAt is the value at a dotted key, each part of which is the name of a key.
func valueAt(fields map[string]any, key string) (any, bool) {
	name, rest, nested := strings.Cut(key, ".")
	value, ok := fields[name]
	if !ok || !nested {
		return value, ok
	}
	inner, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	return valueAt(inner, rest)
}

// valuesAt are the values that some reader may find at a dotted key: many, Go's own decoder among them, do not tell
// upper case from lower, some let a key have a dot, and some take a list for its only element.
func valuesAt(value any, key string) []any {
	var found []any
	switch v := value.(type) {
	case map[string]any:
		//workflowcheck:ignore
		for name, inner := range v {
			if strings.EqualFold(name, key) {
				found = append(found, inner)
			}
			for i, c := range key {
				if c == '.' && strings.EqualFold(name, key[:i]) {
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
