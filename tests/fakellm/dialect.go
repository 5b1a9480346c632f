package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// dialect is a wire API as the server speaks it.
type dialect struct {
	name string // of the API: chat, responses or messages
	// parse reads a request. It refuses one that the vendor would refuse.
	parse func(body []byte) (Chat, error)
	// events returns a reply's events, and the index of the event with the finish reason; -1 if there is none.
	events func(p *player) ([]string, int)
	// failure returns the event of an error in the stream.
	failure func(kind, message string) string
	whole   func(p *player) []byte
}

// dialects are those of the paths below /v1.
var dialects = map[string]dialect{
	"/chat/completions": {"chat", parseChat, (*player).chatEvents, chatFailure, (*player).chatWhole},
	"/responses":        {"responses", parseResponses, responsesEvents, responsesFailure, responsesWhole},
	"/messages":         {"messages", parseMessages, messagesEvents, messagesFailure, messagesWhole},
}

// named returns a server-sent event whose name is its type.
func named(kind string, fields map[string]any) string {
	fields["type"] = kind
	return fmt.Sprintf("event: %s\ndata: %s\n\n", kind, encode(fields))
}

// encode returns the JSON of maps, lists, strings and numbers, which always marshal.
func encode(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// refuse answers a request that the vendor would refuse, in a form that all dialects have.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(encode(map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error",
		"message": err.Error()}})) // the client may be gone
}

// halves splits arguments within no rune.
func halves(s string) [2]string {
	half := len(s) / 2
	for half > 0 && s[half]&0xC0 == 0x80 {
		half--
	}
	return [2]string{s[:half], s[half:]}
}

// modelName returns the model's name in the answer.
func (p *player) modelName() string {
	if p.reply.model != "" {
		return p.reply.model
	}
	return p.entry.Chat.Model
}
