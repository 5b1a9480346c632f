package mcp_test

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/workflows/turn"
)

func TestBadToolsAreDroppedAndTheRestIsSafe(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioServer("srv", "-mode", "badtools"))
	c := catalogue(t, h, "srv")
	var names []string
	for _, d := range c.Tools {
		names = append(names, strings.TrimPrefix(d.ID, "mcp/srv/"))
		assert.Regexp(t, regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`), d.Wire)
		assert.LessOrEqual(t, len(d.Description), 4<<10)
		assert.NotContains(t, d.Description, "\x1b")
		assert.Contains(t, string(d.Schema), `"properties"`)
	}
	assert.Equal(t, []string{"good", strings.Repeat("n", 150), "talkative"}, names)
	assert.Equal(t, "A good tool.", c.Tools[0].Description, "the twin took its place")
	dropped := strings.Join(c.Dropped, "\n")
	for _, want := range []string{"good: it is listed twice", "array: ", "notype: ", "broken: ", "remote: ", "noschema: ",
		"without a name", "two words: "} {
		assert.Contains(t, dropped, want)
	}
}

func TestTheCatalogueIsStable(t *testing.T) {
	one := newHost(t, mcp.Options{}, stdioServer("srv"))
	first := catalogue(t, one, "srv")
	require.NoError(t, one.Close())
	h := newHost(t, mcp.Options{}, stdioServer("srv"))
	assert.Equal(t, first, catalogue(t, h, "srv"))
}

func TestTheOperatorsWordAndTheServers(t *testing.T) {
	s := stdioServer("srv")
	s.Allow, s.Deny = []string{"e*", "append", "read_*"}, []string{"environ"}
	s.Tools = map[string]tool.Settings{"echo": {Repeatable: true, LocalActivity: true, Risk: turn.RiskLow}}
	one := newHost(t, mcp.Options{}, s)
	c := catalogue(t, one, "srv")
	require.NoError(t, one.Close())
	require.Len(t, c.Tools, 3)
	byID := map[string]turn.Descriptor{}
	for _, d := range c.Tools {
		byID[d.ID] = d
	}
	assert.Equal(t, turn.ActivityLocal, byID["mcp/srv/echo"].Activity)
	assert.True(t, byID["mcp/srv/echo"].Repeatable)
	assert.Equal(t, turn.RiskLow, byID["mcp/srv/echo"].Risk)
	assert.False(t, byID["mcp/srv/read_note"].Repeatable, "an annotation was believed without trust")
	assert.Equal(t, turn.RiskMedium, byID["mcp/srv/read_note"].Risk)

	s.Trust = true
	for _, d := range catalogue(t, newHost(t, mcp.Options{}, s), "srv").Tools {
		assert.Equal(t, d.ID != "mcp/srv/append", d.Repeatable, d.ID)
		assert.Equal(t, turn.ActivityRegular == d.Activity, d.ID != "mcp/srv/echo")
	}
}

func TestSettingsOfToolsThatThereAreNotAreTold(t *testing.T) {
	server := stdioServer("srv")
	server.Tools = map[string]tool.Settings{"ecko": {Risk: turn.RiskHigh}, "echo": {Risk: turn.RiskLow}}
	var log strings.Builder
	h := newHost(t, mcp.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, server)
	for range 2 {
		c := h.Catalogues(t.Context())[0]
		require.Empty(t, c.Problem)
		assert.Equal(t, []string{"ecko"}, c.Misnamed)
		assert.Empty(t, c.Dropped, "nothing was left out")
	}
	require.NoError(t, h.Close())
	assert.Equal(t, 1, strings.Count(log.String(), "agent.toml names tools that the server does not offer"), "%s",
		log.String())
}
