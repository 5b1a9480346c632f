package turn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestACatalogueStaysUsableForItsGrace(t *testing.T) {
	now := time.Unix(1000, 0)
	c := Catalogue{Tools: []Descriptor{{ID: "mcp/x/y"}}, Since: now, Grace: time.Minute}
	assert.True(t, c.Usable(now.Add(time.Hour)), "it can be asked")
	c.Problem = "connection refused"
	assert.True(t, c.Usable(now.Add(time.Minute-1)))
	assert.False(t, c.Usable(now.Add(time.Minute)))
	c.Tools = nil
	assert.False(t, c.Usable(now), "it was never asked")
}
