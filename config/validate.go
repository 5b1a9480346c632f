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

	"github.com/everturn/everturn/workflows/turn"
)

// Validate reports invalid and contradictory values, 50 at most, as one *Error, each problem with its key and how to
// correct it. It does not check for the provider's key: see CheckCredentials.
func (c Config) Validate() error {
	v := &validator{}
	v.check(field{value: reflect.ValueOf(c)})
	v.tenant(c.Tenant)
	v.runtime(c.Runtime)
	v.agents(c)
	v.prompt(c.Prompt)
	v.localFiles(c.LocalFiles)
	v.llm(c.LLM)
	v.providers(c)
	v.models(c.Models)
	v.policy(c.Policy, c.Runtime)
	v.clientTools(c)
	v.publish(c.Workspace.Publish)
	v.servers(c.MCP.Servers)
	v.journal(c.Journal)
	v.temporal(c.Temporal)
	v.worker(c)
	v.encryption(c.Encryption)
	v.codecServer(c.CodecServer)
	v.http(c.HTTP)
	return asError(v.problems)
}

// validator collects problems. A method with the name of a section of agent.toml checks that section.
type validator struct{ problems []Problem }

// add records a problem with a key. The format is for the text after the key: "is empty; …".
func (v *validator) add(key, format string, args ...any) {
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, Problem{Key: key, Message: key + " " + fmt.Sprintf(format, args...)})
	}
}

// check checks a field and its members against their tags: enum, min, max, zero, maxbytes and required.
func (v *validator) check(f field) {
	if f.value.Kind() == reflect.Pointer && !f.value.IsNil() {
		f.value = f.value.Elem()
	}
	switch f.value.Kind() {
	case reflect.String:
		v.text(f)
	case reflect.Int, reflect.Int64, reflect.Float64:
		v.bounds(f)
	}
	for _, m := range f.members() {
		if len(v.problems) < maxProblems {
			v.check(m)
		}
	}
}

// text checks a string against the tags enum, required and maxbytes.
func (v *validator) text(f field) {
	value := f.value.String()
	v.enum(f.key, f.tag, value)
	if _, required := f.tag.Lookup("required"); required && strings.TrimSpace(value) == "" {
		v.add(f.key, "is empty; give it a value or leave the key out")
	}
	if most, err := strconv.Atoi(f.tag.Get("maxbytes")); err == nil && len(value) > most {
		v.add(f.key, "is %d bytes; it must be at most %d", len(value), most)
	}
}

func (v *validator) enum(key string, tag reflect.StructTag, value string) {
	list, ok := tag.Lookup("enum")
	allowed := strings.Split(list, ",")
	if ok && !slices.Contains(allowed, value) {
		v.add(key, "%s", suggest(fmt.Sprintf("is %s; it must be %s", quote(value), oneOf(allowed)), value, allowed))
	}
}

// oneOf lists the values of an enum for an error message. An empty value among them means that the key may be left out.
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

// bounds checks a number or a duration against the tags min, max and zero. Without max, turn.MaxCount and
// turn.MaxDuration apply.
func (v *validator) bounds(f field) {
	if f.value.Type() == durationType {
		v.duration(f, time.Duration(f.value.Int()))
		return
	}
	// The comparisons are negated, so that they reject NaN.
	value := f.value.Convert(reflect.TypeFor[float64]()).Float()
	if least, err := strconv.ParseFloat(f.tag.Get("min"), 64); err == nil && !(value >= least) {
		v.add(f.key, "is %v; it must be at least %s", f.value.Interface(), f.tag.Get("min"))
	}
	limit := cmp.Or(f.tag.Get("max"), strconv.Itoa(turn.MaxCount))
	if most, err := strconv.ParseFloat(limit, 64); err == nil && !(value <= most) {
		v.add(f.key, "is %v; it must be at most %s", f.value.Interface(), limit)
	}
}

// duration checks d, the value of f, against the tags min, max and zero. A field with the tag zero accepts 0 even if
// min is larger; the tag's text says what 0 means.
func (v *validator) duration(f field, d time.Duration) {
	zero, orZero := f.tag.Lookup("zero")
	if least, err := time.ParseDuration(f.tag.Get("min")); err == nil && d < least && !(orZero && d == 0) {
		if orZero {
			zero = ", or 0s " + zero
		}
		v.add(f.key, "is %s; it must be at least %s%s", d, f.tag.Get("min"), zero)
	}
	most, err := time.ParseDuration(f.tag.Get("max"))
	if err != nil {
		most = turn.MaxDuration
	}
	if d > most {
		v.add(f.key, "is %s; it must be at most %s", d, shortDuration(most))
	}
}

// tenantName matches valid tenant names, which become part of workflow IDs and of processes' environments.
var tenantName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// tenant checks the tenant's name. "default" is reserved, because an empty name means the default tenant.
func (v *validator) tenant(name string) {
	switch {
	case strings.EqualFold(name, "default"):
		v.add("tenant", "is %s, which is reserved; leave tenant out for the default tenant, or choose another name",
			quote(name))
	case name != "" && !tenantName.MatchString(name):
		v.add("tenant", "is %s; it must be at most 64 letters, digits, dots, underscores and dashes, "+
			"beginning with a letter or digit", quote(name))
	}
}

// runtime checks [runtime], beyond the tags of its fields.
func (v *validator) runtime(r Runtime) {
	for i, p := range r.Redact {
		key := fmt.Sprintf("runtime.redact[%d]", i)
		if re, err := regexp.Compile(p); err != nil {
			v.add(key, "is not a valid regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		} else if re.MatchString("") {
			v.add(key, "matches the empty string, and so everything; require at least one character")
		}
	}
}

// publish checks [workspace.publish].
func (v *validator) publish(p Publish) {
	if !strings.Contains(p.Branch, "{session}") {
		v.add("workspace.publish.branch", "lacks {session}, with which each session has a branch of its own")
	}
	if len(p.PullRequest) > 0 && strings.TrimSpace(p.PullRequest[0]) == "" {
		v.add("workspace.publish.pull_request", "names no program")
	}
}

func (v *validator) prompt(p Prompt) {
	if p.TargetRatio >= p.TriggerRatio {
		v.add("prompt.compaction_target_ratio", "is %g; it must be below compaction_trigger_ratio, which is %g",
			p.TargetRatio, p.TriggerRatio)
	}
}

// localFiles checks the patterns of [local_files].
func (v *validator) localFiles(l LocalFiles) {
	for i, p := range l.Deny {
		name := strings.Trim(strings.TrimPrefix(p, "!"), "/")
		if _, err := path.Match(name, ""); err != nil || name == "" {
			v.add(fmt.Sprintf("local_files.deny[%d]", i),
				`is %s, which is not a valid file pattern; use names with * and ?, as in "*.pem"`, quote(p))
		}
	}
}

// llm checks [llm], except its provider and model: see providers.
func (v *validator) llm(l LLM) {
	v.address("llm.base_url", l.BaseURL)
	if _, _, err := l.TapeFolder(); err != nil {
		v.add("llm.tape", "%v", err)
	}
	v.address("llm.models_url", l.ModelsURL)
	v.stops("llm.stop", l.ModelSettings)
}

// stops checks what the tags of turn.ModelSettings do not say: its stop texts.
func (v *validator) stops(key string, s turn.ModelSettings) {
	if err := (turn.ModelSettings{Stop: s.Stop}).Check(); err != nil {
		v.add(key, "is not valid: %v", err)
	}
}

// journal checks [journal]. It rejects paths that SQLite would not take as the name of a file.
func (v *validator) journal(j Journal) {
	if strings.HasPrefix(j.Path, "file:") || strings.ContainsAny(j.Path, "?\x00") || j.Path == ":memory:" {
		v.add("journal.path", "is %s; it must be the path of a file", quote(j.Path))
	}
	scheme, _, _ := strings.Cut(j.URL.Reveal(), "://")
	if j.Postgres() && scheme != "postgres" && scheme != "postgresql" {
		v.add("journal.url", "must be the connection string of a Postgres database: postgres://user@host/database")
	}
	// A service file in a folder could send the password to another host after the folder was trusted.
	if u, err := url.Parse(j.URL.Reveal()); err == nil && (u.Query().Has("service") || u.Query().Has("servicefile")) {
		v.add("journal.url", "names a service; write its host and its database into the URL")
	}
}

// temporal checks [temporal].
func (v *validator) temporal(t Temporal) {
	v.address("temporal.ui_url", t.UIURL)
	if t.Address == "" {
		return
	}
	host, port, err := net.SplitHostPort(t.Address)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
		v.add("temporal.address", "is %s; it must be host:port, for instance 127.0.0.1:7233", quote(t.Address))
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
		v.add(key, "is not a URL that begins with http:// or https://")
	case u.User != nil:
		v.add(key, "holds a user name or password; use api_key or headers for those")
	case u.Fragment != "":
		v.add(key, "has a fragment, which is never sent; remove it from # on")
	}
}
