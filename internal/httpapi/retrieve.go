package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
)

type responseID struct {
	open
	ID string `path:"response" json:"-"`
}

type retrieveInput struct {
	open
	ID     string `path:"response" json:"-"`
	Stream bool   `query:"stream" json:"-" jsonschema:"stream the response from its beginning, also one that has ended"`
	After  *int64 `query:"starting_after" json:"-" jsonschema:"only the events after this sequence number"`
}

func (c *call) getResponse(ctx context.Context, in retrieveInput) error {
	rec, err := c.recordOf(ctx, in.ID)
	if err != nil {
		return err
	}
	v, err := newResponseView(c, rec)
	if err != nil {
		return err
	}
	if in.Stream {
		after := int64(-1)
		if in.After != nil {
			after = *in.After
		}
		return v.serve(ctx, after)
	}
	if err := v.read(ctx, false); err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, v.final())
}

// cancelWithin is how long a cancelled response is waited for; its turn ends in any case.
const cancelWithin = 10 * time.Second

func (c *call) cancelResponse(ctx context.Context, in responseID) error {
	rec, err := c.recordOf(ctx, in.ID)
	if err != nil {
		return err
	}
	v, err := newResponseView(c, rec)
	if err != nil {
		return err
	}
	if err := v.read(ctx, false); err != nil {
		return err
	}
	if v.running() {
		if err := c.Stop(ctx, rec.Session); err != nil && !errors.Is(err, client.ErrNotRunning) {
			return err
		}
		within, cancel := context.WithTimeout(ctx, cancelWithin)
		defer cancel()
		if v, err = newResponseView(c, rec); err == nil {
			err = v.read(within, true)
		}
		if err != nil && within.Err() == nil {
			return err
		}
	}
	return writeJSON(c.w, http.StatusOK, v.final())
}

type deletedResponse struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// deleteResponse deletes the record of a response. The session keeps its messages.
func (c *call) deleteResponse(ctx context.Context, in responseID) (deletedResponse, error) {
	if _, err := c.recordOf(ctx, in.ID); err != nil {
		return deletedResponse{}, err
	}
	return deletedResponse{in.ID, "response.deleted", true}, c.Journal().DeleteExchange(ctx, responseName+in.ID)
}

type inputItems struct {
	Object  string   `json:"object"`
	Data    []object `json:"data"`
	FirstID string   `json:"first_id"`
	LastID  string   `json:"last_id"`
	HasMore bool     `json:"has_more"`
}

func (c *call) listInputItems(ctx context.Context, in responseID) (out inputItems, err error) {
	rec, err := c.recordOf(ctx, in.ID)
	if err != nil {
		return out, err
	}
	var request struct {
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(rec.Request, &request); err != nil {
		return out, err
	}
	out = inputItems{Object: "list", Data: []object{}}
	var text string
	if json.Unmarshal(request.Input, &text) == nil {
		out.Data = []object{{"type": "message", "role": "user", "status": "completed",
			"content": []object{{"type": "input_text", "text": text}}}}
	} else if err := json.Unmarshal(request.Input, &out.Data); err != nil {
		return out, err
	}
	for i, item := range out.Data {
		item["id"] = cmp.Or(fmt.Sprint(item["id"]), "")
		if item["id"] == "<nil>" {
			item["id"] = fmt.Sprintf("in_%s_%d", strings.TrimPrefix(rec.ID, responsePrefix), i)
		}
	}
	slices.Reverse(out.Data) // the newest first, as OpenAI lists them
	if n := len(out.Data); n > 0 {
		out.FirstID, out.LastID = fmt.Sprint(out.Data[0]["id"]), fmt.Sprint(out.Data[n-1]["id"])
	}
	return out, nil
}

// conversationObject is a conversation, whose ID is that of its session.
type conversationObject struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Created  int64             `json:"created_at"`
	Metadata map[string]string `json:"metadata"`
}

type newConversation struct {
	open
	Metadata map[string]string `json:"metadata,omitempty"`
}

// createConversation returns the ID for a new session, which begins with its first response.
func (c *call) createConversation(_ context.Context, in newConversation) (conversationObject, error) {
	id := "conv_" + strings.TrimPrefix(client.NewSessionID(), "s-")
	return conversationObject{id, "conversation", time.Now().Unix(), in.Metadata}, nil
}
