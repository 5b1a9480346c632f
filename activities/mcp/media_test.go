package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

func TestPicturesAreKeptWithTheTypeThatTheyHave(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioActor(t, "act"))
	size := int64(len(pngImage()))
	for _, declared := range []string{"image/png", "image/jpeg", "text/html", "", "no type\u0007"} {
		raw, err := json.Marshal(declared)
		require.NoError(t, err)
		r := call(t, h, "mcp/act/pictures", `{"N":1,"Type":`+string(raw)+`}`)
		require.Len(t, r.Media, 1, declared)
		assert.Equal(t, turn.Media{Type: "image/png", Bytes: size, Data: pngImage()}, r.Media[0], "declared as %q", declared)
		assert.Equal(t, fmt.Sprintf("[image/png, %d bytes]", size), r.Text)
		assert.Nil(t, r.Full, "it is not kept twice")
		assert.Equal(t, size+int64(len(r.Text)), r.SizeBytes)
	}
	r := call(t, h, "mcp/act/pictures", `{"N":2,"Type":"image/png","Text":"Two dots:"}`)
	assert.Len(t, r.Media, 2)
	assert.True(t, strings.HasPrefix(r.Text, "Two dots:\n[image/png"))
}

func TestMediaAreBounded(t *testing.T) {
	h := newHost(t, mcp.Options{MaxFrameBytes: 64 << 20}, stdioActor(t, "act"))
	r := call(t, h, "mcp/act/pictures", `{"N":10,"Type":"image/png"}`)
	assert.Len(t, r.Media, 8)
	assert.Equal(t, 10, strings.Count(r.Text, "[image/png"), "all are named")
	require.Equal(t, "application/json", r.MediaType)
	var kept []struct{ Data []byte }
	require.NoError(t, json.Unmarshal(r.Full, &kept))
	assert.Len(t, kept, 2, "and what is over the bound is kept as any other data")

	req := request(t, h, "mcp/act/pictures", `{"N":1,"Type":"image/png","Big":true}`)
	req.Timeout = 2 * time.Minute // the race detector makes eleven megabytes of text slow
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Empty(t, r.Media)
	assert.Equal(t, "image/png", r.MediaType)
	assert.Greater(t, len(r.Full), 8<<20)
}

func TestAStructuredResultIsNotSentTwice(t *testing.T) {
	h := newHost(t, mcp.Options{}, stdioActor(t, "act"))
	r := call(t, h, "mcp/act/count", `{"n":3}`)
	assert.Equal(t, "counted\n{\"n\":3}", r.Text)
	r = call(t, h, "mcp/act/count", `{"n":"<three>"}`)
	assert.Contains(t, r.Text, `{"n":"<three>"}`, "it is kept as it is")
	r = call(t, h, "mcp/act/count", `{"n":"counted"}`)
	assert.NotContains(t, r.Text, `{"n":"counted"}`, "an object around a text that is there already is not sent beside it")
}

func TestSecretsThatAServerWasGivenAreNotInItsResults(t *testing.T) {
	s := stdioActor(t, "act")
	s.Env["DB_PASSWORD"], s.Env["FOLDER"] = `pa"ss<canary>word`, "/srv/some/folder"
	h := newHost(t, mcp.Options{}, s)
	say := func(text, variable string) string {
		raw, err := json.Marshal(map[string]string{"text": text, "variable": variable})
		require.NoError(t, err)
		return call(t, h, "mcp/act/say", string(raw)).Text
	}
	assert.Equal(t, "it is [redacted]", say("it is ", "DB_PASSWORD"))
	assert.Equal(t, `{"p":"[redacted]"}`, say(`{"p":"pa\"ss<canary>word"}`, "NONE"), "within JSON")
	assert.Equal(t, `{"p":"[redacted]"}`, say(`{"p":"pa\"ss\u003ccanary\u003eword"}`, "NONE"), "however it is written")
	assert.Equal(t, "[redacted]", say("pa\"ss<can\x1b[31mary>word", "NONE"), "with what nobody sees in it")
	assert.Equal(t, "x=[redacted]", say("x=pa%22ss%3Ccanary%3Eword", "NONE"))
	assert.Equal(t, "/srv/some/folder", say("", "FOLDER"), "a folder is no secret")
}
