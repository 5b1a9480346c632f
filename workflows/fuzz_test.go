package workflows

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// FuzzInput checks that any JSON decodes, because a run that cannot decode its input would hang. The input is then
// either refused with an error that names one of our limits, or it belongs to this session, has valid limits, and stays
// the same when it is encoded again. Unknown keys are refused.
func FuzzInput(f *testing.F) {
	for _, s := range []string{
		`{"message":{"text":"hi"}}`,
		`{"v":1,"session":"mine","message":{"id":"m","text":"hi","blob":"b"},"agent":"a","limits":{"max_steps":3,"turn_timeout":"60s"}}`,
		`{"v":99}`, `{"session":"other"}`, `{"limits":{"tool_timeout":"-1s"}}`, `{"limits":{"max_cost_usd":-1e-300}}`,
		`{"limits":{"max_steps":1e3}}`, `{"limits":{"max_tokens":9223372036854775807}}`,
		`{"limits":{"turn_timeout":"9223372036854775807ns"}}`, `{"continued":{"counters":{"step":3},"something_new":1}}`,
		`{"continued":null,"x":1}`, `{"mesage":1}`,
		`[]`, `null`, `"x"`, `{"message":null}`, `{"message":{"text":" \n"}}`,
		`{"message":{"id":"` + strings.Repeat("i", 201) + `"}}`, `{"session":"\u202emine"}`, "{\"session\":\"\xff\"}",
		`{"` + strings.Repeat("k", 5000) + `":1}`,
	} {
		f.Add([]byte(s), "mine")
	}
	f.Add([]byte(`{}`), "\x00")
	f.Add([]byte(`{"session":" a"}`), " a")
	f.Add([]byte(`{}`), strings.Repeat("ü", 101))
	f.Fuzz(func(t *testing.T, b []byte, id string) {
		if !json.Valid(b) {
			return // the converter refuses it before Input decodes it
		}
		var in Input
		require.NoError(t, json.Unmarshal(b, &in), "decoding never fails")
		if err := in.check(id); err != nil {
			requireRefusal(t, err)
			return
		}
		if err := in.checkBounds(&workflow.Info{}); err != nil {
			requireRefusal(t, err)
			return
		}
		require.True(t, in.Session == "" || in.Session == id)
		require.True(t, id != "" && len(id) <= 200 && utf8.ValidString(id) && strings.TrimSpace(id) == id &&
			!strings.ContainsAny(id, "\x00\n\r\x1b\u202e"))
		l, err := in.Limits.Apply(turn.DefaultLimits())
		require.NoError(t, err)
		require.NoError(t, l.Validate())
		require.Positive(t, min(l.MaxSteps, int(l.TurnTimeout), int(l.ToolTimeout)))
		if in.Message != nil {
			if err := checkMessage(*in.Message); err != nil {
				requireRefusal(t, err)
			} else {
				require.LessOrEqual(t, len(in.Message.ID), 200)
				require.NotEmpty(t, strings.TrimSpace(in.Message.Text)+in.Message.Blob)
			}
		}
		requireStable(t, in, id)
	})
}

func requireRefusal(t *testing.T, err *turn.Error) {
	t.Helper()
	require.Equal(t, turn.CodeInputInvalid, err.Code)
	require.NotEmpty(t, err.Message)
	require.LessOrEqual(t, len(err.Message), 1000, "a refusal travels through the history")
	require.True(t, utf8.ValidString(err.Message))
}

// requireStable checks that the input stays the same when it is encoded again, and is refused with an additional key.
func requireStable(t *testing.T, in Input, id string) {
	t.Helper()
	b, err := json.Marshal(in)
	require.NoError(t, err)
	var again Input
	require.NoError(t, json.Unmarshal(b, &again))
	second, err := json.Marshal(again)
	require.NoError(t, err)
	require.Equal(t, string(b), string(second))
	require.Nil(t, again.check(id))
	if in.Continued == nil {
		more := `{"more":1` + strings.Replace(","+string(b[1:]), ",}", "}", 1)
		var refused Input
		require.NoError(t, json.Unmarshal([]byte(more), &refused))
		require.NotNil(t, refused.check(id))
	}
}
