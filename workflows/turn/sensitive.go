package turn

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
)

// maxSensitive bounds the names that Sensitive returns for a schema.
const maxSensitive = 64

// Sensitive returns the names of the properties, at any depth of a tool's schema, whose values are secret by the
// schema: those with the format "password" and those that are writeOnly.
func Sensitive(schema json.RawMessage) (names []string) {
	if !bytes.Contains(schema, []byte("password")) && !bytes.Contains(schema, []byte("writeOnly")) {
		return nil // most schemas
	}
	var whole any
	if json.Unmarshal(schema, &whole) != nil {
		return nil
	}
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				visit(item)
			}
		case map[string]any:
			properties, _ := v["properties"].(map[string]any)
			for name, p := range properties {
				if p, ok := p.(map[string]any); ok && (p["format"] == "password" || p["writeOnly"] == true) {
					names = append(names, name)
				}
			}
			for _, item := range v {
				visit(item)
			}
		}
	}
	visit(whole)
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxSensitive)]
}

// blanked replaces the value of a sensitive argument.
const blanked = `"[blanked]"`

// sensitiveName matches the names of arguments that are secret whatever the schema says, in lower case and without
// separators.
var sensitiveName = regexp.MustCompile(`(password|passwd|passphrase|secret|apikey|privatekey|accesstoken|authtoken|` +
	`refreshtoken|bearertoken|sessiontoken|apitoken|credentials?|creditcardnumber|cardnumber)$|` +
	`^(pwd|token|authorization|ssn|socialsecuritynumber|creditcard|cvv|cvc|otp)$`)

// BlankArguments returns the arguments of a call as streams, sinks and traces show them: without the values of members
// that are sensitive by their name (password, ssn, api_key, …) or that names lists. It changes nothing else, and keeps
// true, false and null. Arguments that are not JSON are blanked as a whole if they may contain such a name.
func BlankArguments(arguments string, names []string) string {
	sensitive := func(name string) bool {
		plain := separators.Replace(strings.ToLower(name))
		return sensitiveName.MatchString(plain) || slices.Contains(names, name)
	}
	if !slices.ContainsFunc(quoted.FindAllStringSubmatch(arguments, -1), func(m []string) bool { return sensitive(m[1]) }) &&
		!strings.Contains(arguments, `\`) { // which may spell a name
		return arguments
	}
	var out strings.Builder
	rest := 0 // the offset of what is not written yet
	err := eachSensitive(arguments, sensitive, func(value json.RawMessage, at int) {
		if strings.IndexByte("tfn", value[0]) < 0 { // true, false, null
			out.WriteString(arguments[rest:at] + blanked)
			rest = at + len(value)
		}
	})
	if err != nil {
		return blanked
	}
	return out.String() + arguments[rest:]
}

var (
	separators = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")
	// quoted matches a string in a text that may not be JSON.
	quoted = regexp.MustCompile(`"([^"\\]{1,100})"`)
)

// eachSensitive calls found with the value, and its offset, of each member of a JSON text whose name is sensitive. It
// does not look into these values.
func eachSensitive(text string, sensitive func(name string) bool, found func(value json.RawMessage, at int)) error {
	dec := json.NewDecoder(strings.NewReader(text))
	var objects []bool // for each open object (true) or list (false)
	isName := false    // the next token is a member's name or the end of an object
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) && len(objects) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if name, ok := token.(string); ok && isName {
			if isName = sensitive(name); isName {
				var value json.RawMessage
				if err := dec.Decode(&value); err != nil {
					return err
				}
				found(value, int(dec.InputOffset())-len(value))
			}
			continue
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			objects = append(objects, token == json.Delim('{'))
		case json.Delim('}'), json.Delim(']'):
			objects = objects[:len(objects)-1]
		}
		isName = len(objects) > 0 && objects[len(objects)-1]
	}
}
