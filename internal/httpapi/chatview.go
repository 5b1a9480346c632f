package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/internal/items"
	"github.com/everturn/everturn/workflows/turn"
)

// chatView shows a turn as a Chat Completion. Everything that the model says is content, also before calls. The
// protocol cannot take text back: a stream says that the text begins again.
type chatView struct {
	*call
	in     chatRequest
	head   chatCompletion // what all chunks have
	stream *stream        // nil: the response is not streamed
	done   turn.DoneEvent
	name   conversationName // of the conversation without the answer
	handed handouts
	calls  []chatCall // for the client to run

	parts     []*items.Item // the messages so far
	asked     []string      // what the turn waits for
	streamed  strings.Builder
	reasoning strings.Builder
}

// withdrawn is what a stream says between a text that is void and the one that takes its place.
const withdrawn = "[The answer was interrupted and begins again.]"

// change shows a change of the items.
func (v *chatView) change(c items.Change) error {
	switch c.Do {
	case items.Begin:
		if c.Item.Kind == items.Message {
			v.parts = append(v.parts, c.Item)
			return v.separate()
		}
	case items.Extend:
		switch c.Item.Kind {
		case items.Message:
			return v.write(c.Text)
		case items.Reasoning:
			v.reasoning.WriteString(c.Text)
			return v.chunk(chatDelta{Reasoning: c.Text}, nil)
		}
	case items.Withdraw:
		if c.Item.Kind == items.Message && v.streamed.Len() > 0 {
			return errors.Join(v.separate(), v.write(withdrawn))
		}
	case items.Finish:
		v.done = c.Done
	}
	return nil
}

// separate ends a paragraph of the stream.
func (v *chatView) separate() error {
	if v.streamed.Len() == 0 {
		return nil
	}
	return v.write("\n\n")
}

// write adds a text to the stream.
func (v *chatView) write(text string) error {
	if v.stream == nil || text == "" {
		return nil
	}
	v.streamed.WriteString(text)
	return v.chunk(chatDelta{Content: &text}, nil)
}

// add adds a whole text.
func (v *chatView) add(text string) error {
	if text == "" {
		return nil
	}
	v.asked = append(v.asked, text)
	return errors.Join(v.separate(), v.write(text))
}

// ask says what the turn waits for: a question, which the next message answers, calls for the client to run, or
// decisions. waits is false if it does not wait any more, or will hand out more calls.
func (v *chatView) ask(ctx context.Context, turnID string, step int) (waits bool, err error) {
	open, err := v.Pending(ctx, client.PendingInput{Turn: turnID})
	if err != nil {
		return false, err
	}
	if all, err := v.handed.complete(ctx, v.Journal(), turnID, step); !all || err != nil {
		return false, err
	}
	for _, r := range open {
		text := r.Question
		switch r.Kind {
		case turn.RequestQuestion:
			if n := len(v.parts); n > 0 && strings.Contains(v.parts[n-1].Text, text) {
				text = "" // the model's text is the question
			}
		case turn.RequestApproval:
			text = fmt.Sprintf("[The call %s %s waits for a permission: request %s of session %s.]", r.Tool,
				turn.Truncate(r.Arguments, 500), r.ID, r.Session)
		case turn.RequestResult:
			if v.isFor(r.Tool, v.in.Tools) {
				if err := v.handOut(turnID, r); err != nil {
					return false, err
				}
				continue
			}
			text = fmt.Sprintf("[The call %s %s waits for a client that runs it: call %s of session %s.]", r.Tool,
				turn.Truncate(r.Arguments, 500), r.Call, r.Session)
		case turn.RequestElicitation:
			text = fmt.Sprintf("[A tool asks: %s It waits for the response to request %s of session %s.]",
				turn.Truncate(r.Elicitation.Message, 1000), r.ID, r.Session)
		}
		if err := v.add(text); err != nil {
			return false, err
		}
	}
	return len(open) > 0, nil
}

// handOut adds a call for the client to run.
func (v *chatView) handOut(turnID string, r turn.Request) error {
	c := chatCall{ID: clientCall(turnID, r.Call), Type: "function"}
	c.Function.Name, c.Function.Arguments = strings.TrimPrefix(r.Tool, turn.ClientTools), r.Arguments
	v.calls = append(v.calls, c)
	index := len(v.calls) - 1
	c.Index = &index
	return v.chunk(chatDelta{ToolCalls: []chatCall{c}}, nil)
}

// visible returns the text of the completion, as the client has it.
func (v *chatView) visible() string {
	if v.stream != nil {
		return v.streamed.String()
	}
	var all []string
	for _, i := range v.parts {
		if !i.Withdrawn && i.Text != "" {
			all = append(all, i.Text)
		}
	}
	return strings.Join(append(all, v.asked...), "\n\n")
}

// chunk sends a part of a stream.
func (v *chatView) chunk(delta chatDelta, finish *string) error {
	if v.stream == nil {
		return nil
	}
	c := v.head
	c.Choices = []chatChoice{{Delta: &delta, FinishReason: finish}}
	return v.send(c)
}

// send sends an object of a stream.
func (v *chatView) send(object any) error {
	b, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encoding a chunk: %w", err)
	}
	return v.stream.send("data: " + string(b) + "\n\n")
}

// end ends the completion.
func (v *chatView) end() error {
	if v.done.State == turn.StateFailed {
		return v.fail(&problem{status: http.StatusInternalServerError, kind: kindServer, code: "turn_failed", final: true,
			message: v.done.Message})
	}
	finish := chatFinish(v.done.FinishReason)
	if len(v.calls) > 0 {
		finish = "tool_calls"
	}
	usage := chatUsageOf(v.done.Usage)
	if v.stream == nil {
		text := v.visible()
		v.head.Choices = []chatChoice{{Message: &chatDelta{Role: "assistant", Content: &text,
			Reasoning: v.reasoning.String(), ToolCalls: v.calls}, FinishReason: &finish}}
		v.head.Usage = usage
		v.long("application/json")
		return writeJSON(v.w, http.StatusOK, v.head)
	}
	err := v.chunk(chatDelta{}, &finish)
	if err == nil && v.in.StreamOptions.IncludeUsage {
		c := v.head
		c.Choices, c.Usage = []chatChoice{}, usage
		err = v.send(c)
	}
	if err == nil {
		err = v.stream.send("data: [DONE]\n\n")
	}
	return v.stream.fail(err)
}

// fail ends a completion with an error. The turn may go on: a request that is sent again finds it.
func (v *chatView) fail(err error) error {
	if v.stream == nil {
		return err
	}
	if err = v.stream.fail(err); err != nil {
		_ = v.send(asProblem(err).body())
	}
	return nil
}

// chatFinish returns the finish reason of a turn in OpenAI's words.
func chatFinish(r turn.FinishReason) string {
	switch r {
	case turn.FinishAnswered, "":
		return "stop"
	case turn.FinishContentFilter, turn.FinishRefusal:
		return "content_filter"
	case turn.FinishCancelled:
		return "stop"
	}
	return "length" // a limit has ended the turn
}

// chatUsageOf returns the usage of a turn in OpenAI's form.
func chatUsageOf(u turn.Usage) *chatUsage {
	out := &chatUsage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens,
		TotalTokens: u.InputTokens + u.OutputTokens}
	out.PromptDetails.Cached, out.CompletionDetails.Reasoning = u.CachedTokens, u.ReasoningTokens
	return out
}
