package toolbox

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sseTransport detaches the stream of an SSE server from the context of Connect: the SDK's transport would end the
// stream with that context.
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

// Close closes the connection and ends the stream.
func (c *sseConn) Close() error {
	defer c.end()
	return c.Connection.Close()
}
