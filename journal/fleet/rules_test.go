package fleet

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// limitedRows are the rows of one scope with these limits.
func limitedRows(limits Limits) Rows {
	return Rows{"p": {Scope: "p", Limits: limits}}
}

func (rows Rows) ask(now time.Time, requests ...CapacityRequest) []*Refusal {
	for i := range requests {
		requests[i].Scopes = []string{"p"}
	}
	return rows.Lease(CapacityInput{Worker: "w", Requests: requests}, now, false).Refusals
}

// TestLimitsHoldInEveryWindow grants random requests for ten minutes, which arrive at the provider with random delays,
// and checks every second and every minute of the arrivals.
func TestLimitsHoldInEveryWindow(t *testing.T) {
	const perSecond, perMinute = 10, 50_000
	rows := limitedRows(Limits{LimitRequestsPerSecond: perSecond, LimitTokensPerMinute: perMinute})
	random := rand.New(rand.NewPCG(1, 2))
	type arrival struct {
		at     time.Time
		tokens int64
	}
	var arrivals []arrival
	for now := noon; now.Before(noon.Add(10 * time.Minute)); now = now.Add(
		time.Duration(random.IntN(int(200 * time.Millisecond)))) {
		request := CapacityRequest{Tokens: 100 + random.Int64N(900)}
		if rows.ask(now, request)[0] == nil {
			delay := time.Duration(random.IntN(int(ArrivalSlack)))
			arrivals = append(arrivals, arrival{now.Add(delay), request.Tokens})
		}
		require.Less(t, len(rows["p"].Used.Recent), 200, "the row stays small")
	}
	var total int64
	for _, from := range arrivals {
		var second, minute int64
		for _, a := range arrivals {
			if d := a.at.Sub(from.at); d >= 0 && d < time.Second {
				second++
			}
			if d := a.at.Sub(from.at); d >= 0 && d < time.Minute {
				minute += a.tokens
			}
		}
		require.LessOrEqual(t, second, int64(perSecond))
		require.LessOrEqual(t, minute, int64(perMinute))
		total += from.tokens
	}
	assert.Greater(t, total, int64(8*perMinute), "most of the limit is used")
}

func TestARefusalSaysWhenToTryAgain(t *testing.T) {
	rows := limitedRows(Limits{LimitTokensPerMinute: 1000})
	require.Nil(t, rows.ask(noon, CapacityRequest{Tokens: 600})[0])
	refusal := rows.ask(noon.Add(20*time.Second), CapacityRequest{Tokens: 500})[0]
	require.NotNil(t, refusal)
	assert.Equal(t, 41*time.Second, refusal.Retry)
	assert.Equal(t, "waits for provider p: 600 of 1000 tokens this minute, about 41s", refusal.String())
	require.Nil(t, rows.ask(noon.Add(20*time.Second+refusal.Retry), CapacityRequest{Tokens: 500})[0])
}

func TestARequestOverTheLimitIsSentAlone(t *testing.T) {
	rows := limitedRows(Limits{LimitTokensPerMinute: 1000})
	require.Nil(t, rows.ask(noon, CapacityRequest{Tokens: 5000})[0])
	require.NotNil(t, rows.ask(noon, CapacityRequest{Tokens: 1})[0])
}

func TestScheduledTurnsLeaveAReserve(t *testing.T) {
	limits := Limits{LimitTokensPerMinute: 1000, LimitInFlight: 10, LimitReserve: 20}
	rows := limitedRows(limits)
	require.Nil(t, rows.ask(noon, CapacityRequest{Tokens: 800, Background: true})[0])
	require.NotNil(t, rows.ask(noon, CapacityRequest{Tokens: 100, Background: true})[0])
	require.Nil(t, rows.ask(noon, CapacityRequest{Tokens: 200})[0])
	delete(limits, LimitTokensPerMinute)
	granted := map[bool]int{}
	for _, background := range []bool{true, false} {
		for range 20 {
			if rows.ask(noon, CapacityRequest{Background: background})[0] == nil {
				granted[background]++
			}
			rows["p"].Used.Workers["w2"], rows["p"].Used.Workers["w"] = inFlight{int64(granted[true] + granted[false]),
				noon.Add(time.Hour).UnixNano()}, inFlight{}
		}
	}
	assert.Equal(t, map[bool]int{true: 8, false: 2}, granted)
}

func TestALaterRequestDoesNotOvertake(t *testing.T) {
	rows := limitedRows(Limits{LimitTokensPerMinute: 1000})
	got := rows.ask(noon, CapacityRequest{Tokens: 600}, CapacityRequest{Tokens: 600}, CapacityRequest{Tokens: 1})
	assert.Nil(t, got[0])
	assert.NotNil(t, got[1])
	assert.NotNil(t, got[2])
}

func TestRequestsSettleWithWhatTheyUsed(t *testing.T) {
	rows := limitedRows(Limits{LimitTokensPerMinute: 1000, LimitTokensPerDay: 2000})
	p := []string{"p"}
	require.Nil(t, rows.ask(noon, CapacityRequest{Tokens: 900})[0])
	ended := CapacityInput{Ended: []EndedRequest{{Scopes: p, At: noon, Reserved: 900, Used: 100}}}
	rows.Lease(ended, noon.Add(5*time.Second), true)
	assert.EqualValues(t, 900, rows["p"].State(noon.Add(5*time.Second)).Usage.TokensLastMinute,
		"nothing is given back twice")
	rows.Lease(ended, noon.Add(5*time.Second), false)
	is := rows["p"].State(noon.Add(5 * time.Second)).Usage
	assert.EqualValues(t, 100, is.TokensLastMinute)
	assert.EqualValues(t, 100, is.TokensToday)
	require.Nil(t, rows.ask(noon.Add(6*time.Second), CapacityRequest{Tokens: 900})[0])
	rows.Lease(CapacityInput{Ended: []EndedRequest{{Scopes: p, At: noon.Add(6 * time.Second), Reserved: 900, Used: 1500}}},
		noon.Add(10*time.Second), false)
	refusal := rows.ask(noon.Add(2*time.Minute), CapacityRequest{Tokens: 500})[0]
	require.NotNil(t, refusal)
	assert.True(t, refusal.Final, "1600 of 2000 are used today")
	assert.Equal(t, 12*time.Hour-2*time.Minute, refusal.Retry)
	assert.Nil(t, rows.ask(noon.Add(12*time.Hour), CapacityRequest{Tokens: 500})[0], "it is another day")
}

func TestManyGrantsOfOneMomentAreOneEntry(t *testing.T) {
	rows := limitedRows(Limits{LimitRequestsPerMinute: 1_000_000})
	for i := range 60_000 {
		require.Nil(t, rows.ask(noon.Add(time.Duration(i)*time.Millisecond), CapacityRequest{})[0], fmt.Sprint(i))
	}
	assert.Less(t, len(rows["p"].Used.Recent), 150)
	assert.InDelta(t, 60_000, rows["p"].usedWithin(spans[1], noon.Add(time.Minute)), 1)
}
