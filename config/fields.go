package config

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/nearest"
)

// field is a setting, a table or a list of a configuration, with its dotted key: runtime.max_steps, mcp.servers[0].id.
type field struct {
	key   string
	name  string // the last name of key, unquoted
	tag   reflect.StructTag
	value reflect.Value
}

// members returns the fields of a struct in their order, the elements of a list, or the entries of a map sorted by
// name. A scalar has none.
func (f field) members() (out []field) {
	switch f.value.Kind() {
	case reflect.Struct:
		for _, m := range reflect.VisibleFields(f.value.Type()) { // those of embedded structs too
			if name := m.Tag.Get("toml"); name != "" {
				out = append(out, field{join(f.key, name), name, m.Tag, f.value.FieldByIndex(m.Index)})
			}
		}
	case reflect.Slice:
		for i := range f.value.Len() {
			out = append(out, f.element(i))
		}
	case reflect.Map:
		for _, k := range slices.SortedFunc(slices.Values(f.value.MapKeys()), byName) {
			out = append(out, field{join(f.key, k.String()), k.String(), f.tag, f.value.MapIndex(k)})
		}
	}
	return out
}

func byName(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }

// element returns an element of a list.
func (f field) element(i int) field {
	return field{fmt.Sprintf("%s[%d]", f.key, i), f.name, f.tag, f.value.Index(i)}
}

// member returns the field of a struct with this name in TOML, and whether there is one.
func (f field) member(name string) (field, bool) {
	all := f.members()
	i := slices.IndexFunc(all, func(m field) bool { return m.name == name })
	if i < 0 {
		return field{}, false
	}
	return all[i], true
}

// isURL reports whether the setting is a URL. An entry of a table such as arguments is none, whatever its name is.
func (f field) isURL() bool { return strings.HasSuffix(f.tag.Get("toml"), "url") }

// settings returns the fields that the environment and the command line can set: those in a section or at the top
// level, without tables below a section ([[mcp.servers]]), and the tenant, which no file sets.
func settings(c *Config) (out []field) {
	out = append(out, field{key: "tenant", name: "tenant", value: reflect.ValueOf(&c.Tenant).Elem()})
	for _, section := range (field{value: reflect.ValueOf(c).Elem()}).members() {
		if !table(section.value.Type()) {
			out = append(out, section)
			continue
		}
		for _, f := range section.members() {
			if !table(f.value.Type()) {
				out = append(out, f)
			}
		}
	}
	return out
}

// settingKeys returns the dotted keys that the environment and the command line can set.
func settingKeys() (keys []string) {
	for _, f := range settings(new(Config)) {
		keys = append(keys, f.key)
	}
	return keys
}

// table reports whether TOML writes a type as one table or several.
func table(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return true
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Struct
	}
	return false
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[Secret]()
)

// accepted describes the values that a field accepts, for messages that say "it must be …".
func (f field) accepted() string {
	if list, ok := f.tag.Lookup("enum"); ok {
		kind := "a string, "
		if f.value.Kind() == reflect.Slice {
			kind = "a list of strings, each "
		}
		return kind + oneOf(strings.Split(list, ","))
	}
	return acceptedBy(f.value.Type())
}

// acceptedBy describes the TOML values that a field of type t accepts.
func acceptedBy(t reflect.Type) string {
	switch {
	case t == durationType:
		return `a duration such as "15s" or "2m30s"`
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "an integer"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Pointer:
		return acceptedBy(t.Elem())
	case t.Kind() == reflect.Slice && table(t):
		return "a list of tables, written [[...]]"
	case t.Kind() == reflect.Slice:
		return "a list of strings"
	}
	return "a table"
}

// join appends a name to a dotted key, quoted if TOML requires quotes.
func join(path, name string) string {
	if !bare(name) {
		name = fmt.Sprintf("%q", name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// bare reports whether TOML accepts a key without quotes.
func bare(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return name != "" && strings.Trim(name, letters) == ""
}

// foreign says what to do with keys of other programs' configurations. A key that means something else in one table is
// listed with the table's name.
var foreign = map[string]string{
	"allow_tools": "use policy.allow", "allowed_tools": "use policy.allow", "enable_tools": "use policy.allow",
	"deny_tools": "use policy.deny", "denied_tools": "use policy.deny",
	"require_high_risk_approval": `use policy.ask_risk = "high", which is the default, or "never"`,
	"require_approval":           `use policy.ask_risk = "low"`,
	"approval_policy":            "use policy.ask_risk and policy.ask",
	"auto_approve":               "use policy.rules with permit = \"allow\"",
	"sandbox_mode":               "use local_files.write and shell.write",

	"stream": "remove it: every answer is streamed", "stream_default": "remove it: every answer is streamed",
	"default_model": "use llm.model", "model_provider": "use llm.provider", "backend_id": "use llm.provider",
	"model_providers": "use [[providers]]",
	"api_key_env":     `use api_key = "${OPENAI_API_KEY}"`, "env_key": `use api_key = "${OPENAI_API_KEY}"`,
	"api_base": "use base_url", "endpoint": "use base_url",
	"max_retries": "use llm.retry_for", "retries": "use llm.retry_for",

	"tenant": "use the flag --tenant, or EVERTURN_TENANT",

	"instructions": "use system_prompt", "system": "use system_prompt",
	"max_turns": "use max_steps", "max_iterations": "use max_steps", "max_tool_iterations": "use max_tool_calls",

	"mcpServers": "use [[mcp.servers]]", "mcp_servers": "use [[mcp.servers]]",
	"timeout":                     `use timeouts.call = "15s" of a server, or runtime.tool_timeout`,
	"timeout_ms":                  `use a duration such as timeouts.call = "15s"`,
	"servers.tool_timeout":        `use timeouts.call = "15s"`,
	"servers.tool_timeout_ms":     `use timeouts.call = "15s"`,
	"servers.tool_timeout_sec":    `use timeouts.call = "15s"`,
	"servers.startup_timeout_ms":  `use timeouts.connect = "1m"`,
	"servers.startup_timeout_sec": `use timeouts.connect = "1m"`,
	"servers.type":                "use transport",
	"servers.enabled_tools":       "use allow", "servers.disabled_tools": "use deny",
	"servers.name": "use id",
}

// numbered matches a key that other programs write as a number of a unit of time: turn_timeout_ms.
var numbered = regexp.MustCompile(`^(.+)_(ms|millis|s|sec|secs|seconds)$`)

// unknownKey returns the message for a key in a table that has no such key. It suggests what removed or foreign says,
// else a
// duration in place of a number, else the most similar key of that table, else a key of the same name in another
// section. If there is none, it lists the table's keys.
func unknownKey(in field, name string) string {
	key := join(in.key, name)
	if instead := cmp.Or(instead(key), foreign[in.name+"."+name], foreign[name]); instead != "" {
		return fmt.Sprintf("unknown key %s; %s", key, instead)
	}
	if parts := numbered.FindStringSubmatch(name); parts != nil {
		const instead = `unknown key %s; use %s with a unit, such as "15s"`
		if m, ok := in.member(parts[1]); ok && m.value.Type() == durationType {
			return fmt.Sprintf(instead, key, m.key)
		}
		for _, s := range settings(new(Config)) {
			if s.name == parts[1] && s.value.Type() == durationType {
				return fmt.Sprintf(instead, key, s.key)
			}
		}
	}
	var known []string
	for _, m := range in.members() {
		known = append(known, m.name)
	}
	slices.Sort(known)
	if best := nearest.Name(name, known); best != "" {
		return fmt.Sprintf("unknown key %s; did you mean %s?", key, join(in.key, best))
	}
	for _, k := range settingKeys() {
		if strings.HasSuffix(k, "."+name) {
			return fmt.Sprintf("unknown key %s; did you mean %s?", key, k)
		}
	}
	return fmt.Sprintf("unknown key %s; known here: %s", key, strings.Join(known, ", "))
}

// quote formats a value of the operator for an error: escaped, and truncated if it is long.
func quote(s string) string {
	const most = 40 // characters
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
