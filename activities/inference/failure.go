package inference

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/internal/retryafter"
	"github.com/everturn/everturn/workflows/turn"
)

// errRefused means that the response's status is not a success. The exchange has its body.
var errRefused = errors.New("the response has an unsuccessful status")

// failure returns an error with a code and a message that says what to do. began means that an event had arrived.
func (e *Endpoint) failure(caller, ctx context.Context, ex *exchange, began bool, err error) error {
	if caller.Err() != nil {
		return e.cancelled(caller)
	}
	var deadline *turn.Error
	var inStream *StreamError
	switch {
	case ex.refusal != nil:
		return e.responseError(ex)
	case errors.As(context.Cause(ctx), &deadline):
		return turn.Errorf(deadline.Code, e.redactError(err), deadline.Message)
	case errors.As(err, &inStream):
		return e.providerError(0, ex.header, inStream.Body)
	case ex.status == 0 && !ex.connected.Load() && isTimeout(err):
		late := e.connectDeadline()
		late.Cause = e.redactError(err)
		return late
	}
	code, message := e.diagnose(ex, began, err)
	return turn.Errorf(code, e.redactError(err), message)
}

// diagnose classifies failures that have neither a status nor a deadline.
func (e *Endpoint) diagnose(ex *exchange, began bool, err error) (turn.Code, string) {
	name := e.opts.Name
	var over *overBound
	switch {
	case errors.As(err, &over):
		return turn.CodeLLMRejected, fmt.Sprintf("%s sent more than %d %s; the response was discarded. Request a shorter one",
			name, over.most, over.what)
	case errors.Is(err, errWebPage):
		return turn.CodeLLMRejected, name + " answered with a web page; check base_url (is /v1 missing?)"
	case errors.Is(err, ErrGarbage):
		return turn.CodeLLMTransport, name + " sent something other than a completion; " +
			"check that base_url is an endpoint of the provider's api"
	case errors.Is(err, errOpenCall):
		return turn.CodeLLMTruncated, name + " ended its response within a tool call; the partial response was discarded"
	case ex.status != 0 && (began || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return turn.CodeLLMTruncated, name + " ended its response before it was complete; the partial response was discarded"
	case errors.Is(err, syscall.ECONNREFUSED):
		return turn.CodeLLMTransport, fmt.Sprintf("%s is not reachable: nothing listens at %s; is it running, "+
			"and is base_url correct?", name, e.host)
	case ex.connected.Load():
		return turn.CodeLLMTransport, name + " closed the connection before it answered"
	}
	return turn.CodeLLMTransport, fmt.Sprintf("%s at %s is not reachable; check the network and base_url", name, e.host)
}

// cancelled keeps the cause of the caller's context in the error's chain.
func (e *Endpoint) cancelled(ctx context.Context) error {
	cause := context.Cause(ctx)
	var typed *turn.Error
	if errors.As(cause, &typed) {
		return fmt.Errorf("calling %s: %w", e.opts.Name, cause)
	}
	return turn.Errorf(turn.CodeLLMTransport, cause, "the request to "+e.opts.Name+" was cancelled")
}

// responseError parses the refusal in a response's status and body.
func (e *Endpoint) responseError(ex *exchange) *turn.Error {
	body := ex.refusal
	if ex.truncated {
		body = []byte(e.opts.Redact.Head(string(body)))
	}
	return e.providerError(ex.status, ex.header, body)
}

// providerError parses a provider's refusal: of an HTTP status, or in the stream if status is 0.
func (e *Endpoint) providerError(status int, header http.Header, body []byte) *turn.Error {
	r := parseRefusal(status, []byte(e.opts.Redact.JSON(string(body))))
	if should, err := strconv.ParseBool(header.Get("X-Should-Retry")); err == nil && status != 0 {
		r.ShouldRetry = &should
	}
	r.Message, r.Kind = e.redactShort(r.Message), e.redactShort(r.Kind)
	out := turn.Errorf(r.code(), r, r.describe(e.opts.Name, header, e.redactShort))
	out.OfModel, out.Status = r.ofModel(), r.Status
	if out.Code.Retryable() {
		out.RetryAfter = retryafter.Parse(header, time.Now(), maxReset)
	}
	out.Message = e.redact(out.Message)
	return out
}

// maxReset bounds how far away a provider's reset is taken to be: quotas last a month at most.
const maxReset = 31 * 24 * time.Hour

// learnQuirk remembers which parameter the endpoint refused, and reports whether to send the request again without it.
// The refusal must have come before the response began.
func (e *Endpoint) learnQuirk(key modelKey, q Quirks, err error) bool {
	var r *refusal
	if !errors.As(err, &r) || !slices.Contains([]int{http.StatusBadRequest, http.StatusUnprocessableEntity}, r.Status) {
		return false
	}
	before := q
	output := r.Param + " " + r.Message
	q.NoStreamOptions = q.NoStreamOptions || strings.Contains(output, "stream_options")
	q.CompletionTokens = q.CompletionTokens || strings.Contains(output, "max_completion_tokens")
	q.NoMedia = q.NoMedia || refusesMedia(err) && refusesAllMedia(output)
	q.NoSchema = q.NoSchema || containsAny(output, "response_format", "json_schema", "text.format", "output_config",
		"output_format")
	q.NoCacheKey = q.NoCacheKey || containsAny(output, "prompt_cache_key", "cache_control")
	q.WantsReasoning = q.WantsReasoning || strings.Contains(output, "reasoning_content")
	if m := tooManyTokens.FindStringSubmatch(output); m != nil && q.MaxTokens == 0 {
		q.MaxTokens, _ = strconv.Atoi(m[1]) // 0 if it is too large
	}
	if q == before {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.quirks) < 1000 {
		e.quirks[key] = q
	}
	return e.quirks[key] == q
}

// tooManyTokens matches the refusal of a max_tokens above what the model can send: "max_tokens: 32000 > 8192, which is
// the maximum allowed number of output tokens" (Anthropic).
var tooManyTokens = regexp.MustCompile(`max_tokens: \d+ > (\d{3,9})\b`)

// refusesMedia reports whether the endpoint may have refused a request because of its media. The refusal must
// have come before the response began.
func refusesMedia(err error) bool {
	var r *refusal
	if !errors.As(err, &r) || r.Status != http.StatusBadRequest && r.Status != http.StatusUnprocessableEntity &&
		r.Status != http.StatusUnsupportedMediaType {
		return false
	}
	output := strings.ToLower(r.Param + " " + r.Message)
	return containsAny(output, "image", "audio", "vision", "multimodal", "content", "file", "document", "pdf")
}

func containsAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(s, word) })
}

// refusesAllMedia reports whether the endpoint refuses all media, not only the ones of this request.
func refusesAllMedia(output string) bool {
	output = strings.ToLower(output)
	return containsAny(output, "not support", "unsupported content", "must be a string", "valid string", "unknown variant")
}

func (e *Endpoint) quirksOf(key modelKey) Quirks {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.quirks[key]
}

// redactError keeps the chain of an error unless its text contains the key.
func (e *Endpoint) redactError(err error) error {
	if err == nil || e.redact(err.Error()) == err.Error() {
		return err
	}
	return errors.New(e.redact(err.Error()))
}

func (e *Endpoint) redact(s string) string {
	return e.opts.Redact.String(strings.ReplaceAll(s, e.base, printable.Address(e.base)))
}

// redactShort prepares the provider's text for a message: redacted, without control characters, at most
// maxProviderMessage bytes.
func (e *Endpoint) redactShort(s string) string {
	return printable.Line(e.redact(s), maxProviderMessage)
}

// isTimeout reports whether an error is a network timeout. The dialer's own deadlines may fire a moment before the
// package's.
func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
