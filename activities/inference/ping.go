package inference

import (
	"context"
	"net/http"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// pingTimeout bounds a Ping.
const pingTimeout = 5 * time.Second

// Ping checks that the endpoint responds and accepts the API key. It requests the list of models, which costs nothing.
// Its error is a *turn.Error like Infer's. If its Status is 404, the endpoint may still work, without a list of models.
func (e *Endpoint) Ping(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, pingTimeout,
		turn.NewError(turn.CodeLLMTransport, nil, e.opts.Name+" did not answer within "+pingTimeout.String()+
			"; check the network and base_url"))
	defer cancel()
	inner, ex := e.newExchange(limited)
	defer ex.phases.stop()
	header := http.Header{}
	e.wire(turn.Prompt{}).Authorize(header, e.opts.APIKey)
	body, err := ex.do(inner, http.MethodGet, e.base+"/models", header, nil)
	if err != nil {
		return e.failure(ctx, inner, ex, false, err)
	}
	return body.Close()
}
