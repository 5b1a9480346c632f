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

// refusal is a provider's error response. It is the cause of the *turn.Error and holds no secret.
type refusal struct {
	Status  int // 0: it came in the stream
	Message string
	Kind    string // type, codes and status of the provider's error, in lower case
	Param   string
	// ShouldRetry is the provider's own word about a retry, which counts more than the status: nil if it has none.
	ShouldRetry *bool
}

func (r *refusal) Error() string {
	return fmt.Sprintf("status %d, %s: %s", r.Status, printable.Line(r.Kind, 200), r.Message)
}

// StreamError is an error that a provider sent in the stream, after a successful status. Body is in one of the shapes
// of a refusal's body.
type StreamError struct{ Body []byte }

func (*StreamError) Error() string { return "an error came in the stream" }

// parseRefusal finds the message in the shapes that providers use: {"error":{"message"}} (OpenAI), {"error":"…"}
// (Ollama), {"message"} (vLLM, Mistral), {"detail"} (FastAPI), [{"error":{…}}] (Gemini), or plain text.
func parseRefusal(status int, body []byte) *refusal {
	r := &refusal{Status: status}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		if !strings.HasPrefix(strings.TrimSpace(string(body)), "<") {
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

// embeddedStatus returns the HTTP status in the code of an error in a stream, or 0.
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

// code separates the refusals that a retry may resolve from the others.
func (r *refusal) code() turn.Code {
	code := r.codeOfStatus()
	switch {
	case r.ShouldRetry == nil, *r.ShouldRetry == code.Retryable(), r.spent(), code == turn.CodeContextOverflow:
		return code
	case *r.ShouldRetry:
		return turn.CodeLLMTransport
	}
	return turn.CodeLLMRejected
}

// spent reports whether the account has no money or quota left, which no retry changes.
func (r *refusal) spent() bool {
	return r.Status == http.StatusPaymentRequired || containsAny(r.Kind, "insufficient_quota", "billing", "spend_limit")
}

func (r *refusal) codeOfStatus() turn.Code {
	has := func(s string) bool { return strings.Contains(r.Kind, s) }
	switch {
	case r.spent():
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
	case r.Status == 0 && !has("invalid_request"):
		return turn.CodeLLMTransport
	}
	return turn.CodeLLMRejected
}

// ofModel reports whether the refusal concerns the model or the account, or a failure that the provider does not want
// to be retried, so that another model may take the request.
func (r *refusal) ofModel() bool {
	return r.Status == http.StatusNotFound || r.spent() || strings.Contains(r.Kind, "model_not_found") ||
		r.code() == turn.CodeLLMRejected && r.codeOfStatus().Retryable()
}

// tooLong reports whether the prompt exceeds the model's context window. A limit of tokens per time is something else.
func (r *refusal) tooLong() bool {
	switch {
	case r.Status == http.StatusTooManyRequests, r.Status >= 500:
		return false
	case r.Status == http.StatusRequestEntityTooLarge:
		return true
	}
	output := strings.ToLower(r.Kind + " " + r.Message)
	return overflow.MatchString(output) && !throttling.MatchString(output)
}

// overflow matches what providers say of a prompt that exceeds the context window, in lower case, and throttling what
// they say of limits per time in similar words. Most are those of pi-ai 1.5.2 (dist/utils/overflow.js, MIT), which
// names the provider of each.
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

// describe returns the message for the user. short redacts what it quotes of the header.
func (r *refusal) describe(name string, header http.Header, short func(string) string) string {
	out := name + " refused the request"
	if r.code().Retryable() {
		out = name + " could not answer"
	}
	if r.Status != 0 {
		out += fmt.Sprintf(" (%d)", r.Status)
	}
	if output := strings.TrimRight(r.Message, ". "); output != "" {
		out += ": " + output
	}
	if hint := r.hint(header, short); hint != "" {
		out += ". " + hint
	}
	return out
}

func (r *refusal) hint(header http.Header, short func(string) string) string {
	switch {
	case r.spent():
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
	case strings.Contains(r.Param+r.Message, "temperature"):
		return "Remove temperature from the configuration"
	case r.code() == turn.CodeLLMRateLimited:
		return "Retry later"
	}
	return ""
}

// redirectTarget returns the redirectTarget of a redirect, without the parts that may be secret.
func redirectTarget(header http.Header, short func(string) string) string {
	u, err := url.Parse(header.Get("Location"))
	if err != nil || u.Host == "" {
		return ""
	}
	return " (" + turn.Truncate(short(u.Scheme+"://"+u.Host+u.Path), 100) + ")"
}
