package workflows

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

func TestInputRefusesWhatItDoesNotKnow(t *testing.T) {
	for text, want := range map[string]string{
		`{"mesage":{"text":"hi"}}`:                                 `unknown field "mesage"`,
		`{"message":{"txt":"hi"}}`:                                 `unknown field "txt"`,
		`{"message":{"text":"hi"},"limits":{"max_stps":1}}`:        `unknown field "max_stps"`,
		`{"message":"hi"}`:                                         "cannot be read",
		`{"v":99,"message":{"text":"hi"}}`:                         "of version 99",
		`{"session":"other","message":{"text":"hi"}}`:              "must agree",
		`{"message":{"text":"hi"},"limits":{"turn_timeout":"60"}}`: "turn_timeout",
		`{"message":{"text":"hi"},"limits":{"max_steps":0}}`:       "max_steps is 0",
	} {
		var in Input
		require.NoError(t, json.Unmarshal([]byte(text), &in),
			"decoding never fails: a run that cannot decode its input would hang")
		err := in.check("mine")
		if assert.NotNil(t, err, text) {
			assert.Contains(t, err.Message, want, text)
			assert.Equal(t, turn.CodeInputInvalid, err.Code)
		}
	}
	var in Input
	require.NoError(t, json.Unmarshal([]byte(
		`{"session":"mine","message":{"id":"m","text":"hi"},"agent":"a","limits":{"max_steps":3,"turn_timeout":"60s"}}`),
		&in))
	assert.Nil(t, in.check("mine"))
	l, err := in.Limits.Apply(turn.DefaultLimits())
	require.NoError(t, err)
	assert.Equal(t, 3, l.MaxSteps)
	assert.Equal(t, time.Minute, l.TurnTimeout)
}

func TestAContinuedRunOfANewerWorkerIsRead(t *testing.T) {
	var in Input
	require.NoError(t, json.Unmarshal([]byte(`{"continued":{"counters":{"step":3},"something_new":1}}`), &in))
	assert.Nil(t, in.check("mine"))
	assert.Equal(t, 3, in.Continued.Counters.Step)
}

func TestSessionIDs(t *testing.T) {
	for _, id := range []string{"a", "ünï cödé/with: signs", strings.Repeat("x", 200)} {
		assert.NoError(t, turn.CheckSession(id))
	}
	for _, id := range []string{"", " a", "a\n", "a\x00b", "a\u202eb", "\xff", "--config=evil.toml",
		strings.Repeat("x", 201)} {
		assert.Error(t, turn.CheckSession(id), "%q", id)
	}
}
