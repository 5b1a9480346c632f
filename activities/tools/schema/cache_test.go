package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// TestTheCacheIsBoundedInBytes checks that many large schemas do not stay in memory, and that those used last do.
func TestTheCacheIsBoundedInBytes(t *testing.T) {
	var c Cache
	get := func(i int) {
		raw := fmt.Sprintf(`{"type":"object","description":"%d%s"}`, i, strings.Repeat("x", 100<<10))
		_, err := c.Get(turn.Descriptor{ID: "mcp/x/y", Schema: json.RawMessage(raw)})
		require.NoError(t, err)
		assert.LessOrEqual(t, c.bytes, maxKeptBytes)
	}
	for i := range 120 {
		get(0)
		get(i)
	}
	assert.Greater(t, c.kept.Len(), 50)
	before := c.kept.Keys()
	get(0)
	assert.ElementsMatch(t, before, c.kept.Keys(), "the one that is always used was dropped")
	c.kept.Purge()
	assert.Zero(t, c.bytes)
}
