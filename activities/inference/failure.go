package inference

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/internal/retryafter"
	"github.com/everturn/everturn/workflows/turn"
)

// failure returns an error with a code and a message that says what to do. began means that an event had arrived.
func (c *Chat) failure(caller, ctx context.Context, x *exchange, began bool, err error) error {
	if caller.Err() != nil {
		return c.cancelled(caller)
	}
	var deadline *turn.Error
	var inStream *streamError
	switch {
	case x.refusal != nil:
		return c.responseError(x)
	case errors.As(context.Cause(ctx), &deadline):
		return turn.Errorf(deadline.Code, c.redactError(err), deadline.Message)
	case errors.As(err, &inStream):
		return c.providerError(0, x.header, inStream.body)
	case x.status == 0 && !x.connected.Load() && isTimeout(err):
		e := c.connectDeadline()
		e.Cause = c.redactError(err)
		return e
	}
	code, message := c.diagnose(x, began, err)
	return turn.Errorf(code, c.redactError(err), message)
}

// diagnose classifies failures that have neither a status nor a deadline.
func (c *Chat) diagnose(x *exchange, began bool, err error) (turn.Code, string) {
	name := c.opts.Name
	var over *overBound
	switch {
	case errors.As(err, &over):
		return turn.CodeLLMRejected, fmt.Sprintf("%s sent more than %d %s; the response was discarded. Request a shorter one",
			name, over.most, over.what)
	case errors.Is(err, errWebPage):
		return turn.CodeLLMRejected, name + " answered with a web page; check base_url (is /v1 missing?)"
	case errors.Is(err, openai.ErrReasoningToolsRequireResponses):
		return turn.CodeLLMRejected,
			`this model takes tools only through the Responses API; choose another model, or set mode = "json"`
	case !x.requested:
		return turn.CodeLLMRejected, "the request could not be built: " + c.redactShort(err.Error())
	case errors.Is(err, errGarbage):
		return turn.CodeLLMTransport, name + " sent something other than a chat completion; " +
			"check that base_url is an OpenAI-compatible endpoint"
	case x.status != 0 && (began || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return turn.CodeLLMTruncated, name + " ended its response before it was complete; the partial response was discarded"
	case errors.Is(err, syscall.ECONNREFUSED):
		return turn.CodeLLMTransport, fmt.Sprintf("%s is not reachable: nothing listens at %s; is it running, "+
			"and is base_url correct?", name, c.host)
	case x.connected.Load():
		return turn.CodeLLMTransport, name + " closed the connection before it answered"
	}
	return turn.CodeLLMTransport, fmt.Sprintf("%s at %s is not reachable; check the network and base_url", name, c.host)
}

// cancelled keeps the cause of the caller's context in the error's chain.
func (c *Chat) cancelled(ctx context.Context) error {
	cause := context.Cause(ctx)
	var e *turn.Error
	if errors.As(cause, &e) {
		return fmt.Errorf("calling %s: %w", c.opts.Name, cause)
	}
	return turn.Errorf(turn.CodeLLMTransport, cause, "the request to "+c.opts.Name+" was cancelled")
}

// responseError parses the refusal in a response's status and body.
func (c *Chat) responseError(x *exchange) *turn.Error {
	body := x.refusal
	if x.truncated {
		body = []byte(c.opts.Redact.Head(string(body)))
	}
	return c.providerError(x.status, x.header, body)
}

// providerError parses a provider's refusal: of an HTTP status, or in the stream if status is 0.
func (c *Chat) providerError(status int, header http.Header, body []byte) *turn.Error {
	r := parseRefusal(status, []byte(c.opts.Redact.JSON(string(body))))
	r.Message, r.Kind = c.redactShort(r.Message), c.redactShort(r.Kind)
	e := turn.Errorf(r.code(), r, r.describe(c.opts.Name, header, c.redactShort))
	if e.Code.Retryable() {
		e.RetryAfter = retryafter.Parse(header, time.Now(), c.opts.MaxRetryAfter)
	}
	e.Message = c.redact(e.Message)
	return e
}

// learnQuirk remembers which parameter the endpoint refused, and reports whether to send the request again without it.
// The refusal must have come before the response began.
func (c *Chat) learnQuirk(model string, q quirks, err error) bool {
	var r *refusal
	if !errors.As(err, &r) || !slices.Contains([]int{http.StatusBadRequest, http.StatusUnprocessableEntity}, r.Status) {
		return false
	}
	before := q
	said := r.Param + " " + r.Message
	q.noStreamOptions = q.noStreamOptions || strings.Contains(said, "stream_options")
	q.completionTokens = q.completionTokens ||
		strings.Contains(said, "max_completion_tokens") && !wantsCompletionTokens(model)
	q.noMedia = q.noMedia || refusesMedia(err) && refusesAllMedia(said)
	if q == before {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.quirks) < 1000 {
		c.quirks[model] = q
	}
	return c.quirks[model] == q
}

// refusesMedia reports whether the endpoint may have refused a request because of its images or audio. The refusal must
// have come before the response began.
func refusesMedia(err error) bool {
	var r *refusal
	if !errors.As(err, &r) || r.Status != http.StatusBadRequest && r.Status != http.StatusUnprocessableEntity &&
		r.Status != http.StatusUnsupportedMediaType {
		return false
	}
	said := strings.ToLower(r.Param + " " + r.Message)
	return containsAny(said, "image", "audio", "vision", "multimodal", "content")
}

func containsAny(s string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(s, word) })
}

// refusesAllMedia reports whether the endpoint refuses all media, not only the ones of this request.
func refusesAllMedia(said string) bool {
	said = strings.ToLower(said)
	return containsAny(said, "not support", "unsupported content", "must be a string", "valid string", "unknown variant")
}

func (c *Chat) quirksOf(model string) quirks {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quirks[model]
}

// redactError keeps the chain of an error unless its text contains the key.
func (c *Chat) redactError(err error) error {
	if err == nil || c.redact(err.Error()) == err.Error() {
		return err
	}
	return errors.New(c.redact(err.Error()))
}

func (c *Chat) redact(s string) string {
	return c.opts.Redact.String(strings.ReplaceAll(s, c.config.BaseURL, printable.Address(c.config.BaseURL)))
}

// redactShort prepares the provider's text for a message: redacted, without control characters, at most
// maxProviderMessage bytes.
func (c *Chat) redactShort(s string) string {
	return printable.Line(c.redact(s), maxProviderMessage)
}

// isTimeout reports whether an error is a network timeout. The dialer's own deadlines may fire a moment before the
// package's.
func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
