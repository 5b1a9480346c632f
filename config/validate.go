package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/internal/loopback"
	"github.com/everturn/everturn/internal/nearest"
	"github.com/everturn/everturn/workflows/turn"
)

// Validate reports all invalid and contradictory values as one *Error, each problem with its key and how to correct it.
// It does not check for the provider's key: see LLM.CheckCredentials.
func (c Config) Validate() error {
	v := &validator{}
	v.structure("", reflect.ValueOf(c))
	v.tenant(c.Tenant)
	v.runtime(c.Runtime)
	v.localFiles(c.LocalFiles)
	v.llm(c.LLM)
	v.policy(c.Policy, c.Runtime)
	v.rules(c.Policy)
	v.people(c.Approvals)
	v.servers(c.MCP.Servers)
	v.storage(c.Journal)
	v.temporal(c.Temporal)
	return asError(v.problems)
}

// CheckCredentials returns an *Error that is ErrCredentials if the provider needs a key and there is none. With a
// base_url no key is required.
func (l LLM) CheckCredentials() error {
	e := l.Effective()
	if e.Provider != ProviderOpenAI || e.APIKey != "" || e.BaseURL != "" {
		return nil
	}
	return &Error{Problems: []Problem{{
		Key: "llm.api_key", Credentials: true,
		Message: `llm.api_key is unset, and provider "openai" needs one: set OPENAI_API_KEY, or llm.base_url for a server that ` +
			`wants no key, or provider = "demo"`,
	}}}
}

// validator collects problems.
type validator struct{ problems []Problem }

// add records that a key's value is wrong; the message continues after the key.
func (v *validator) add(key, format string, args ...any) {
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, Problem{Key: key, Message: key + " " + fmt.Sprintf(format, args...)})
	}
}

// structure checks the enum, min and max tags of a struct and of its members.
func (v *validator) structure(key string, s reflect.Value) {
	for i := range s.NumField() {
		sf := s.Type().Field(i)
		v.value(join(key, tomlName(sf)), sf.Tag, s.Field(i))
	}
}

func (v *validator) value(key string, tag reflect.StructTag, f reflect.Value) {
	switch f.Kind() {
	case reflect.Struct:
		v.structure(key, f)
	case reflect.Slice:
		for i := range f.Len() {
			v.value(fmt.Sprintf("%s[%d]", key, i), tag, f.Index(i))
		}
	case reflect.Map:
		for _, name := range sortedKeys(f) {
			v.value(join(key, name), tag, f.MapIndex(reflect.ValueOf(name)))
		}
	case reflect.Pointer:
		if !f.IsNil() {
			v.value(key, tag, f.Elem())
		}
	case reflect.String:
		v.enum(key, tag, f.String())
	case reflect.Int, reflect.Int64, reflect.Float64:
		v.minimum(key, tag.Get("min"), f)
		v.maximum(key, tag.Get("max"), f)
	}
}

func sortedKeys(m reflect.Value) []string {
	names := make([]string, 0, m.Len())
	for _, k := range m.MapKeys() {
		names = append(names, k.String())
	}
	slices.Sort(names)
	return names
}

func (v *validator) enum(key string, tag reflect.StructTag, value string) {
	list, ok := tag.Lookup("enum")
	if !ok {
		return
	}
	allowed := strings.Split(list, ",")
	if slices.Contains(allowed, value) {
		return
	}
	named := slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
	message := fmt.Sprintf("is %s; it must be %s", quote(value), oneOf(allowed))
	if best := nearest.Name(value, named); best != "" {
		message += fmt.Sprintf("; did you mean %q?", best)
	}
	v.add(key, "%s", message)
}

// oneOf lists the values of an enum. The empty value means that the key is left out.
func oneOf(allowed []string) string {
	named := slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
	switch {
	case len(named) != 1:
		return "one of " + strings.Join(named, ", ")
	case len(allowed) > 1:
		return fmt.Sprintf("%q, or left out", named[0])
	}
	return fmt.Sprintf("%q", named[0])
}

func (v *validator) minimum(key, least string, f reflect.Value) {
	switch {
	case least == "":
	case f.Type() == durationType:
		if d, err := time.ParseDuration(least); err == nil && time.Duration(f.Int()) < d {
			v.add(key, "is %s; it must be at least %s", time.Duration(f.Int()), least)
		}
	default:
		bound, err := strconv.ParseFloat(least, 64)
		if value := number(f); err == nil && (value < bound || value != value) {
			v.add(key, "is %v; it must be at least %s", f.Interface(), least)
		}
	}
}

func (v *validator) maximum(key, most string, f reflect.Value) {
	if f.Type() == durationType {
		if d := time.Duration(f.Int()); d > turn.MaxDuration {
			v.add(key, "is %s; it must be at most %s", d, shortDuration(turn.MaxDuration))
		}
		return
	}
	bound, err := strconv.ParseFloat(cmp.Or(most, strconv.Itoa(turn.MaxCount)), 64)
	if value := number(f); err == nil && !(value <= bound) {
		v.add(key, "is %v; it must be at most %.0f", f.Interface(), bound)
	}
}

func number(f reflect.Value) float64 {
	if f.CanFloat() {
		return f.Float()
	}
	return float64(f.Int())
}

// tenantName matches valid tenant names, which become part of workflow IDs and of processes' environments.
var tenantName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

func (v *validator) tenant(name string) {
	switch {
	case strings.EqualFold(name, "default"):
		v.add("tenant", "is %s, which would be another one than the default tenant; leave tenant out to mean that one, or choose another name", quote(name))
	case name != "" && !tenantName.MatchString(name):
		v.add("tenant", "is %s; use at most 64 letters, digits, dots, underscores and dashes, beginning with a letter or digit", quote(name))
	}
}

func (v *validator) runtime(r Runtime) {
	v.required("runtime.agent", r.Agent)
	v.indexed("runtime.agent", r.Agent)
	v.required("runtime.workspace", r.Workspace)
	if r.KeepHistoryMessages >= r.MaxHistoryMessages {
		v.add("runtime.keep_history_messages", "is %d; it must be below max_history_messages, which is %d",
			r.KeepHistoryMessages, r.MaxHistoryMessages)
	}
	if r.MaxCostUSD > 0 {
		v.add("runtime.max_cost_usd", "is %g, but no model's price is known, so cost is not counted; use max_tokens", r.MaxCostUSD)
	}
	for i, p := range r.Redact {
		key := fmt.Sprintf("runtime.redact[%d]", i)
		if re, err := regexp.Compile(p); err != nil {
			v.add(key, "is no regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		} else if re.MatchString("") {
			v.add(key, "matches the empty text, and so everything; name at least one character")
		}
	}
}

func (v *validator) localFiles(l LocalFiles) {
	for i, p := range l.Deny {
		name := strings.Trim(strings.TrimPrefix(p, "!"), "/")
		if _, err := path.Match(name, ""); err != nil || name == "" {
			v.add(fmt.Sprintf("local_files.deny[%d]", i), "is %s, which is not a valid file pattern; use names with * and ?, as in %s", quote(p), quote("*.pem"))
		}
	}
}

func (v *validator) llm(l LLM) {
	v.address("llm.base_url", l.BaseURL)
	v.indexed("llm.model", l.Model)
	if l.Temperature != nil && *l.Temperature > 2 {
		v.add("llm.temperature", "is %v; it must be between 0 and 2", *l.Temperature)
	}
	for _, inner := range []struct {
		key   string
		value time.Duration
	}{
		{"llm.connect_timeout", l.ConnectTimeout}, {"llm.first_token_timeout", l.FirstTokenTimeout}, {"llm.idle_timeout", l.IdleTimeout},
	} {
		if inner.value > l.TotalTimeout {
			v.add(inner.key, "is %s, longer than total_timeout, which is %s; shorten it or raise total_timeout", inner.value, l.TotalTimeout)
		}
	}
}

func (v *validator) storage(j Journal) {
	v.required("journal.path", j.Path)
	if strings.HasPrefix(j.Path, "file:") || strings.ContainsAny(j.Path, "?\x00") || j.Path == ":memory:" {
		v.add("journal.path", "is %s; it must be a plain path of a file", quote(j.Path))
	}
	if url := j.URL.Reveal(); j.Driver == DriverPostgres && !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		v.add("journal.url", "must be the connection string of a Postgres database: postgres://user@host/database")
	}
	v.zeroOrMore("journal.chunk_retention", j.ChunkRetention, time.Minute, "keeps all")
}

func (v *validator) temporal(t Temporal) {
	v.required("temporal.task_queue", t.TaskQueue)
	v.address("temporal.ui_url", t.UIURL)
	if t.DevUIPort > 65535 {
		v.add("temporal.dev_ui_port", "is %d; a port is between 1 and 65535", t.DevUIPort)
	}
	if t.Address == "" {
		return
	}
	host, port, err := net.SplitHostPort(t.Address)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
		v.add("temporal.address", "is %s; it must be host:port, for instance 127.0.0.1:7233", quote(t.Address))
		return
	}
	if !loopback.Host(host) && !t.TLS && t.APIKey == "" && t.Profile == "" && !t.AllowPlaintext {
		v.add("temporal.address", "is %s, which is not this machine, and would be spoken to in plain text; "+
			"set tls = true, an api_key or a profile, or allow_plaintext = true if that is what you want", quote(t.Address))
	}
}

func (v *validator) required(key, value string) {
	if strings.TrimSpace(value) == "" {
		v.add(key, "is empty; give it a value or leave the key out")
	}
}

// maxIndexed bounds the search attributes of a turn, in bytes. Temporal fails a workflow task whose value is over 2
// KiB.
const maxIndexed = 200

func (v *validator) indexed(key, value string) {
	if len(value) > maxIndexed {
		v.add(key, "is %d bytes; it must be at most %d", len(value), maxIndexed)
	}
}

// address checks a URL that is not empty. It refuses credentials in the URL, which would end up in logs.
func (v *validator) address(key, raw string) {
	if raw == "" {
		return
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		v.add(key, "is no URL that begins with http:// or https://")
	case u.User != nil:
		v.add(key, "holds a user name or password; use api_key or headers for those")
	case u.Fragment != "":
		v.add(key, "has a fragment, which is never sent; remove # and what follows it")
	}
}
