package inference

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// maxProviderMessage bounds a provider's message within an error message, in bytes.
const maxProviderMessage = 300

// refusal is a provider's error response: the response to a request, or an event in the stream of a response. It is the
// cause of the *turn.Error and contains no secret.
type refusal struct {
	Status  int    // the HTTP status; 0 if an error in the stream gives none
	Message string // the provider's message
	Kind    string // type, codes and status of the provider's error, in lower case
	Param   string // the parameter that the provider refuses; often empty
	// ShouldRetry is the provider's own advice about a retry, which takes precedence over the status; nil: none.
	ShouldRetry *bool
}

func (r *refusal) Error() string {
	return fmt.Sprintf("status %d, %s: %s", r.Status, printable.Line(r.Kind, 200), r.Message)
}

// StreamError is an error that a provider sent in the stream, after a successful status. Body has one of the shapes in
// which providers also send the body of an error response.
type StreamError struct{ Body []byte }

func (*StreamError) Error() string { return "an error came in the stream" }

// parseRefusal parses the body of a provider's error. It understands the shapes {"error":{"message"}} (OpenAI),
// {"error":"…"} (Ollama), {"message"} (vLLM, Mistral), {"detail"} (FastAPI), [{"error":{…}}] (Gemini), and plain text.
// It takes no message from HTML. status is the HTTP status; 0 for an error in the stream.
func parseRefusal(status int, body []byte) *refusal {
	r := &refusal{Status: status}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		if !strings.HasPrefix(strings.TrimSpace(string(body)), "<") { // plain text, not HTML
			r.Message = string(body)
		}
		return r
	}
	if inner, ok := fields["error"]; ok {
		var object map[string]json.RawMessage
		if json.Unmarshal(inner, &object) == nil && object != nil {
			fields = object
		}
	}
	for _, key := range []string{"message", "error", "detail"} {
		if r.Message == "" {
			r.Message = textOf(fields[key])
		}
	}
	r.Kind = strings.ToLower(textOf(fields["type"]) + " " + textOf(fields["code"]) + " " + textOf(fields["status"]))
	var details struct {
		Code string `json:"error_code"` // Anthropic
	}
	if json.Unmarshal(fields["details"], &details) == nil && details.Code != "" {
		r.Kind += " " + strings.ToLower(details.Code)
	}
	r.Param = textOf(fields["param"])
	if status == 0 {
		r.Status = embeddedStatus(fields)
	}
	return r
}

// embeddedStatus returns the HTTP status that the field code of an error in a stream contains, or 0 if it contains
// none.
func embeddedStatus(fields map[string]json.RawMessage) int {
	n, err := strconv.Atoi(textOf(fields["code"]))
	if err != nil || n < 400 || n > 599 {
		return 0
	}
	return n
}

// textOf returns the value of a JSON string, or the text of any other value.
func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// code returns the code of the *turn.Error. It follows from the status, but the provider's advice about a retry takes
// precedence: the code is then a retryable or a permanent one. The advice does not count if the quota is exhausted or
// the prompt is too long, which no retry changes.
func (r *refusal) code() turn.Code {
	code := r.codeOfStatus()
	adviceChangesNothing := r.ShouldRetry == nil || *r.ShouldRetry == code.Retryable()
	switch {
	case adviceChangesNothing, r.quotaExhausted(), code == turn.CodeContextOverflow:
		return code
	case *r.ShouldRetry:
		return turn.CodeLLMTransport
	}
	return turn.CodeLLMRejected
}

// quotaExhausted reports whether the account has no money or quota left. A retry does not help then.
func (r *refusal) quotaExhausted() bool {
	return r.Status == http.StatusPaymentRequired || containsAny(r.Kind, "insufficient_quota", "billing", "spend_limit")
}

// codeOfStatus returns the code that follows from the status, the kind and the message, without ShouldRetry.
func (r *refusal) codeOfStatus() turn.Code {
	has := func(s string) bool { return strings.Contains(r.Kind, s) }
	switch {
	case r.quotaExhausted():
		return turn.CodeLLMRejected
	case r.tooLong():
		return turn.CodeContextOverflow
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden:
		return turn.CodeLLMUnauthorized
	case r.Status == http.StatusTooManyRequests, r.Status == 0 && has("rate_limit"):
		return turn.CodeLLMRateLimited
	case r.Status == http.StatusRequestTimeout, r.Status == http.StatusConflict, r.Status == http.StatusTooEarly,
		r.Status >= 500:
		return turn.CodeLLMTransport
	case r.Status == 0 && !has("invalid_request"): // an error in the middle of the stream is usually temporary
		return turn.CodeLLMTransport
	}
	return turn.CodeLLMRejected
}

// ofModel reports whether another model may take the same request: if the provider does not have this model, the
// account has no quota left, or the provider advises against retrying a temporary failure.
func (r *refusal) ofModel() bool {
	retryDiscouraged := r.code() == turn.CodeLLMRejected && r.codeOfStatus().Retryable()
	return r.Status == http.StatusNotFound || r.quotaExhausted() || strings.Contains(r.Kind, "model_not_found") ||
		retryDiscouraged
}

// noTools reports whether the provider refuses the request because the model takes no tools.
func (r *refusal) noTools() bool {
	return r.Status >= 400 && r.Status < 500 && toolsRefused.MatchString(strings.ToLower(r.Message))
}

// toolsRefused matches the messages, in lower case, with which servers refuse requests with tools: those of Ollama,
// vLLM, OpenRouter, llama.cpp and others.
var toolsRefused = regexp.MustCompile(`not support (the )?(tools|tool|function)\b|tools? (use|calling|choice)? ?(is|are) not supported|` +
	`function calling is not (supported|enabled)|no endpoints found that support tool|tools param requires|` +
	`requires --enable-auto-tool-choice|unsupported (parameter|value): .?tools`)

// tooLong reports whether the prompt exceeds the model's context window. A limit of tokens per minute does not count,
// and neither does a failure of the server, whatever its message says.
func (r *refusal) tooLong() bool {
	switch {
	case r.Status == http.StatusTooManyRequests, r.Status >= 500:
		return false
	case r.Status == http.StatusRequestEntityTooLarge:
		return true
	}
	text := strings.ToLower(r.Kind + " " + r.Message)
	return overflow.MatchString(text) && !throttling.MatchString(text)
}

// overflow matches the messages, in lower case, with which providers refuse a prompt that exceeds the context window.
// throttling matches messages about rate limits that have similar words. Most patterns are those of pi-ai 1.5.2
// (dist/utils/overflow.js, MIT), which names the provider of each.
var (
	overflow = regexp.MustCompile(strings.Join([]string{
		`context[_ ]length`, `context window`, `prompt (is )?too long`, `prompt exceeds max length`, `request_too_large`,
		`input is too long`, `input token count.*exceeds`, `maximum prompt length is \d`, `reduce the length of the messages`,
		`maximum allowed input length`, `exceeds the limit of \d`, `available context size`, `exceeded model token limit`,
		`configured context size`, `model_context_window_exceeded`, `range of input length should be`, `too many tokens`,
		`token limit exceeded`, `too large for model with \d+ maximum context`,
	}, "|"))
	throttling = regexp.MustCompile(`rate[ _]limit|too many requests|please wait|throttl`)
)

// describe returns the message for the user: what failed, the provider's message, and what to do. name is the
// provider's name; short redacts and shortens a text from the header.
func (r *refusal) describe(name string, header http.Header, short func(string) string) string {
	out := name + " refused the request"
	if r.code().Retryable() {
		out = name + " could not answer"
	}
	if r.Status != 0 {
		out += fmt.Sprintf(" (%d)", r.Status)
	}
	if message := strings.TrimRight(r.Message, ". "); message != "" {
		out += ": " + message
	}
	if hint := r.hint(header, short); hint != "" {
		out += ". " + hint
	}
	return out
}

// hint returns what the user can do about the refusal; empty if that is unknown. short is as for describe.
func (r *refusal) hint(header http.Header, short func(string) string) string {
	switch {
	case r.quotaExhausted():
		return "The account has no quota left: check its plan and billing"
	case r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden:
		return "Check the API key and its permissions"
	case r.Status == http.StatusNotFound, r.Status == http.StatusMethodNotAllowed:
		return "Check the model's name and base_url"
	case r.Status >= 300 && r.Status < 400:
		return "Redirects are not followed; set base_url to its target" + redirectTarget(header, short)
	case r.tooLong():
		return "The conversation is longer than the model's context window: lower max_history_messages, " +
			"or choose a model with a larger one"
	case r.code() == turn.CodeLLMRateLimited:
		return "Retry later"
	}
	return ""
}

// redirectTarget returns the target of a redirect in parentheses, without the query, which may contain secrets; empty
// if there is none.
func redirectTarget(header http.Header, short func(string) string) string {
	u, err := url.Parse(header.Get("Location"))
	if err != nil || u.Host == "" {
		return ""
	}
	return " (" + turn.Truncate(short(u.Scheme+"://"+u.Host+u.Path), 100) + ")"
}
