package turn

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Rule decides about calls of some tools by their arguments. It is read in two ways: surely, where it decides, and
// perhaps, where another reader of the same arguments might find what it names. A rule that applies only perhaps can make
// the outcome stricter, never looser: it never allows, a deny denies, and an ask asks at least.
//
// Perhaps is wide: it looks through escapes, other slashes and letters that fold to plain ones, at a path behind file:, at a
// host whatever its scheme, user and port; and a home (~), a variable ($), a path through /proc, or a text with too many
// readings may be anything. In the host of a pattern * stands for the characters of hosts only.
//
// A rule says nothing of the arguments that it does not name, and knows paths and addresses, but no shell: what may follow
// a semicolon is the tool's business, and so is where links, globs and names of the net lead. To confine a tool, allow what
// is known to be good and deny the rest of its calls in the next rule, rather than to deny what is known to be bad.
type Rule struct {
	// Tool is a pattern of tool IDs, as in Policy.Allow.
	Tool string `json:"tool"`
	// Arguments are patterns of values by dotted key ("options.path"); all of them must match, and a key that is not there
	// does not. None: every call. A string is matched as it is, any other value in its canonical form: compact, keys
	// sorted, numbers without exponent and needless zeros. In a pattern *, ? and [a-z] are within one segment between
	// slashes; a /** at the end, or ** alone, stands for any number of segments.
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
		sure = min(sure, holds(fields, key, pattern))
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
func holds(fields map[string]any, key, pattern string) certainty {
	readings := valuesAt(fields, key)
	if value, plain := valueAt(fields, key); plain && len(readings) == 1 && coversValue(pattern, value) {
		return surely
	}
	for _, value := range readings {
		if touchesValue(pattern, value) {
			return perhaps
		}
	}
	return never
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
