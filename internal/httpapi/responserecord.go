package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/everturn/everturn/client"
)

// responseRecord is what the server keeps of a response: the turn has all else.
type responseRecord struct {
	ID           string          `json:"id"`
	Created      int64           `json:"created_at"`
	Request      json.RawMessage `json:"request"` // as it was sent
	Conversation string          `json:"conversation,omitempty"`
	Principal    string          `json:"principal"`
	client.Exchange
	// Continues means that the response begins with the event Exchange.Seq of its turn: another response has the events
	// before. Otherwise it begins with its message.
	Continues bool `json:"continues,omitempty"`

	// whole is the conversation, if the client has sent all of it. It is set while the request is answered.
	whole *responseInput
}

// responsePrefix begins the IDs of responses, and responseName the names of their exchanges.
const (
	responsePrefix = "resp_"
	responseName   = "response:"
)

// putRecord records a response. If it is recorded already, because the request is sent again, that record stays, and
// rec becomes it.
func (c *call) putRecord(ctx context.Context, rec *responseRecord) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	known, err := c.Journal().Exchange(ctx, responseName+rec.ID)
	switch {
	case err == nil && known.Body != "" && known.Turn != "":
		stands, err := c.recordOf(ctx, rec.ID)
		*rec = stands
		return err
	case err != nil && !errors.Is(err, client.ErrNotFound):
		return err
	}
	e := rec.Exchange
	e.Name = responseName + rec.ID
	if e.Body, err = c.Journal().PutBlob(ctx, "application/json", b); err != nil {
		return err
	}
	_, err = c.Journal().PutExchange(ctx, e, false)
	return err
}

// recordOf returns the record of a response of the caller's principal.
func (c *call) recordOf(ctx context.Context, id string) (rec responseRecord, err error) {
	missing := &problem{status: http.StatusNotFound, kind: kindNotFound, code: "response_not_found",
		message: fmt.Sprintf("there is no response %.100q", id)}
	e, err := c.Journal().Exchange(ctx, responseName+id)
	if errors.Is(err, client.ErrNotFound) {
		return rec, missing
	}
	if err != nil {
		return rec, err
	}
	b, err := c.Journal().GetBlob(ctx, e.Body)
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	if err == nil && rec.Principal != c.token.Principal {
		err = missing
	}
	return rec, err
}
