package inference

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"

	openai "github.com/sashabaranov/go-openai"

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

	ConnectTimeout    time.Duration // to a usable connection, TLS included; 10 s
	FirstTokenTimeout time.Duration // from there to the first event of the response; 60 s
	IdleTimeout       time.Duration // between two pieces of the stream, keep-alives included; 30 s
	TotalTimeout      time.Duration // of the whole inference; 5 min

	MaxAnswerBytes int           // of a response's body, framing included; 32 MiB
	MaxRawBytes    int           // of turn.Completion.Raw; 1 MiB
	MaxRetryAfter  time.Duration // the longest Retry-After that is honoured; 60 s

	// Redact redacts secrets in errors; nil means a redactor that knows the API key.
	Redact *redact.Redactor

	// Modalities are the media that every model of this endpoint accepts besides text; nil means what is known of each
	// by its name (see CapabilitiesOf).
	Modalities *Modalities
}

func (o Options) withDefaults() Options {
	orDuration := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	orDuration(&o.ConnectTimeout, 10*time.Second)
	orDuration(&o.FirstTokenTimeout, time.Minute)
	orDuration(&o.IdleTimeout, 30*time.Second)
	orDuration(&o.TotalTimeout, 5*time.Minute)
	orDuration(&o.MaxRetryAfter, time.Minute)
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

// Chat is a client of one endpoint. It is safe for concurrent use.
type Chat struct {
	opts   Options
	client *http.Client
	config openai.ClientConfig
	host   string // for messages

	mu     sync.Mutex
	quirks map[string]quirks // by model
}

// New checks the options and returns a Chat. It does not connect. The error has code config_invalid.
func New(o Options) (*Chat, error) {
	o = o.withDefaults()
	base, err := checkBaseURL(o.BaseURL)
	if err != nil {
		return nil, turn.Errorf(turn.CodeConfigInvalid, nil, err.Error())
	}
	if strings.ContainsFunc(o.APIKey, unicode.IsControl) {
		return nil, turn.Errorf(turn.CodeConfigInvalid, nil,
			"the API key contains a control character; was it copied with its line break?")
	}
	c := &Chat{opts: o, client: newClient(o), host: base.Host, quirks: map[string]quirks{}}
	c.config = openai.DefaultConfig(o.APIKey)
	c.config.BaseURL = strings.TrimRight(o.BaseURL, "/")
	return c, nil
}

// checkBaseURL never includes the URL itself in an error, because operators put keys into it.
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

func newClient(o Options) *http.Client {
	client := &http.Client{}
	if o.HTTPClient != nil {
		*client = *o.HTTPClient
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
func (c *Chat) Close() error {
	c.client.CloseIdleConnections()
	return nil
}

// Infer sends the prompt and streams the response into sink. It returns a complete completion or a *turn.Error with one
// of the codes llm_transport, llm_rate_limited, llm_rejected and llm_truncated. If ctx ends first, context.Cause(ctx)
// is in the error's chain.
func (c *Chat) Infer(ctx context.Context, p turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	total, cancel := context.WithTimeoutCause(ctx, c.opts.TotalTimeout, c.deadline(
		"%s took longer than %s to answer (total timeout); request less, or raise the timeout", c.opts.TotalTimeout))
	defer cancel()
	for {
		q := c.quirksOf(p.Model)
		r := c.buildRequest(p, q)
		completion, began, err := c.send(ctx, total, r, sink)
		if r.media && !began && refusesMedia(err) { // the transcript describes media in text; the turn matters more
			c.learnQuirk(p.Model, q, err)
			q.noMedia = true
			r = c.buildRequest(p, q)
			completion, began, err = c.send(ctx, total, r, sink)
		}
		if err == nil || began || !c.learnQuirk(p.Model, q, err) {
			return completion, err
		}
	}
}

// send makes one request. caller is the context of Infer's caller; total is derived from it and adds the total
// deadline. began reports whether the response had begun: the provider bills what it has generated and the sink has
// received it, so the request must not be sent again.
func (c *Chat) send(caller, total context.Context, r request, sink turn.Sink) (_ turn.Completion, began bool, _ error) {
	ctx, x := c.newExchange(total)
	defer x.watch.stop()
	var err error
	if x.request, err = r.withAudio(); err != nil {
		return turn.Completion{}, false, c.failure(caller, ctx, x, false, err)
	}
	stream, err := c.library(x).CreateChatCompletionStream(ctx, r.ChatCompletionRequest)
	if err != nil {
		return turn.Completion{}, false, c.failure(caller, ctx, x, false, err)
	}
	defer func() { _ = stream.Close() }()
	col := newCollector(sink, c.opts.MaxRawBytes)
	if err := c.collect(ctx, x, col); err != nil {
		return turn.Completion{}, col.began, c.failure(caller, ctx, x, col.began, err)
	}
	return col.completion(x.sent), true, nil
}

// newExchange returns an exchange for one request, and the request's context. The connect deadline is running; the
// caller stops the exchange's watch.
func (c *Chat) newExchange(total context.Context) (context.Context, *exchange) {
	ctx, w := startWatch(total)
	w.expectWithin(c.opts.ConnectTimeout, c.connectDeadline())
	x := &exchange{client: c.client, watch: w, limit: int64(c.opts.MaxAnswerBytes), onConn: c.expectToken}
	return x.trace(ctx), x
}

// tailTimeout is how long a stream may take after its finish reason to report its usage and end.
const tailTimeout = 2 * time.Second

// collect reads events until the response is complete. Errors after the finish reason are ignored.
func (c *Chat) collect(ctx context.Context, x *exchange, col *collector) error {
	events := newEvents(x.body)
	for {
		began, finished := col.began, col.finish != ""
		data, err := events.next()
		if err == nil {
			err = ctx.Err() // data read before ctx ended is not parsed afterwards
		}
		if err == nil {
			err = col.add(data)
		}
		switch {
		case err != nil && finished:
			x.drain()
			return nil
		case err != nil:
			return err
		case !finished && col.finish != "":
			x.watch.expect(tailTimeout, errTail)
		case !began:
			x.watch.expect(c.opts.IdleTimeout, c.deadline(
				"%s stopped in the middle of its answer and sent nothing for %s (idle timeout)", c.opts.IdleTimeout))
		}
	}
}

// errTail ends the wait for a usage report that does not come. Callers never see it.
var errTail = errors.New("the stream did not end after its finish reason")

func (c *Chat) expectToken(w *watch) {
	w.expectWithin(c.opts.FirstTokenTimeout, c.deadline(
		"%s accepted the request and sent nothing for %s (first-token timeout); it may be overloaded or loading the model",
		c.opts.FirstTokenTimeout))
}

func (c *Chat) connectDeadline() *turn.Error {
	return c.deadline("connecting to %s took longer than %s; check the network and base_url", c.opts.ConnectTimeout)
}

// deadline returns the error of a deadline. The format's verbs are the provider's name and the duration.
func (c *Chat) deadline(format string, d time.Duration) *turn.Error {
	return turn.Errorf(turn.CodeLLMTransport, nil, fmt.Sprintf(format, c.opts.Name, d))
}

// library returns a go-openai client whose requests go through x.
func (c *Chat) library(x *exchange) *openai.Client {
	config := c.config
	config.HTTPClient = x
	return openai.NewClientWithConfig(config)
}
