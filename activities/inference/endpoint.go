package inference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

// Options select the endpoint and its timeouts. A zero field takes its default.
type Options struct {
	Name    string // for messages; "the model provider" by default
	BaseURL string // including its version, for instance https://api.openai.com/v1, which is the default
	APIKey  string // sent as a bearer token; no token is sent if it is empty

	// HTTPClient replaces the client that New creates. Redirects are refused either way: they would send the prompt to
	// a host that the operator did not configure.
	HTTPClient *http.Client

	ConnectTimeout time.Duration // to a usable connection, TLS included; 10 s
	// IdleTimeout is for the first event of the response, from the usable connection on, and between two pieces of the
	// stream, keep-alives included; 5 min.
	IdleTimeout  time.Duration
	TotalTimeout time.Duration // of the whole inference; 30 min

	MaxAnswerBytes int // of a response's body, framing included; 32 MiB
	MaxRawBytes    int // of turn.Completion.Raw; 1 MiB

	// Redact redacts secrets in errors; nil means a redactor that knows the API key.
	Redact *redact.Redactor

	// Capabilities returns the capabilities of a model of this endpoint; nil looks them up by the model's name.
	Capabilities func(model string) []models.Capability
	// Header has further fields of each request's header, and ExtraBody is a JSON object whose fields are added to each
	// request's body; it may be nil.
	Header    http.Header
	ExtraBody json.RawMessage
	// Wire selects the wire API of a prompt. It is required.
	Wire func(turn.Prompt) Wire
}

// withDefaults returns the options with every unset field replaced by its default.
func (o Options) withDefaults() Options {
	orDuration := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	orDuration(&o.ConnectTimeout, 10*time.Second)
	orDuration(&o.IdleTimeout, 5*time.Minute)
	orDuration(&o.TotalTimeout, 30*time.Minute)
	if o.Capabilities == nil {
		o.Capabilities = models.CapabilitiesOf
	}
	if o.MaxAnswerBytes <= 0 {
		o.MaxAnswerBytes = 32 << 20
	}
	if o.MaxRawBytes <= 0 {
		o.MaxRawBytes = 1 << 20
	}
	if o.Name == "" {
		o.Name = "the model provider"
	}
	if o.Redact == nil {
		o.Redact = redact.New()
		o.Redact.Add(o.APIKey)
	}
	if o.BaseURL == "" {
		o.BaseURL = "https://api.openai.com/v1"
	}
	return o
}

// Endpoint is a client of one endpoint. It is safe for concurrent use.
type Endpoint struct {
	opts   Options
	wire   func(turn.Prompt) Wire
	client *http.Client
	base   string // the base URL without a slash at its end
	host   string // for messages

	mu      sync.Mutex
	quirks  map[modelKey]Quirks     // learned from refusals: see learnQuirk
	refused map[refusedSetting]bool // learned from refusals: see learnSetting
}

// modelKey identifies a model of the endpoint over one wire API.
type modelKey struct {
	api   turn.API
	model string
}

// New checks the options and returns an Endpoint. It does not connect. The error has code config_invalid.
func New(o Options) (*Endpoint, error) {
	o = o.withDefaults()
	base, err := checkBaseURL(o.BaseURL)
	if err != nil {
		return nil, turn.NewError(turn.CodeConfigInvalid, nil, err.Error())
	}
	if strings.ContainsFunc(o.APIKey, unicode.IsControl) {
		return nil, turn.NewError(turn.CodeConfigInvalid, nil,
			"the API key contains a control character; was it copied with its line break?")
	}
	return &Endpoint{opts: o, wire: o.Wire, client: newClient(o), base: strings.TrimRight(o.BaseURL, "/"),
		host: base.Host, quirks: map[modelKey]Quirks{}, refused: map[refusedSetting]bool{}}, nil
}

// checkBaseURL parses and checks a base URL. Its errors never contain the URL itself, because operators put keys into
// it.
func checkBaseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("base_url is not a URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("base_url must begin with http:// or https:// and name a host, " +
			"for instance http://127.0.0.1:11434/v1")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("base_url may have a scheme, a host and a path only; set credentials as the API key")
	}
	return u, nil
}

// newClient returns the HTTP client for the options. It does not follow redirects: see Options.HTTPClient.
func newClient(o Options) *http.Client {
	client := &http.Client{}
	if o.HTTPClient != nil {
		*client = *o.HTTPClient // a copy, because CheckRedirect is replaced
	} else {
		dialer := &net.Dialer{Timeout: o.ConnectTimeout, KeepAlive: 15 * time.Second}
		client.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
			TLSHandshakeTimeout: o.ConnectTimeout,
			ForceAttemptHTTP2:   true, DisableCompression: true, MaxIdleConnsPerHost: 128,
			IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 256 << 10,
		}
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// Close closes idle connections. Inferences in progress continue.
func (e *Endpoint) Close() error {
	e.client.CloseIdleConnections()
	return nil
}

// Infer sends the prompt and streams the response into sink. It returns a complete completion or a *turn.Error with one
// of the codes llm_transport, llm_rate_limited, llm_rejected, llm_unauthorized, llm_truncated and context_overflow. If
// ctx ends first, context.Cause(ctx) is in the error's chain. With an error, the completion has only the usage that the
// provider has reported. Infer sends the request again only if the endpoint refused it before it answered, because of
// media or of a parameter that the next request omits or adds (see Quirks).
func (e *Endpoint) Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	total, cancel := context.WithTimeoutCause(ctx, e.opts.TotalTimeout, e.deadline(
		"%s took longer than %s to answer (total timeout); request less, or raise the timeout", e.opts.TotalTimeout))
	defer cancel()
	wire := e.wire(p)
	key := modelKey{wire.API(), p.Model}
	var lastRequest []byte
	var lastRefusal error
	asked, left := p.Settings, without{}
	// Each round but the last learns another of the few quirks, or that a setting, the prompt's media or its items are
	// refused.
	for {
		quirks := e.quirksOf(key)
		var omitted []string
		p.Settings, omitted = e.accepted(key, asked)
		body, err := e.renderBody(wire, p, quirks, left)
		if err != nil {
			return turn.Completion{}, err
		}
		if bytes.Equal(body.JSON, lastRequest) { // the new quirk did not change this request
			return turn.Completion{}, lastRefusal
		}
		completion, began, err := e.send(ctx, total, wire, body, sink)
		if err == nil {
			completion.Omitted = omitted
			return tagItems(completion, e.opts.Name, key), nil
		}
		if began {
			return completion, err
		}
		more := e.learnQuirk(key, quirks, err)
		switch {
		case more:
		case !left.Items && refusesItems(p, err):
			left.Items, more = true, true
		default:
			more = e.learnSetting(key, p.Settings, err)
		}
		if body.Media && refusesMedia(err) { // go on without media, which the messages then describe in text
			left.Media, more = true, true
		}
		if !more {
			return completion, err
		}
		lastRequest, lastRefusal = body.JSON, err
	}
}

// without says what a request leaves out because the provider has refused it in this prompt.
type without struct {
	Media bool // the messages describe media in text
	Items bool // the provider's own items of earlier answers, such as reasoning
}

// tagItems records in the completion's provider items to which provider, wire API and model they must be sent back.
func tagItems(c turn.Completion, provider string, key modelKey) turn.Completion {
	if c.Items != nil {
		c.Items.Provider, c.Items.API, c.Items.Model = provider, key.api, key.model
	}
	return c
}

// renderBody renders the body of a request for the prompt. If the model has a JSON mode, the prompt's schema of an
// action, if there is one, takes the place of the output schema. The error is a *turn.Error.
func (e *Endpoint) renderBody(wire Wire, p turn.Prompt, quirks Quirks, left without) (Body, error) {
	rules := Rules{Provider: e.opts.Name, Modalities: e.modalities(p.Model), Quirks: quirks, NoItems: left.Items}
	if left.Media {
		rules.Modalities = Modalities{}
	}
	if len(p.ActionSchema) > 0 && slices.Contains(e.opts.Capabilities(p.Model), models.JSONMode) {
		p.OutputSchema = p.ActionSchema
	}
	body, err := wire.Body(p, rules)
	if err == nil {
		body.JSON, err = withExtra(body.JSON, e.opts.ExtraBody)
	}
	var typed *turn.Error
	if err != nil && !errors.As(err, &typed) {
		err = turn.NewError(turn.CodeLLMRejected, e.redactError(err),
			"the request could not be built: "+e.redactShort(err.Error()))
	}
	return body, err
}

// send sends one request and collects the response. caller is the context of Infer's caller; total is derived from it
// and adds the total deadline. began reports whether an event of the response has arrived: the provider then bills for
// it and the sink has received it, so that the request must not be sent again.
func (e *Endpoint) send(caller, total context.Context, wire Wire, request Body, sink turn.Sink) (
	_ turn.Completion, began bool, _ error) {
	ctx, ex := e.newExchange(total)
	defer ex.phases.stop()
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}
	wire.Authorize(header, e.opts.APIKey)
	for name, values := range e.opts.Header {
		header[name] = values
	}
	for name, values := range request.Header { // a list, such as that of the betas, may have values of the operator
		header[name] = append(slices.Clone(header[name]), values...)
	}
	body, err := ex.do(ctx, http.MethodPost, e.base+wire.Path(), header, request.JSON)
	if err != nil {
		return turn.Completion{}, false, e.failure(caller, ctx, ex, false, err)
	}
	defer func() { _ = body.Close() }()
	col := newCollector(sink, e.opts.MaxRawBytes)
	if err := e.collect(ctx, ex, col, wire.Reader(col)); err != nil {
		return turn.Completion{Usage: col.partialUsage()}, col.began, e.failure(caller, ctx, ex, col.began, err)
	}
	return col.completion(ex.sent), true, nil
}

// newExchange returns an exchange for one request, and the request's context, which is derived from total. The connect
// deadline is already running. The caller must stop the exchange's phases.
func (e *Endpoint) newExchange(total context.Context) (context.Context, *exchange) {
	ctx, w := startPhaseTimer(total)
	w.beginFixedPhase(e.opts.ConnectTimeout, e.connectDeadline())
	return ctx, &exchange{
		client: e.client, phases: w, limit: int64(e.opts.MaxAnswerBytes), onConnected: e.startFirstTokenPhase,
	}
}

// tailTimeout is how long a stream may continue after its finish reason, to report its usage and to end.
const tailTimeout = 2 * time.Second

// collect passes the events of the response to read, which adds them to col, until the response is complete, and begins
// the deadlines of the phases after the first token. It ignores errors after the finish reason, because the completion
// is then complete.
func (e *Endpoint) collect(ctx context.Context, ex *exchange, col *Collector, read func([]byte) error) error {
	events := newEvents(ex.body)
	for {
		began, finished := col.began, col.finish != ""
		data, err := events.next()
		if err == nil {
			err = ctx.Err() // do not process events that are still buffered after ctx has ended
		}
		if err == nil {
			err = read(bytes.ToValidUTF8(data, []byte("\uFFFD")))
		}
		switch {
		case err != nil && finished:
			ex.drain()
			return col.checkCalls() // a call may have begun after the finish reason
		case err != nil:
			return err
		case !finished && col.finish != "": // this event had the finish reason
			if err := col.checkCalls(); err != nil {
				return err
			}
			ex.phases.beginIdlePhase(tailTimeout, errNoUsage)
		case !began: // this was the first event
			ex.phases.beginIdlePhase(e.opts.IdleTimeout, e.deadline(
				"%s stopped in the middle of its answer and sent nothing for %s (idle timeout)", e.opts.IdleTimeout))
		}
	}
}

// Collect reads the body of a response without an endpoint and its deadlines, for instance a recorded one. It returns
// what it has collected when the body ended, and always an error: io.EOF if the body ended with a complete event,
// otherwise the reason. maxRaw bounds turn.Completion.Raw, in bytes.
func Collect(body io.Reader, wire Wire, sink turn.Sink, maxRaw int) (turn.Completion, error) {
	col, events := newCollector(sink, maxRaw), newEvents(body)
	read := wire.Reader(col)
	for {
		data, err := events.next()
		if err == nil {
			err = read(bytes.ToValidUTF8(data, []byte("\uFFFD")))
		}
		if err != nil {
			return col.completion(0), err
		}
	}
}

// errNoUsage is the cause that ends the wait for the end of a stream after its finish reason. Callers never see it.
var errNoUsage = errors.New("the stream did not end after its finish reason")

// startFirstTokenPhase replaces the connect deadline by the first-token deadline.
func (e *Endpoint) startFirstTokenPhase(w *phaseTimer) {
	w.beginFixedPhase(e.opts.IdleTimeout, e.deadline(
		"%s accepted the request and sent nothing for %s (idle timeout); it may be overloaded or loading the model",
		e.opts.IdleTimeout))
}

// connectDeadline returns the error of the connect deadline.
func (e *Endpoint) connectDeadline() *turn.Error {
	return e.deadline("connecting to %s took longer than %s; check the network and base_url", e.opts.ConnectTimeout)
}

// deadline returns the error of a deadline. The format has two verbs: for the provider's name and for the duration.
func (e *Endpoint) deadline(format string, d time.Duration) *turn.Error {
	return turn.NewError(turn.CodeLLMTransport, nil, fmt.Sprintf(format, e.opts.Name, d))
}
