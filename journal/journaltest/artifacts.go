package journaltest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var artifactPromises = []promise{
	{"media are kept and named in the transcript", mediaKept},
	{"media over the bounds are left out, and the text says so", mediaBounded},
	{"a message without media has the hash that it always had", oldHash},
	{"an artifact is for the session that has it, and for its forks", artifacts},
}

func (s *script) settleMedia(c turn.ToolCall, r turn.ToolResult) journal.CallRecord {
	s.Helper()
	out, err := s.SettleCall(s.Context(), s.turn, c.ID, 1, r, s.now())
	require.NoError(s, err)
	return out
}

// named returns a medium as the transcript has it.
func named(m turn.Media) turn.Media {
	return turn.Media{Hash: journal.HashOf(m.Data), Type: m.Type, Bytes: int64(len(m.Data))}
}

func mediaKept(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 2)
	s.claim(list[0], 1)
	sound := turn.Media{Hash: "a lie", Type: "audio/wav", Bytes: 1, Data: bytes.Repeat([]byte{1, 2}, 50_000)}
	in := turn.ToolResult{Outcome: turn.OutcomeOK, Text: "look and listen", Media: []turn.Media{picture, sound}}
	rec := s.settleMedia(list[0], in)
	want := []turn.Media{named(picture), named(sound)}
	assert.Equal(t, want, rec.Media)
	s.unchanged(func() { assert.Equal(t, rec, s.settleMedia(list[0], in)) })
	assert.Equal(t, journal.ClaimSettled, s.claim(list[0], 2).Claim)
	s.run(list[1], "words alone")
	s.start(2, resultsOf(list...)...)
	messages := s.transcript()
	assert.Equal(t, want, messages[2].Media)
	assert.Nil(t, messages[3].Media)
	for _, m := range []turn.Media{picture, sound} {
		mediaType, b, err := s.Artifact(t.Context(), "t1", journal.HashOf(m.Data))
		require.NoError(t, err)
		assert.Equal(t, m.Type, mediaType)
		assert.Equal(t, m.Data, b)
	}
	in.Media = in.Media[:1]
	assert.True(t, s.settleMedia(list[0], in).Late, "another picture is another result")
}

func mediaBounded(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	media := []turn.Media{{Type: "image/png"}, {Type: "image/png", Data: make([]byte, journal.MaxMediaBytes+1)}}
	for i := range journal.MaxMedia + 1 {
		media = append(media, turn.Media{Type: strings.Repeat("\xff", 200), Data: []byte{byte(i)}})
	}
	rec := s.settleMedia(list[0], turn.ToolResult{Outcome: turn.OutcomeOK, Text: "many", Media: media})
	require.Len(t, rec.Media, journal.MaxMedia)
	assert.LessOrEqual(t, len(rec.Media[0].Type), 100)
	assert.Equal(t, journal.HashOf([]byte{0}), rec.Media[0].Hash)
	assert.Contains(t, rec.Text, "many\n(3 of the result's 11 images")
	assert.Equal(t, rec.Text, s.transcriptAfter(2, list)[2].Text)
}

// transcriptAfter returns the transcript once the step has begun with the results of these calls.
func (s *script) transcriptAfter(step int, list []turn.ToolCall) []turn.Message {
	s.Helper()
	s.start(step, resultsOf(list...)...)
	return s.transcript()
}

func oldHash(t *testing.T, _ func() *journal.DB) {
	m := turn.Message{Role: turn.RoleTool, Text: "content", CallID: "1.0", Outcome: turn.OutcomeOK, TurnID: "t1", Step: 1}
	assert.Equal(t, `{"role":"tool","text":"content","call_id":"1.0","outcome":"ok","turn_id":"t1","step":1}`,
		string(journal.Canonical(m)))
	m.Media = []turn.Media{{Hash: "h", Type: "image/png", Bytes: 3, Data: []byte("abc")}}
	assert.Contains(t, string(journal.Canonical(m)), `"media":[{"hash":"h","type":"image/png","bytes":3}]`)
	var back turn.Message
	require.NoError(t, json.Unmarshal(journal.Canonical(m), &back))
	assert.Equal(t, journal.Next(turn.Head{}, back), journal.Next(turn.Head{}, m))
}

func artifacts(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	blob, err := s.PutBlob(t.Context(), "text/plain", []byte("of no call"))
	require.NoError(t, err)
	full := []byte(bigText(5000, "whole"))
	_, err = s.PutBlob(t.Context(), "application/x-other", full) // the same bytes, with another media type
	require.NoError(t, err)
	s.claim(list[0], 1)
	rec := s.settleMedia(list[0], turn.ToolResult{Outcome: turn.OutcomeOK, Text: "cut", Full: full,
		MediaType: "text/html"})
	s.start(2, resultsOf(list...)...)
	f := s.fork(3, "f")
	s.settleMedia(list[0], turn.ToolResult{Outcome: turn.OutcomeOK, Text: "again", Full: []byte("what came late"),
		MediaType: "text/plain"})
	second := calls(2, 1)
	out, err := s.SettleInference(t.Context(), s.settleInput(2, 1, "more", second...))
	require.NoError(t, err)
	s.head = out.Head
	s.claim(second[0], 1)
	s.settleMedia(second[0], turn.ToolResult{Outcome: turn.OutcomeOK, Text: "see", Media: []turn.Media{picture}})
	s.settleMedia(second[0], turn.ToolResult{Outcome: turn.OutcomeOK, Text: "late", Full: []byte("the whole, late"),
		MediaType: "text/plain"})
	newScript(t, s.DB, "t9").finish()
	other := &script{T: t, DB: s.DB, session: "other", turn: "t-other", at: s.at}
	other.begin()

	has := func(session, hash string) bool {
		t.Helper()
		mediaType, b, err := s.Artifact(t.Context(), s.turnOf(session), hash)
		if err != nil {
			assert.ErrorIs(t, err, journal.ErrNotFound)
			return false
		}
		assert.NotEqual(t, "application/x-other", mediaType, "as the call has left it")
		assert.Equal(t, hash, journal.HashOf(b))
		return true
	}
	assert.True(t, has("s", rec.FullBlob))
	assert.True(t, has("s", journal.HashOf(picture.Data)))
	assert.True(t, has("s", journal.HashOf([]byte("the whole, late"))))
	assert.True(t, has("f", rec.FullBlob), "the fork has the message that speaks of it")
	assert.True(t, has("s", journal.HashOf([]byte("what came late"))))
	assert.False(t, has(f.session, journal.HashOf([]byte("what came late"))), "and so did that")
	assert.False(t, has(f.session, journal.HashOf(picture.Data)), "that came after the fork")
	assert.False(t, has("other", rec.FullBlob))
	assert.False(t, has("s", blob), "no call has left it")
	assert.False(t, has("s", ""))
}
