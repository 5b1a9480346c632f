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

// errRefused means that the response has an error status. The exchange's field refusal has its body.
var errRefused = errors.New("the response has an unsuccessful status")

// failure returns the error to report for a request that failed with err: a *turn.Error, possibly wrapped, with a
// message that says what to do. caller is the context of the endpoint's caller, and ctx that of the request. began
// means that an event of the response had arrived.
func (e *Endpoint) failure(caller, ctx context.Context, ex *exchange, began bool, err error) error {
	if caller.Err() != nil { // whatever err says, the caller's cancellation is the reason
		return e.cancelled(caller)
	}
	var deadline *turn.Error
	var inStream *StreamError
	switch {
	case ex.refusal != nil:
		return e.responseError(ex)
	case errors.As(context.Cause(ctx), &deadline):
		return turn.NewError(deadline.Code, e.redactError(err), deadline.Message)
	case errors.As(err, &inStream):
		return e.providerError(0, ex.header, inStream.Body)
	case ex.status == 0 && !ex.connected.Load() && isTimeout(err): // the dialer's own timeout came first
		late := e.connectDeadline()
		late.Cause = e.redactError(err)
		return late
	}
	code, message := e.diagnose(ex, began, err)
	return turn.NewError(code, e.redactError(err), message)
}

// diagnose returns the code and the message for a failure that is neither a refusal nor a deadline. began is as for
// failure.
func (e *Endpoint) diagnose(ex *exchange, began bool, err error) (turn.Code, string) {
	name := e.opts.Name
	var over *overBound
	switch {
	case errors.As(err, &over):
		return turn.CodeLLMRejected, fmt.Sprintf("%s sent more than %d %s; the response was discarded. Request a shorter one",
			name, over.limit, over.unit)
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

// cancelled returns the error for a request whose caller's context ended. It wraps the context's cause, whose code
// stands if it is a *turn.Error.
func (e *Endpoint) cancelled(ctx context.Context) error {
	cause := context.Cause(ctx)
	var typed *turn.Error
	if errors.As(cause, &typed) {
		return fmt.Errorf("calling %s: %w", e.opts.Name, cause)
	}
	return turn.NewError(turn.CodeLLMTransport, cause, "the request to "+e.opts.Name+" was cancelled")
}

// responseError returns the error for a response with an error status.
func (e *Endpoint) responseError(ex *exchange) *turn.Error {
	body := ex.refusal
	if ex.truncated { // the cut may have split a secret, which Head then removes
		body = []byte(e.opts.Redact.Head(string(body)))
	}
	return e.providerError(ex.status, ex.header, body)
}

// providerError returns the error for a provider's refusal with this body: of an error response, or of an error in the
// stream if status is 0. It redacts secrets.
func (e *Endpoint) providerError(status int, header http.Header, body []byte) *turn.Error {
	r := parseRefusal(status, []byte(e.opts.Redact.JSON(string(body))))
	// In a stream, status 0, the header belongs to the success that came before the error.
	if should, err := strconv.ParseBool(header.Get("X-Should-Retry")); err == nil && status != 0 {
		r.ShouldRetry = &should
	}
	r.Message, r.Kind = e.redactShort(r.Message), e.redactShort(r.Kind)
	out := turn.NewError(r.code(), r, r.describe(e.opts.Name, header, e.redactShort))
	out.OfModel, out.NoTools, out.Status = r.ofModel(), r.noTools(), r.Status
	if out.Code.Retryable() {
		out.RetryAfter = retryafter.Parse(header, time.Now(), maxReset)
	}
	out.Message = e.redact(out.Message)
	return out
}

// maxReset is the longest Retry-After that is believed: a provider's quotas are renewed every month at the latest.
const maxReset = 31 * 24 * time.Hour

// learnQuirk derives from a refusal, err, how requests for the model must change, and remembers it for later requests.
// quirks are those that were known when the refused request was rendered. learnQuirk reports whether the request should
// be sent again: whether it has learned something new and could remember it. The refusal must have come before the
// response began. learnQuirk learns nothing about media: a refusal's text does not tell reliably whether the model
// accepts no media or only not this one, and a user of the worker must not be able to turn media off for the others.
func (e *Endpoint) learnQuirk(key modelKey, quirks Quirks, err error) bool {
	var r *refusal
	if !errors.As(err, &r) || !refusesFields(r) {
		return false
	}
	before := quirks
	text := r.Param + " " + r.Message
	quirks.NoStreamOptions = quirks.NoStreamOptions || strings.Contains(text, "stream_options")
	quirks.CompletionTokens = quirks.CompletionTokens || strings.Contains(text, "max_completion_tokens")
	quirks.NoSchema = quirks.NoSchema || containsAny(text, "response_format", "json_schema", "text.format",
		"output_config", "output_format")
	quirks.NoCacheKey = quirks.NoCacheKey || containsAny(text, "prompt_cache_key", "cache_control")
	quirks.NoInclude = quirks.NoInclude || containsAny(text, "include", "Encrypted content is not supported")
	quirks.NoBinding = quirks.NoBinding || containsAny(text, "block_binding", betaBinding)
	quirks.WantsReasoning = quirks.WantsReasoning || strings.Contains(text, "reasoning_content") && !unknownField.MatchString(text)
	if m := tooManyTokens.FindStringSubmatch(text); m != nil && quirks.MaxTokens == 0 {
		quirks.MaxTokens, _ = strconv.Atoi(m[1]) // at most nine digits always fit
	}
	if quirks == before {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.quirks) < 1000 { // bounds the memory, because callers choose the names of models
		e.quirks[key] = quirks
	}
	return e.quirks[key] == quirks
}

// betaBinding begins the name of the beta that Quirks.NoBinding leaves out.
const betaBinding = "thinking-binding-controls"

// unknownField matches the refusal of a field that the provider does not know.
var unknownField = regexp.MustCompile(`(?i)unsupported|not supported|not permitted|unknown|unrecognized|unexpected|extra`)

// tooManyTokens matches the refusal of a max_tokens that is above the model's maximum: "max_tokens: 32000 > 8192, which
// is the maximum allowed number of output tokens" (Anthropic).
var tooManyTokens = regexp.MustCompile(`max_tokens: \d+ > (\d{3,9})\b`)

// refusesMedia reports whether err is a refusal that may be due to the request's media. Its words are vague, so callers
// use it only for requests with media.
func refusesMedia(err error) bool {
	var r *refusal
	statuses := []int{http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType}
	if !errors.As(err, &r) || !slices.Contains(statuses, r.Status) {
		return false
	}
	text := strings.ToLower(r.Param + " " + r.Message)
	return containsAny(text, "image", "audio", "vision", "multimodal", "content", "file", "document", "pdf")
}

// containsAny reports whether s contains one of the words.
func containsAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(s, word) })
}

// quirksOf returns the quirks learned for a model so far.
func (e *Endpoint) quirksOf(key modelKey) Quirks {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.quirks[key]
}

// redactError returns err if its text contains no secret, and otherwise an error with only the redacted text: the
// errors that err wraps may contain the secret too.
func (e *Endpoint) redactError(err error) error {
	if err == nil || e.redact(err.Error()) == err.Error() {
		return err
	}
	return errors.New(e.redact(err.Error()))
}

// redact removes secrets from a text, also those that the operator may have put into the base URL.
func (e *Endpoint) redact(s string) string {
	return e.opts.Redact.String(strings.ReplaceAll(s, e.base, printable.Address(e.base)))
}

// redactShort redacts a provider's text for a message, and puts it on one line of at most maxProviderMessage bytes.
func (e *Endpoint) redactShort(s string) string {
	return printable.Line(e.redact(s), maxProviderMessage)
}

// isTimeout reports whether an error is a network timeout, such as one of the dialer's own deadlines, which may pass a
// moment before those of the phaseTimer.
func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
