package inference

import (
	"context"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// pingTimeout bounds a Ping.
const pingTimeout = 10 * time.Second

// Ping lists the endpoint's models, which costs nothing. Its error is a *turn.Error like Infer's. A 404 may also mean
// that the endpoint works and lists no models.
func (c *Chat) Ping(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, pingTimeout,
		turn.Errorf(turn.CodeLLMTransport, nil, c.opts.Name+" did not answer within "+pingTimeout.String()+
			"; check the network and base_url"))
	defer cancel()
	inner, x := c.newExchange(limited)
	defer x.watch.stop()
	_, err := c.library(x).ListModels(inner)
	if err == nil || x.body != nil { // the status was a success; what the list holds does not matter
		return nil
	}
	return c.failure(ctx, inner, x, false, err)
}
