package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/internal/items"
	"github.com/everturn/everturn/workflows/turn"
)

// The states of a response.
const (
	statusQueued     = "queued"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusFailed     = "failed"
	statusIncomplete = "incomplete"
	statusCancelled  = "cancelled"
)

// responseView shows a part of a turn as a response: from the event with which the record says that it begins, to the
// turn's end or to the requests for which it waits. It is a function of the record and of the turn's events: a stream
// that is read again, whenever, has the same events.
type responseView struct {
	*call
	rec     responseRecord
	request map[string]any // as it was sent
	functions

	send   func(event object) error // nil: nothing is sent
	seq    int64                    // of the next event
	fold   items.Fold
	turn   string // the ID of the turn
	next   int64  // the index of the event after the last one that the response has
	output []*outputItem
	parts  map[*items.Item]*outputItem
	asked  map[string]turn.Request // approvals, by the IDs of their items
	handed handouts
	status string
	done   turn.DoneEvent
	ended  int64 // when the response has ended, in seconds
}

// outputItem is an item of the output.
type outputItem struct {
	fields    object
	index     int
	done      bool
	withdrawn bool
}

func newResponseView(c *call, rec responseRecord) (*responseView, error) {
	v := &responseView{call: c, rec: rec, parts: map[*items.Item]*outputItem{}, asked: map[string]turn.Request{},
		handed: handouts{},
		status: statusQueued, turn: rec.Turn}
	var in struct {
		Tools functions `json:"tools"`
	}
	err := errors.Join(json.Unmarshal(rec.Request, &v.request), json.Unmarshal(rec.Request, &in))
	v.functions = in.Tools
	return v, err
}

// serve streams the response, from the event after a sequence number on.
func (v *responseView) serve(ctx context.Context, after int64) error {
	end, err := v.openStream()
	if err != nil {
		return err
	}
	defer end()
	s := v.stream(ctx)
	defer s.close()
	v.send = func(event object) error {
		if n, _ := event["sequence_number"].(int64); n <= after {
			return nil
		}
		b, err := json.Marshal(event)
		if err != nil {
			return fmt.Errorf("encoding an event: %w", err)
		}
		s.ping.Reset(pingEvery)
		return s.send(fmt.Sprintf("event: %s\ndata: %s\n\n", event["type"], b))
	}
	if err := v.read(ctx, true); err != nil {
		return s.fail(err)
	}
	return s.fail(s.send("data: [DONE]\n\n"))
}

// read reads the turn: to the end of the response if follow is set, or else what there is of it.
func (v *responseView) read(ctx context.Context, follow bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.server.stopping, cancel)()
	for _, kind := range []string{"response.created", "response.in_progress"} {
		if err := v.emit(kind, object{"response": v.response(statusInProgress)}); err != nil {
			return err
		}
	}
	events, err := v.events(ctx, follow)
	if err != nil {
		return err
	}
	var asked *turn.Event // the first request that the turn waits for
	for e, err := range events {
		if err != nil {
			return err
		}
		if asked != nil && !(isAsked(e.Kind) && e.At.Equal(asked.At)) {
			return v.finish(statusCompleted, asked) // it was decided since
		}
		v.status, v.turn, v.next = statusInProgress, e.Turn, e.Index+1
		for _, c := range v.fold.Add(e) {
			v.handed.add(c)
			if err := v.change(ctx, c); err != nil {
				return err
			}
		}
		switch {
		case e.Kind == turn.EventTurnCompleted:
			return v.finish(v.outcome(), &e)
		case asked == nil && isAsked(e.Kind) && v.fold.Waiting():
			all, err := v.handed.complete(ctx, v.Journal(), e.Turn, e.Step)
			if err != nil {
				return err
			}
			if all {
				asked = &e
			}
		}
		if asked == nil {
			continue
		}
		// Requests that are made together are recorded together: if there is no other event yet, these are all.
		if last, err := v.Journal().LastEvent(ctx, e.Turn); err != nil || last.Index == e.Index {
			return errors.Join(err, v.finish(statusCompleted, asked))
		}
	}
	if follow && v.status != statusCompleted {
		return v.finishWithout(ctx)
	}
	return nil
}

// isAsked reports whether an event is that of a request.
func isAsked(k turn.EventKind) bool {
	return k == turn.EventApprovalRequested || k == turn.EventQuestionAsked
}

// events yields the events from the response's first one on.
func (v *responseView) events(ctx context.Context, follow bool) (iter.Seq2[turn.Event, error], error) {
	t := client.Turn{Session: v.rec.Session, ID: v.rec.Turn}
	from := v.rec.Seq
	if !v.rec.Continues {
		rec, err := v.Journal().Delivered(ctx, v.rec.Session, v.rec.Message)
		switch {
		case errors.Is(err, client.ErrNotFound) && !follow:
			return func(func(turn.Event, error) bool) {}, nil
		case errors.Is(err, client.ErrNotFound): // no worker has begun the turn, or used the message
			t.MessageID = v.rec.Message
			return v.Follow(ctx, t, -1), nil
		case err != nil:
			return nil, err
		}
		t.ID, from = rec.ID, 0
		if rec.MessageID != v.rec.Message { // it was merged into a running turn
			if from, err = v.mergedAt(ctx, t); err != nil {
				return nil, err
			}
		}
	}
	if follow {
		return v.Follow(ctx, t, from-1), nil
	}
	return present(ctx, v.Journal(), eventsInput{Turn: t.ID}, client.Cursor{Turn: t.ID, Index: from - 1}), nil
}

// mergedAt returns the index of the event that the response's message was merged into the turn.
func (v *responseView) mergedAt(ctx context.Context, t client.Turn) (int64, error) {
	for e, err := range present(ctx, v.Journal(), eventsInput{Turn: t.ID}, client.Cursor{Turn: t.ID, Index: -1}) {
		if err != nil {
			return 0, err
		}
		var m turn.MessageEvent
		if e.Kind == turn.EventMessageAdded && json.Unmarshal(e.Data, &m) == nil && m.MessageID == v.rec.Message {
			return e.Index, nil
		}
	}
	return 0, nil
}

// running reports whether the turn goes on.
func (v *responseView) running() bool {
	return v.status == statusQueued || v.status == statusInProgress
}

// outcome returns the status of a response whose turn has ended.
func (v *responseView) outcome() string {
	switch v.done.State {
	case turn.StateFailed:
		return statusFailed
	case turn.StateCancelled, turn.StateClosed:
		return statusCancelled
	}
	if chatFinish(v.done.FinishReason) != "stop" {
		return statusIncomplete
	}
	return statusCompleted
}

// finishWithout ends the response of a turn that has no end in the journal: its message is a duplicate, or it was ended
// from outside.
func (v *responseView) finishWithout(ctx context.Context) error {
	result, err := v.Wait(ctx, client.Turn{Session: v.rec.Session, ID: v.rec.Turn, MessageID: v.rec.Message})
	if err != nil {
		return err
	}
	v.done = turn.DoneEvent{State: result.State, FinishReason: result.FinishReason, Message: result.Message,
		Usage: result.Usage}
	if err := v.say(result.Answer); err != nil {
		return err
	}
	return v.finish(v.outcome(), nil)
}

// finish ends the response. e is the event that has ended it; nil if there is none.
func (v *responseView) finish(status string, e *turn.Event) error {
	v.status = status
	for _, o := range v.output { // calls that go on: the next response has their results
		if !o.done {
			o.fields["status"] = statusIncomplete
			if err := v.endItem(o); err != nil {
				return err
			}
		}
	}
	if e != nil {
		v.ended = e.At.Unix()
	}
	if err := v.keep(e); err != nil {
		return err
	}
	kind := "response." + status
	if status == statusCancelled {
		kind = "response.incomplete" // there is no event for it
	}
	return v.emit(kind, object{"response": v.final()})
}

// keep records where the conversation is now, if the client has sent all of it: its next request then finds the session.
func (v *responseView) keep(e *turn.Event) error {
	if v.rec.whole == nil {
		return nil
	}
	var said []string
	for _, o := range v.output {
		if content, ok := o.fields["content"].([]object); ok && len(content) > 0 && !o.withdrawn {
			text, _ := content[0]["text"].(string)
			said = append(said, text)
		}
	}
	in := *v.rec.whole
	in.add(chatMessage{Role: "assistant", Content: chatContent{Text: strings.Join(said, "\n\n")}})
	model, _ := v.request["model"].(string)
	t := client.Turn{Session: v.rec.Session, ID: v.turn, MessageID: v.rec.Message}
	return v.keepConversation(v.r.Context(), v.nameOf(model, in.messages), t, e != nil &&
		e.Kind == turn.EventTurnCompleted)
}

// emit sends the next event.
func (v *responseView) emit(kind string, fields object) error {
	fields["type"], fields["sequence_number"] = kind, v.seq
	v.seq++
	if v.send == nil {
		return nil
	}
	return v.send(fields)
}

// final returns the response as it is now.
func (v *responseView) final() object {
	r := v.response(v.status)
	output := []object{}
	for _, o := range v.output {
		if !o.withdrawn {
			output = append(output, o.fields)
		}
	}
	r["output"] = output
	if v.ended > 0 {
		r["completed_at"] = v.ended
	}
	if v.done.State != "" {
		r["usage"] = responseUsage(v.done.Usage)
	}
	switch v.status {
	case statusFailed:
		r["error"] = object{"code": "server_error", "message": v.done.Message}
	case statusIncomplete:
		reason := "max_output_tokens"
		if chatFinish(v.done.FinishReason) == "content_filter" {
			reason = "content_filter"
		}
		r["incomplete_details"] = object{"reason": reason}
	}
	return r
}

// echoed are the fields of a response that repeat its request, with the values that they have if it leaves them out.
var echoed = object{
	"instructions": nil, "tools": []any{}, "tool_choice": "auto", "truncation": "disabled", "parallel_tool_calls": true,
	"text": object{"format": object{"type": "text"}}, "top_p": 1, "temperature": 1, "presence_penalty": 0,
	"frequency_penalty": 0, "top_logprobs": 0, "reasoning": object{"effort": nil, "summary": nil},
	"max_output_tokens": nil, "max_tool_calls": nil, "background": false, "service_tier": "default",
	"metadata": object{}, "safety_identifier": nil, "prompt_cache_key": nil, "previous_response_id": nil,
	"model": defaultModel,
}

// response returns the response with a status and without output. It has every field, because clients insist on them.
func (v *responseView) response(status string) object {
	r := object{"id": v.rec.ID, "object": "response", "created_at": v.rec.Created, "status": status, "completed_at": nil,
		"error": nil, "incomplete_details": nil, "output": []object{}, "usage": nil, "store": true, "access_programs": nil}
	for name, usual := range echoed {
		r[name] = usual
		if given, ok := v.request[name]; ok && given != nil {
			r[name] = given
		}
	}
	if v.rec.Conversation != "" {
		r["conversation"] = object{"id": v.rec.Conversation}
	}
	return r
}

// responseUsage returns the usage of a turn in OpenAI's form.
func responseUsage(u turn.Usage) object {
	return object{"input_tokens": u.InputTokens, "input_tokens_details": object{"cached_tokens": u.CachedTokens},
		"output_tokens": u.OutputTokens, "output_tokens_details": object{"reasoning_tokens": u.ReasoningTokens},
		"total_tokens": u.InputTokens + u.OutputTokens}
}

// itemID returns the ID of an item of the output.
func (v *responseView) itemID(prefix string, i *items.Item) string {
	return fmt.Sprintf("%s_%s_%s", prefix, strings.TrimPrefix(v.rec.ID, responsePrefix), i.ID)
}
