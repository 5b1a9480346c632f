package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/nearest"
)

// borrowed names other programs' variables by key. They set the key if neither the file nor its own EVERTURN_ variable
// does.
var borrowed = map[string]string{
	"llm.api_key": "OPENAI_API_KEY", "llm.base_url": "OPENAI_BASE_URL",
	// set by Temporal's Worker Controller
	"worker.deployment": "TEMPORAL_DEPLOYMENT_NAME",
}

// environment converts the result of os.Environ to a map. The last value of a name wins.
func environment(environ []string) map[string]string {
	out := make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			out[name] = value
		}
	}
	return out
}

// variable returns the name of a key's environment variable: EVERTURN_RUNTIME_MAX_STEPS.
func variable(key string) string {
	return "EVERTURN_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// applyEnviron sets the settings that have a variable in the environment, and reports EVERTURN_ variables that have the
// name of a section but not of a key. An empty variable counts as unset.
func (l *loader) applyEnviron() {
	all := settings(&l.loaded.Config)
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = variable(f.key)
		name := names[i]
		if _, inFile := l.loaded.places.key[f.key]; !inFile && l.env[name] == "" {
			name = borrowed[f.key] // "" for most keys
		}
		if value := l.env[name]; name != "" && value != "" {
			l.set(f, value, "environment "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		message := ""
		if namesSection(name) && !slices.Contains(names, name) {
			message = suggest("no key of agent.toml has this variable", name, names)
		}
		for key, instead := range removed {
			if variable(key) == name {
				message = fmt.Sprintf("%s is gone; %s", key, instead)
			}
		}
		if message != "" {
			l.add(Problem{Source: "environment " + name, Message: message})
		}
	}
}

// namesSection reports whether a variable names a section of Config. Other EVERTURN_ variables are ignored.
func namesSection(name string) bool {
	return slices.ContainsFunc(field{value: reflect.ValueOf(Config{})}.members(), func(section field) bool {
		return strings.HasPrefix(name, variable(section.key)+"_")
	})
}

// suggest adds the most similar name to a message.
func suggest(message, name string, known []string) string {
	if best := nearest.Name(name, known); best != "" {
		return message + "; did you mean " + best + "?"
	}
	return message
}

// applyOverrides sets the settings that the command line gives by dotted key, and reports unknown keys.
func (l *loader) applyOverrides(overrides map[string]string) {
	all := settings(&l.loaded.Config)
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		i := slices.IndexFunc(all, func(f field) bool { return f.key == key })
		if i < 0 {
			message := suggest("unknown key "+quote(key), key, settingKeys())
			if instead := instead(key); instead != "" {
				message = "unknown key " + key + "; " + instead
			}
			l.add(Problem{Key: key, Source: "command line", Message: message})
			continue
		}
		l.set(all[i], overrides[key], "command line ("+key+")")
	}
}

// set parses a value of the environment or the command line into a setting, or adds a problem. source names the
// variable or flag.
func (l *loader) set(f field, value, source string) {
	if err := parseInto(f.value, value); err != nil {
		// The message may quote the value: a secret always parses.
		message := fmt.Sprintf("%s is %s; it must be %s", f.key, quote(value), f.accepted())
		l.add(Problem{Key: f.key, Source: source, Message: message})
	}
	l.loaded.overridden[f.key] = source
	delete(l.loaded.written, f.key) // the value of the file no longer applies
}

// parseInto sets v from text, or leaves v unchanged and returns an error; lists are separated by commas.
func parseInto(v reflect.Value, text string) error {
	parsed, err := parsed(v.Type(), text)
	if err == nil {
		v.Set(reflect.ValueOf(parsed).Convert(v.Type()))
	}
	return err
}

// parsed parses text as a value of type t, or as one that converts to t: an integer as int64, for instance. Numbers
// must be finite; lists are separated by commas, and empty elements are left out.
func parsed(t reflect.Type, text string) (any, error) {
	if t == durationType {
		return time.ParseDuration(text)
	}
	switch t.Kind() {
	case reflect.Bool:
		return strconv.ParseBool(text)
	case reflect.Int, reflect.Int64:
		return strconv.ParseInt(text, 10, 64)
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			err = strconv.ErrRange
		}
		return x, err
	case reflect.Pointer:
		inner := reflect.New(t.Elem())
		return inner.Interface(), parseInto(inner.Elem(), text)
	case reflect.Slice:
		items := reflect.Zero(t)
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = reflect.Append(items, reflect.ValueOf(item).Convert(t.Elem()))
			}
		}
		return items.Interface(), nil
	}
	return text, nil
}

// CheckEnviron reports variables that a server of this worker inherits (env_allow) and that environ, in the form of
// os.Environ, lacks. Only a process that starts servers calls it: a client does not need their secrets. The error is an
// *Error that matches ErrCredentials, like that of a secret whose ${VAR} is not set.
func (c Config) CheckEnviron(environ []string) error {
	have := environment(environ)
	var problems []Problem
	for i, s := range c.MCP.Servers {
		for j, name := range s.EnvAllow {
			if _, set := have[name]; !set && c.Worker.Hosts(s) && len(problems) < maxProblems {
				key := fmt.Sprintf("mcp.servers[%d].env_allow[%d]", i, j)
				problems = append(problems, Problem{Key: key, Credentials: true, Message: fmt.Sprintf(
					"%s names %s, which is not set; set it, or remove it from the list of server %q", key, name, s.ID)})
			}
		}
	}
	return asError(problems)
}

// CheckEnviron is like Config.CheckEnviron, and adds each problem's position in the file.
func (l *Loaded) CheckEnviron(environ []string) error {
	err := l.Config.CheckEnviron(environ)
	var found *Error
	if errors.As(err, &found) {
		for i := range found.Problems {
			l.locate(&found.Problems[i])
		}
	}
	return err
}
