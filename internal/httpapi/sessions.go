package httpapi

import (
	"context"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Bounds of lists.
const (
	usualList = 20
	maxList   = 1000
)

// limitOf returns the maximum length of a list.
func limitOf(asked int) (int, error) {
	switch {
	case asked == 0:
		return usualList, nil
	case asked < 0 || asked > maxList:
		return 0, invalid("limit", "limit is %d; it must be from 1 to %d", asked, maxList)
	}
	return asked, nil
}

// listed returns list, or an empty one instead of nil, which would be null in JSON.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

type listInput struct {
	Limit int `query:"limit" json:"-" jsonschema:"the maximum length of the list, at most 1000; 20 if it is not set"`
}

type sessionInput struct {
	Session string `path:"session" json:"-"`
}

type sessionList struct {
	Sessions []client.Session `json:"sessions"`
}

func (c *call) listSessions(ctx context.Context, in listInput) (out sessionList, err error) {
	limit, err := limitOf(in.Limit)
	if err != nil {
		return out, err
	}
	out.Sessions, err = c.Sessions(ctx, limit)
	return sessionList{listed(out.Sessions)}, err
}

// sessionState is a session with what it does.
type sessionState struct {
	client.Session
	Live client.LiveState `json:"live"`
}

func (c *call) getSession(ctx context.Context, in sessionInput) (out sessionState, err error) {
	j := c.Journal()
	if out.Session, err = j.Session(ctx, in.Session); err != nil {
		return out, err
	}
	if out.Usage, err = j.SessionUsage(ctx, in.Session); err != nil {
		return out, err
	}
	out.Live, err = client.ReadLive(ctx, j, out.Session)
	return out, err
}

func (c *call) getHistory(ctx context.Context, in sessionInput) (client.History, error) {
	return client.ReadHistory(ctx, c.Journal(), in.Session)
}

type messagesInput struct {
	sessionInput
	From int64 `query:"from" json:"-" jsonschema:"the number of the first message, from 1"`
	To   int64 `query:"to" json:"-" jsonschema:"the number of the last message; the last one of the session if it is not set"`
}

type messageList struct {
	From     int64          `json:"from" jsonschema:"the number of the first message in the list"`
	Messages []turn.Message `json:"messages" jsonschema:"at most 1000"`
}

func (c *call) listMessages(ctx context.Context, in messagesInput) (out messageList, err error) {
	s, err := c.Journal().Session(ctx, in.Session)
	if err != nil {
		return out, err
	}
	if in.From < 0 || in.To < 0 {
		return out, invalid("from", "messages are numbered from 1")
	}
	out.From = max(in.From, 1)
	to := s.Head.Seq
	if in.To > 0 {
		to = min(to, in.To)
	}
	to = min(to, out.From+maxList-1)
	if to >= out.From {
		out.Messages, err = c.Journal().Messages(ctx, in.Session, out.From, to)
	}
	out.Messages = listed(out.Messages)
	return out, err
}

type turnInput struct {
	sessionInput
	Turn string `path:"turn" json:"-"`
	Wait int    `query:"wait" json:"-" jsonschema:"how long to wait for the end of the turn, in seconds, at most 60"`
}

// maxWait bounds how long a request waits for the end of a turn, in seconds.
const maxWait = 60

func (c *call) getTurn(ctx context.Context, in turnInput) (client.Result, error) {
	if in.Wait < 0 || in.Wait > maxWait {
		return client.Result{}, invalid("wait", "wait is %d seconds; it must be from 0 to %d", in.Wait, maxWait)
	}
	t := client.Turn{Session: in.Session, ID: in.Turn}
	if in.Wait > 0 {
		within, cancel := context.WithTimeout(ctx, time.Duration(in.Wait)*time.Second)
		defer cancel()
		result, err := c.Wait(within, t)
		if within.Err() == nil {
			return result, err
		}
	}
	return c.Result(ctx, t)
}

// done is the output of a route that has nothing to say.
type done struct {
	Session string `json:"session,omitempty"`
}

func (c *call) stop(ctx context.Context, in sessionInput) (done, error) {
	return done(in), c.Stop(ctx, in.Session)
}

type forkInput struct {
	sessionInput
	At int64  `json:"at,omitempty" jsonschema:"the number of the last message to share, from 1; all messages if it is not set"`
	ID string `json:"id,omitempty" jsonschema:"the ID of the new session; a random one if it is not set"`
}

func (c *call) fork(ctx context.Context, in forkInput) (client.Session, error) {
	return c.Fork(ctx, client.ForkInput{Session: in.Session, At: in.At, ID: in.ID})
}

type compactInput struct {
	sessionInput
	Focus string `json:"focus,omitempty" jsonschema:"what the summary keeps above all, at most 1000 bytes"`
}

func (c *call) compact(ctx context.Context, in compactInput) (workflows.CompactResult, error) {
	return c.Compact(ctx, client.CompactInput{Session: in.Session, Focus: in.Focus})
}

func (c *call) export(ctx context.Context, in sessionInput) error {
	if _, err := c.Journal().Session(ctx, in.Session); err != nil {
		return err
	}
	return c.Journal().Export(ctx, in.Session, c.long("application/jsonl"))
}
