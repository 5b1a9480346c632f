package turn_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// What a person is shown is what is sent: the bytes that are hashed give the request back, whatever stands in it.
func TestASampleRequestIsWhatItsBytesSay(t *testing.T) {
	half := 0.5
	for name, r := range map[string]turn.SampleRequest{
		"everything": {System: "a <b> & \u2028c\n\"d\"", MaxTokens: 7, Stop: []string{"</end>"}, Temperature: &half,
			Messages: []turn.SampleMessage{{Role: turn.RoleUser, Text: "x\ty"}, {Role: turn.RoleAssistant, Text: ""}}},
		"little": {MaxTokens: 1, Messages: []turn.SampleMessage{{Role: turn.RoleUser, Text: "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := r.Bytes()
			require.NoError(t, err)
			assert.NotContains(t, string(b), `\u003c`, "people read it")
			again, err := turn.ReadSampleRequest(b)
			require.NoError(t, err)
			assert.Equal(t, r, again)
			same, err := again.Bytes()
			require.NoError(t, err)
			assert.Equal(t, b, same)
			p := again.Prompt("m", 3)
			assert.Equal(t, turn.Prompt{Model: "m", System: r.System, Stop: r.Stop, Temperature: r.Temperature, MaxTokens: 3, Messages: p.Messages}, p)
			require.Len(t, p.Messages, len(r.Messages))
			for i, m := range p.Messages {
				assert.Equal(t, turn.Message{Role: r.Messages[i].Role, Text: r.Messages[i].Text}, m)
			}
		})
	}
	_, err := turn.ReadSampleRequest([]byte("{"))
	assert.Error(t, err)
}

func TestASampleSpendsNoMoreThanTheTurnHas(t *testing.T) {
	limits := turn.DefaultLimits()
	limits.MaxTokens, limits.MaxCostUSD = 100, 1
	for name, c := range map[string]struct {
		limits turn.Limits
		spent  turn.Counters
		most   int64
		reason turn.FinishReason
	}{
		"no ceiling":      {turn.DefaultLimits(), turn.Counters{Usage: turn.Usage{InputTokens: 1 << 40}}, 0, ""},
		"some are left":   {limits, turn.Counters{Usage: turn.Usage{InputTokens: 60, OutputTokens: 10}}, 30, ""},
		"none are left":   {limits, turn.Counters{Usage: turn.Usage{InputTokens: 60, OutputTokens: 40}}, 0, turn.FinishMaxTokens},
		"no time is left": {limits, turn.Counters{Busy: time.Hour}, 0, turn.FinishTimeout},
		"no money":        {limits, turn.Counters{CostUSD: 1}, 0, turn.FinishMaxCost},
		"who knows":       {limits, turn.Counters{CostUSD: 1, CostUnknown: true}, 100, ""},
		"all steps taken": {limits, turn.Counters{Spent: limits.MaxSteps}, 100, ""},
	} {
		t.Run(name, func(t *testing.T) {
			most, no := turn.GuardSample(c.limits, c.spent)
			assert.Equal(t, c.most, most)
			if c.reason == "" {
				assert.Nil(t, no)
				return
			}
			require.NotNil(t, no)
			assert.Equal(t, c.reason, no.Reason)
		})
	}
}

func TestStopReasonsAreTheProtocols(t *testing.T) {
	for said, want := range map[string]string{"": "endTurn", "stop": "endTurn", "length": "maxTokens", "content_filter": "contentFilter", "odd": "odd"} {
		assert.Equal(t, want, turn.StopReason(said))
	}
}
