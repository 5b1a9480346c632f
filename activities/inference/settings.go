package inference

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// setting is one of turn.ModelSettings, as providers name it when they refuse it.
type setting struct {
	name  string
	words []string                        // one of them is in the refusal, in lower case
	value func(turn.ModelSettings) string // empty if it is not set
	clear func(*turn.ModelSettings)
}

// settings are those without which a request can be sent again. The more specific ones come first: a refusal of
// reasoning.summary names reasoning, too.
var settings = []setting{
	{"reasoning_summary", []string{"summary", "summaries", "thinking.display"},
		func(s turn.ModelSettings) string { return s.ReasoningSummary },
		func(s *turn.ModelSettings) { s.ReasoningSummary = turn.SummaryOff }},
	{"effort", []string{"effort", "thinking", "reasoning", "chat_template_kwargs"},
		func(s turn.ModelSettings) string { return string(s.Effort) },
		func(s *turn.ModelSettings) { s.Effort, s.ReasoningSummary = "", "" }},
	{"verbosity", []string{"verbosity"},
		func(s turn.ModelSettings) string { return s.Verbosity }, func(s *turn.ModelSettings) { s.Verbosity = "" }},
	{"service_tier", []string{"service_tier", "service tier"},
		func(s turn.ModelSettings) string { return s.ServiceTier }, func(s *turn.ModelSettings) { s.ServiceTier = "" }},
	{"temperature", []string{"temperature"},
		func(s turn.ModelSettings) string { return number(s.Temperature) },
		func(s *turn.ModelSettings) { s.Temperature = nil }},
	{"top_p", []string{"top_p"},
		func(s turn.ModelSettings) string { return number(s.TopP) }, func(s *turn.ModelSettings) { s.TopP = nil }},
	{"stop", []string{"'stop'", `"stop"`, "`stop`", "stop_sequences"},
		func(s turn.ModelSettings) string { return strings.Join(s.Stop, "\n") },
		func(s *turn.ModelSettings) { s.Stop = nil }},
	{"seed", []string{"seed"},
		func(s turn.ModelSettings) string { return number(s.Seed) }, func(s *turn.ModelSettings) { s.Seed = nil }},
	{"parallel_tool_calls", []string{"parallel_tool"},
		func(s turn.ModelSettings) string { return number(s.ParallelToolCalls) },
		func(s *turn.ModelSettings) { s.ParallelToolCalls = nil }},
	{"tool_choice", []string{"tool_choice"},
		func(s turn.ModelSettings) string { return s.ToolChoice }, func(s *turn.ModelSettings) { s.ToolChoice = "" }},
}

// number formats a value that may not be set.
func number[T any](n *T) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// refusedSetting is a value of a setting that a model's provider has refused.
type refusedSetting struct {
	model       modelKey
	name, value string
}

// accepted returns s without the settings whose values the provider has refused for this model, and their names.
func (e *Endpoint) accepted(key modelKey, s turn.ModelSettings) (_ turn.ModelSettings, omitted []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range settings {
		if v := c.value(s); v != "" && e.refused[refusedSetting{key, c.name, v}] {
			c.clear(&s)
			omitted = append(omitted, c.name)
		}
	}
	return s, omitted
}

// learnSetting remembers which of the request's settings a refusal names, so that requests leave it out from now on,
// and reports whether the request should be sent again. It remembers the value, too: another one may be accepted, and a
// user of the worker must not be able to turn a setting off for the others.
func (e *Endpoint) learnSetting(key modelKey, s turn.ModelSettings, err error) bool {
	var r *refusal
	if !errors.As(err, &r) || !refusesFields(r) {
		return false
	}
	text := strings.ToLower("'" + r.Param + "' " + r.Message)
	i := slices.IndexFunc(settings, func(c setting) bool {
		v := c.value(s)
		off := c.name == "reasoning_summary" && v == turn.SummaryOff // it is not sent
		return v != "" && !off && containsAny(text, c.words...)
	})
	if i < 0 {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.refused) >= maxRefused {
		return false
	}
	e.refused[refusedSetting{key, settings[i].name, settings[i].value(s)}] = true
	return true
}

// maxRefused bounds the memory for refused settings, because users choose models and values.
const maxRefused = 1000

// refusesFields reports whether the refusal may be due to a field of the request's body.
func refusesFields(r *refusal) bool {
	return slices.Contains([]int{http.StatusBadRequest, http.StatusUnprocessableEntity}, r.Status)
}

// itemWords match refusals, in lower case, of reasoning that the request sends back: it was encrypted for another
// account or region, the provider has forgotten it, or it does not take the field.
var itemWords = regexp.MustCompile(`encrypted|signature|thinking. block|thinking block|redacted_thinking|` +
	`reasoning_(content|details)|\breasoning\b|item .*not found|without its required|item of type`)

// refusesItems reports whether err is a refusal that may be due to items of the provider that the prompt sends back.
func refusesItems(p turn.Prompt, err error) bool {
	var r *refusal
	if !errors.As(err, &r) || !refusesFields(r) && r.Status != http.StatusNotFound {
		return false
	}
	sent := slices.ContainsFunc(p.Messages, func(m turn.Message) bool { return m.Items != nil })
	return sent && itemWords.MatchString(strings.ToLower(r.Kind+" '"+r.Param+"' "+r.Message))
}

// withExtra adds the fields of extra, a JSON object or nothing, to a request's body, in place of those of the same
// name. The body begins with the same bytes, unless a field is replaced.
func withExtra(body []byte, extra json.RawMessage) ([]byte, error) {
	var added map[string]json.RawMessage
	if len(extra) == 0 {
		return body, nil
	}
	if err := json.Unmarshal(extra, &added); err != nil || len(added) == 0 {
		return body, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	for name := range added {
		if _, ok := fields[name]; ok {
			for name, value := range added {
				fields[name] = value
			}
			return json.Marshal(fields)
		}
	}
	tail, err := json.Marshal(added)
	return append(append(body[:len(body)-1:len(body)-1], ','), tail[1:]...), err
}
