package toolbox

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sseTransport gives the stream of a server over SSE a life of its own: the SDK's ends with the context that it was
// connected under.
type sseTransport struct{ inner *mcp.SSEClientTransport }

// Connect implements mcp.Transport.
func (t *sseTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, end)
	conn, err := t.inner.Connect(life)
	if !unhook() && err == nil {
		_ = conn.Close()
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, err
	}
	return &sseConn{Connection: conn, end: end}, nil
}

type sseConn struct {
	mcp.Connection
	end context.CancelFunc
}

// Close ends the stream, too.
func (c *sseConn) Close() error {
	defer c.end()
	return c.Connection.Close()
}
