package mcp_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

func TestResultsAreMadeSafe(t *testing.T) {
	h := newHost(t, mcp.Options{MaxResultBytes: 1000, MaxFullBytes: 5000}, stdioServer("srv"))
	assert.Equal(t, "ab red end\nnext", call(t, h, "mcp/srv/dirty", `{}`).Text)

	r := call(t, h, "mcp/srv/binary", `{}`)
	assert.Equal(t, "[image/png, 6 bytes]", r.Text)
	assert.Equal(t, "\x89PNG\x00\x01", string(r.Full))
	assert.Equal(t, "image/png", r.MediaType)

	r = call(t, h, "mcp/srv/big", `{"bytes":4000}`)
	assert.Equal(t, turn.OutcomeOK, r.Outcome)
	assert.LessOrEqual(t, len(r.Text), 1000)
	assert.Len(t, r.Full, 4000)
	assert.EqualValues(t, 4000, r.SizeBytes)

	r = call(t, h, "mcp/srv/big", `{"bytes":9000}`)
	assert.Len(t, r.Full, 5000)
	assert.EqualValues(t, 9000, r.SizeBytes)

	r = call(t, h, "mcp/srv/big", `{"bytes":1000}`)
	assert.Len(t, r.Text, 1000)
	assert.Nil(t, r.Full)
}
