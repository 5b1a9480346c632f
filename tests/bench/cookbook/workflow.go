package cookbook

import (
	"errors"
	"time"

	openai "github.com/sashabaranov/go-openai"
	"go.temporal.io/sdk/workflow"
)

// Input starts a turn.
type Input struct {
	Model    string                         `json:"model"`
	Messages []openai.ChatCompletionMessage `json:"messages"`
	MaxSteps int                            `json:"max_steps"`
}

// Output is a turn's answer.
type Output struct {
	Answer string `json:"answer"`
	Steps  int    `json:"steps"`
}

// InferInput is the input of one inference: the whole conversation.
type InferInput struct {
	Model    string                         `json:"model"`
	Messages []openai.ChatCompletionMessage `json:"messages"`
}

// CallInput is one tool call.
type CallInput struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Turn is the agent loop.
func Turn(ctx workflow.Context, in Input) (Output, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var acts *Activities
	messages := in.Messages
	for step := 1; step <= in.MaxSteps; step++ {
		var reply openai.ChatCompletionMessage
		if err := workflow.ExecuteActivity(ctx, acts.Infer, InferInput{in.Model, messages}).Get(ctx, &reply); err != nil {
			return Output{}, err
		}
		messages = append(messages, reply)
		if len(reply.ToolCalls) == 0 {
			return Output{Answer: reply.Content, Steps: step}, nil
		}
		results, err := calls(ctx, reply.ToolCalls)
		if err != nil {
			return Output{}, err
		}
		messages = append(messages, results...)
	}
	return Output{}, errors.New("the model did not come to an end")
}

// calls runs a step's calls in parallel.
func calls(ctx workflow.Context, asked []openai.ToolCall) ([]openai.ChatCompletionMessage, error) {
	var acts *Activities
	futures := make([]workflow.Future, len(asked))
	for i, c := range asked {
		futures[i] = workflow.ExecuteActivity(ctx, acts.CallTool, CallInput{c.Function.Name, c.Function.Arguments})
	}
	out := make([]openai.ChatCompletionMessage, len(asked))
	for i, f := range futures {
		var text string
		if err := f.Get(ctx, &text); err != nil {
			return nil, err
		}
		out[i] = openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, ToolCallID: asked[i].ID, Content: text}
	}
	return out, nil
}
