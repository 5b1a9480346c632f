package workflows

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// AnswerID returns the ID of the message that an answer becomes in the transcript.
func AnswerID(turnID, question string) string { return answerPrefix + turnID + ":" + question }

const answerPrefix = "answer:"

// question opens a request for the model's question and waits for its answer, which the next inference gets as a
// message. Messages that arrived before the question do not answer it. If the request expires, the next prompt says so.
func (r *run) question(ctx workflow.Context, p turn.ParseAction) turn.Phase {
	within := r.requestTimeout(ctx, r.progress.Config.Approvals.Expiry)
	request := turn.Request{
		ID: fmt.Sprintf("q%d", r.progress.Counters.Step), Kind: turn.RequestQuestion, Step: r.progress.Counters.Step,
		Question: cutQuestion(p.Proposal.Question), ExpiresAt: expiry(ctx, within),
	}
	// If the turn moved while it waited for the question, newRun has set the request and messagesBefore.
	if _, moved := r.requests.find(request.ID); !moved {
		r.requests.messagesBefore = r.mergeableCount()
	}
	decisions, err := r.request(ctx, []turn.Request{request}, within, nil)
	if errors.Is(err, errMoves) {
		r.keepProposal(p.Proposal, request.ExpiresAt)
		return p // the next run begins with this phase
	}
	if err != nil {
		return p.Done(r.resultOf(err), nil)
	}
	if decisions[request.ID].Status == turn.StatusExpired {
		return p.Answered(fmt.Sprintf("The user has not answered your question within %s. Go on without an answer, or end.",
			r.progress.Config.Approvals.Expiry))
	}
	return p.Answered("")
}

// maxQuestion bounds the question in a request, in bytes. The transcript has the whole text.
const maxQuestion = 4 << 10

// cutQuestion truncates a long question and appends its size and where to read it.
func cutQuestion(q string) string {
	if len(q) <= maxQuestion {
		return q
	}
	return turn.Truncate(q, maxQuestion-100) +
		fmt.Sprintf(" (the question is %d bytes; the transcript has all of it)", len(q))
}

// mergeableCount returns the number of messages in the inbox that are not queued for the next turn.
func (r *run) mergeableCount() int {
	n := 0
	for _, m := range r.progress.Inbox {
		if !m.Queue {
			n++
		}
	}
	return n
}

// messagesSinceQuestion returns the IDs of the messages that arrived after the open question, without queued ones.
func (r *run) messagesSinceQuestion() (ids []string) {
	skip := r.requests.messagesBefore
	for _, m := range r.progress.Inbox {
		switch {
		case m.Queue:
		case skip > 0:
			skip--
		default:
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// reopenQuestion removes the decision that messages answered the question, and these messages from the inbox. They are
// duplicates: the session already had them.
func (r *run) reopenQuestion() {
	for _, d := range r.requests.decisions {
		r.progress.Inbox = slices.DeleteFunc(slices.Clone(r.progress.Inbox),
			func(m Message) bool { return slices.Contains(d.Messages, m.ID) })
	}
	r.requests.decisions = nil
}

// questionAnswered reports whether a message has arrived that answers the open question.
func (r *run) questionAnswered() bool {
	open := r.requests.open()
	return len(open) == 1 && open[0].Kind == turn.RequestQuestion && r.mergeableCount() > r.requests.messagesBefore
}
