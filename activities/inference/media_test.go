package inference_test

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

var (
	picture = turn.Media{Hash: "h1", Type: "image/png", Bytes: 34_000, Data: []byte("the picture")}
	sound   = turn.Media{Hash: "h2", Type: "audio/wav", Bytes: 2_100_000, Data: []byte("the sound")}
	drawing = turn.Media{Hash: "h3", Type: "image/svg+xml", Bytes: 10, Data: []byte("<svg/>")}
)

// showing is a transcript in which two calls of one completion returned media, followed by an answer of the model.
func showing(model string, media ...turn.Media) turn.Prompt {
	return turn.Prompt{Model: model, Messages: []turn.Message{
		{Role: turn.RoleUser, Text: "look"},
		{Role: turn.RoleAssistant, ToolCalls: []turn.ToolCall{{ID: "1.0", Tool: "mcp/a/b", Arguments: "{}"},
			{ID: "1.1", Tool: "mcp/a/b", Arguments: "{}"}}},
		{Role: turn.RoleTool, CallID: "1.0", Outcome: turn.OutcomeOK, Text: "[image/png]", Media: media},
		{Role: turn.RoleTool, CallID: "1.1", Outcome: turn.OutcomeOK, Text: "nothing"},
		{Role: turn.RoleAssistant, Text: "I see."},
	}}
}

func roles(messages []fakellm.Message) (out []string) {
	for _, m := range messages {
		out = append(out, m.Role)
	}
	return out
}

func base(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func TestAModelThatSeesIsShownPicturesAfterTheResults(t *testing.T) {
	m := sent(t, showing("gpt-4o-mini", picture, sound, drawing))[0].Chat.Messages
	require.Equal(t, []string{"user", "assistant", "tool", "tool", "user", "assistant"}, roles(m),
		"nothing stands between the results of one answer")
	assert.Equal(t, []string{"data:image/png;base64," + base(picture.Data)}, m[4].Media)
	assert.Contains(t, m[4].Content, "the result of call 1.0: image/png")
	assert.Contains(t, m[4].Content, "not from the user")
	assert.Equal(t, "[image/png]\n[audio/wav, 2.1 MB, kept as artifact h2; you cannot see it]\n[image/svg+xml, 10 "+
		"bytes, kept as artifact h3; you cannot see it]", m[2].Content)
}

func TestAModelThatHearsIsSentSound(t *testing.T) {
	r := sent(t, showing("gemini-2.5-flash", sound, picture), showing("gpt-audio", sound))
	m := r[0].Chat.Messages
	assert.Equal(t, []string{base(sound.Data), "data:image/png;base64," + base(picture.Data)}, m[4].Media)
	assert.Contains(t, string(r[1].Body), `{"type":"input_audio","input_audio":{"data":"`+base(sound.Data)+
		`","format":"wav"}}`)
}

func TestAModelThatReadsOnlyIsToldWhatItMisses(t *testing.T) {
	unloaded := picture
	unloaded.Data = nil
	for model, p := range map[string]turn.Prompt{
		"o1-mini": showing("o1-mini", picture), "somebody/own-model": showing("somebody/own-model", picture),
		"gpt-4o": showing("gpt-4o", unloaded),
	} {
		m := sent(t, p)[0].Chat.Messages
		assert.Equal(t, []string{"user", "assistant", "tool", "tool", "assistant"}, roles(m), model)
		assert.Equal(t, "[image/png]\n[image/png, 34 KB, kept as artifact h1; you cannot see it]", m[2].Content, model)
	}
	named := showing("m", picture)
	named.Messages[2].Text = "[image/png is the artifact h1]"
	assert.Equal(t, "[image/png is the artifact h1]", sent(t, named)[0].Chat.Messages[2].Content, "it is not said twice")
}

func TestWhatTheOperatorSaysOfAModelCounts(t *testing.T) {
	s := fakellm.Start(t, fakellm.Text("ok"))
	for model, sees := range map[string]bool{"openai/gpt-4o": true, "claude-sonnet-4-5": true, "claude-2.1": false,
		"o3-mini": false, "o3": true, "": false} {
		assert.Equal(t, sees, chatOf(t, s.URL()).Takes(turn.Prompt{Model: model}, "image/png"), model)
	}
	described := chatOf(t, s.URL(), func(o *inference.Options) {
		o.Capabilities = func(string) []models.Capability { return []models.Capability{models.Vision} }
	})
	assert.True(t, described.Takes(turn.Prompt{Model: "own-model"}, "image/png"), "as [[models]] or the list says")
	assert.False(t, described.Takes(turn.Prompt{Model: "own-model"}, "audio/wav"))
	assert.False(t, described.Takes(turn.Prompt{Model: "own-model"}, "image/svg+xml"), "a picture that may hold scripts")
}

func TestPicturesKeepThePrefixOfThePrompt(t *testing.T) {
	for _, model := range []string{"gpt-4o", "gemini-2.5-flash"} { // the second accepts the sound too
		whole := showing(model, picture, sound)
		for _, n := range []int{1, 4, 5} { // after the question, after the results, after the answer
			short := whole
			short.Messages = whole.Messages[:n]
			r := sent(t, short, whole, whole)
			assert.True(t, bytes.HasPrefix(r[1].Body, upToMessages(t, r[0].Body)), "%s, %d messages", model, n)
			assert.Equal(t, r[1].Body, r[2].Body)
			assert.Equal(t, 1, bytes.Count(r[1].Body, []byte(`"messages":`)))
		}
	}
}

// TestAnEndpointThatRefusesPicturesIsAskedWithoutThem checks that a request is repeated without images if the endpoint
// refuses them, so that the turn can continue.
func TestAnEndpointThatRefusesPicturesIsAskedWithoutThem(t *testing.T) {
	for _, message := range []string{
		"Invalid content type. image_url is only supported by certain models; this one does not support it.",
		"Could not process image: it is too large",
		"image format bmp is not supported",
	} {
		s := fakellm.Start(t, fakellm.Func(func(r fakellm.Request) fakellm.Reply {
			if bytes.Contains(r.Body, []byte("image_url")) {
				return fakellm.Status(400, "invalid_request_error", message)
			}
			return fakellm.Text("ok")
		}))
		c := chatOf(t, s.URL())
		for range 2 {
			_, err := c.Infer(t.Context(), showing("gpt-4o", picture), newRecorder())
			require.NoError(t, err)
		}
		assert.Len(t, s.Requests(), 4, "a refusal concerns one request: %s", message)
	}
	replies := make(chan fakellm.Reply, 4)
	replies <- fakellm.Status(400, "x", "Could not process image")
	replies <- fakellm.Status(400, "x", "Unknown parameter: stream_options")
	replies <- fakellm.Text("ok")
	replies <- fakellm.Text("ok")
	s := fakellm.Start(t, fakellm.Func(func(fakellm.Request) fakellm.Reply { return <-replies }))
	c := chatOf(t, s.URL())
	for range 2 {
		_, err := c.Infer(t.Context(), showing("gpt-4o", picture), newRecorder())
		require.NoError(t, err)
	}
	var shown []bool
	for _, r := range s.Requests() {
		shown = append(shown, bytes.Contains(r.Body, []byte("image_url")))
	}
	assert.Equal(t, []bool{true, false, false, true}, shown, "a later refusal does not make the model one without images")
	s = fakellm.Start(t, fakellm.Status(400, "x", "no image for you"))
	_, err := chatOf(t, s.URL()).Infer(t.Context(), showing("gpt-4o", picture), newRecorder())
	refusal(t, err, turn.CodeLLMRejected)
	assert.Len(t, s.Requests(), 2)
}
