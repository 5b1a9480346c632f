package journaltest

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Workers use their own clocks, and operators set clocks. The times in the journal are only shown to users: sequence
// numbers and heads decide order, lateness and completeness.
var clockPromises = []promise{
	{"clocks that go back change no order", clocksGoBack},
	{"an older attempt with a later clock is stale", futureWorker},
	{"a session with skewed clocks is exported and imported", skewedExport},
}

// skew sets the offset of the clock that the script's next call uses.
func (s *script) skew(d time.Duration) *script {
	s.at = start.Add(d)
	return s
}

const day = 24 * time.Hour

// skewed is a turn whose steps are each written by a worker with a different clock.
func skewed(t *testing.T, j *journal.DB) *script {
	t.Helper()
	s := newScript(t, j, "t1")
	list := calls(1, 2)
	s.skew(365*day).infer(1, "look", list...)
	s.skew(-day).run(list[0], "first")
	require.Equal(t, journal.ClaimGranted, s.skew(3*day).claim(list[1], 1).Claim)
	s.skew(-2*day).settleCall(list[1], 1, turn.OutcomeOK, "second")
	s.skew(-3*day).start(2, resultsOf(list...)...)
	require.NoError(t, s.skew(day).append(2, 1, "the "))
	require.NoError(t, s.skew(-day).append(2, 1, "answer"))
	out := must(s.SettleInference(t.Context(), s.skew(-30*365*day).settleInput(2, 1, "the answer")))(t)
	s.head = out.Head
	s.finish()
	return s
}

func clocksGoBack(t *testing.T, open func() *journal.DB) {
	s := skewed(t, open())
	var reader turn.Reader
	for _, e := range s.events() {
		reader.Add(e)
	}
	assert.Equal(t, "the answer", reader.Text())
	var roles []turn.Role
	for _, m := range s.transcript() {
		roles = append(roles, m.Role)
	}
	assert.Equal(t, []turn.Role{turn.RoleUser, turn.RoleAssistant, turn.RoleTool, turn.RoleTool, turn.RoleAssistant},
		roles)
	s.turn = "t2"
	s.skew(-100 * 365 * day).begin()
	turns := must(s.Turns(t.Context(), s.session))(t)
	require.Len(t, turns, 2)
	assert.Equal(t, []string{"t1", "t2"}, []string{turns[0].ID, turns[1].ID}, "in the order in which they began")
}

func futureWorker(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.skew(365 * day).start(1)
	s.skew(-day).start(1)
	s.skew(366 * day).unchanged(func() {
		_, err := s.SettleInference(t.Context(), s.settleInput(1, 1, "from the future"))
		assert.ErrorIs(t, err, journal.ErrStale)
	})
	_ = must(s.SettleInference(t.Context(), s.skew(-2*day).settleInput(1, 2, "now")))(t)
}

func skewedExport(t *testing.T, open func() *journal.DB) {
	s := skewed(t, open())
	s.finish()
	b := export(t, s.DB)
	other := *s
	other.DB = open()
	_ = must(other.Import(t.Context(), bytes.NewReader(b)))(t)
	assert.Equal(t, s.state(), other.state())
}
