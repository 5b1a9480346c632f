package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Answer answers a question of the model, or responds to an elicitation.
type Answer struct {
	Version  int    `json:"v,omitempty"`
	Turn     string `json:"turn,omitempty"` // empty: the running turn
	Question string `json:"question"`       // the ID of the turn.Request
	Text     string `json:"text,omitempty"`
	Blob     string `json:"blob,omitempty"`
	By       string `json:"by,omitempty"`
	// Response responds to an elicitation; Text is empty then. Its Key may be empty.
	Response *turn.ElicitationResponse `json:"response,omitempty"`
}

// AnswerResult acknowledges an Answer.
type AnswerResult struct {
	Turn     string `json:"turn"`
	Question string `json:"question"`
}

// answer adds an answer to the turn's inbox as a message, and records a response to an elicitation.
func (r *run) answer(ctx workflow.Context, a Answer) (AnswerResult, error) {
	decision := turn.Decision{ID: a.Question, Status: turn.StatusAnswered, By: turn.Truncate(a.By, maxBy), At: workflow.Now(ctx)}
	switch {
	case r.toHeld(a.Question):
		decision.Response = a.Response
		r.pass(ctx, decision)
		return AnswerResult{Turn: r.turnID, Question: a.Question}, nil
	case a.Response != nil:
		decision.Response = a.Response
	default:
		r.progress.Inbox = append(r.progress.Inbox, Message{ID: AnswerID(r.turnID, a.Question), Text: a.Text, Blob: a.Blob})
	}
	r.desk.rule(decision)
	return AnswerResult{Turn: r.turnID, Question: a.Question}, nil
}

// AnswerID returns the ID of the message that an answer becomes in the transcript.
func AnswerID(turnID, question string) string { return answerPrefix + turnID + ":" + question }

const answerPrefix = "answer:"

// validateAnswer rejects an invalid answer before the workflow records it.
func (r *run) validateAnswer(ctx workflow.Context, a Answer) error {
	if err := a.checkSizes(); err != nil {
		return rejected(err.Code, err.Message)
	}
	if r.toHeld(a.Question) {
		return r.validateHeld(a)
	}
	kind := turn.RequestQuestion
	w, known := r.desk.find(a.Question)
	if known && w.Kind == turn.RequestElicitation || !known && a.Response != nil { // it may be about to be requested again
		kind = turn.RequestElicitation
	}
	if err := checkAnswer(kind, w, a); err != nil {
		return rejected(err.Code, err.Message)
	}
	if _, err := r.asked(ctx, a.Turn, a.Question, kind); err != nil {
		return err
	}
	if before, ruled := r.desk.ruling(a.Question); ruled {
		said := fmt.Sprintf("question %s was %s already%s", a.Question, before.Status, by(before.By))
		return rejected(turn.CodeNotWaiting, said, before)
	}
	return nil
}

// checkAnswer rejects an answer that does not fit the kind of request.
func checkAnswer(kind turn.RequestKind, w turn.Request, a Answer) *turn.Error {
	if kind == turn.RequestElicitation {
		return checkReply(w, a.Response)
	}
	if a.Response != nil {
		return invalid("the question %s is the model's, which is answered with text", turn.Truncate(a.Question, 40))
	}
	m := Message{Text: a.Text, Blob: a.Blob}
	if err := checkMessage(m); err != nil {
		return err
	}
	return checkTravels(m, maxAnswerBytes)
}
