package inference

import (
	"context"
	"net/http"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// pingTimeout bounds a Ping.
const pingTimeout = 10 * time.Second

// Ping lists the endpoint's models, which costs nothing. Its error is a *turn.Error like Infer's. A 404 may also mean
// that the endpoint works and lists no models.
func (c *Chat) Ping(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, pingTimeout,
		turn.Errorf(turn.CodeLLMTransport, nil, c.opts.Name+" did not answer within "+pingTimeout.String()+"; check the network and base_url"))
	defer cancel()
	inner, w := startWatch(limited)
	defer w.stop()
	w.expectWithin(c.opts.ConnectTimeout, c.deadline("connecting to %s took longer than %s; check the network and base_url", c.opts.ConnectTimeout))
	x := &exchange{client: c.client, watch: w, limit: int64(c.opts.MaxAnswerBytes), onConn: c.expectToken}
	req, err := http.NewRequestWithContext(x.trace(inner), http.MethodGet, c.config.BaseURL+"/models", nil)
	if err != nil {
		return c.failure(ctx, inner, x, false, err)
	}
	if c.opts.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.APIKey)
	}
	res, err := x.Do(req)
	if err != nil {
		return c.failure(ctx, inner, x, false, err)
	}
	defer func() { _ = res.Body.Close() }()
	if x.refusal != nil {
		return c.refusedBy(x)
	}
	x.drain()
	return nil
}
