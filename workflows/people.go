package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Approval is a user's decision about one call. It is valid only for the arguments that the user saw.
type Approval struct {
	Version int    `json:"v,omitempty"`
	Turn    string `json:"turn,omitempty"` // empty: the running turn
	Call    string `json:"call"`
	Allow   bool   `json:"allow"`
	// ArgumentsHash is turn.Request's.
	ArgumentsHash string `json:"arguments_hash"`
	By            string `json:"by,omitempty"`
	Reason        string `json:"reason,omitempty"` // shown to the model if the call is denied
	// Grant also permits later calls. It requires Allow.
	Grant turn.GrantScope `json:"grant,omitempty"`
}

// ApprovalResult acknowledges an Approval: the decision stands and will be carried out.
type ApprovalResult struct {
	Turn    string `json:"turn"`
	Call    string `json:"call"`
	Allowed bool   `json:"allowed"`
	// Pending is the number of calls of the same step that still need a decision. None runs until all have one.
	Pending int `json:"pending"`
}

// approvals requests approval for all calls of a step that need it, at once, and waits until each has a decision. No
// call of the step runs before.
func (r *run) approvals(ctx workflow.Context, calls []turn.CallProposal) (map[string]turn.Decision, error) {
	requests := r.toApprove(ctx, calls)
	if len(requests) == 0 {
		return nil, nil
	}
	if err := r.askPeople(ctx, requests); err != nil {
		return nil, err
	}
	decisions, err := r.collect(ctx, requests, r.progress.Config.Approvals.ApprovalExpiry)
	if err != nil {
		return nil, err
	}
	approvals := make(map[string]turn.Decision, len(decisions))
	for _, decision := range decisions {
		approvals[decision.ID] = decision
	}
	return approvals, r.goOn(ctx)
}

func (r *run) toApprove(ctx workflow.Context, calls []turn.CallProposal) []turn.Request {
	var requests []turn.Request
	for _, c := range calls {
		tool, known := r.progress.Config.Find(c.Tool)
		if c.Permission == turn.Ask && known && c.Code == "" {
			requests = append(requests, turn.Request{
				ID: c.ID, Kind: turn.RequestApproval, Step: r.progress.Counters.Step, Tool: c.Tool, Arguments: c.Arguments,
				ArgumentsHash: c.ArgumentsHash, Risk: tool.Risk, Why: c.Why, MaxGrant: c.MaxGrant, ExpiresAt: expiry(ctx, r.progress.Config.Approvals.ApprovalExpiry),
			})
		}
	}
	return requests
}

func expiry(ctx workflow.Context, within time.Duration) time.Time {
	if within <= 0 {
		return time.Time{}
	}
	return workflow.Now(ctx).Add(within)
}

// question shows the model's question to the user and continues with the answer. A message that arrived before the
// question does not answer it.
func (r *run) question(ctx workflow.Context, p turn.ParseAction) turn.Phase {
	approvals := r.progress.Config.Approvals
	request := turn.Request{
		ID: fmt.Sprintf("q%d", r.progress.Counters.Step), Kind: turn.RequestQuestion, Step: r.progress.Counters.Step,
		Question: cutQuestion(p.Proposal.Question), ExpiresAt: expiry(ctx, approvals.QuestionExpiry),
	}
	r.desk.answers = r.joinable()
	if err := r.askPeople(ctx, []turn.Request{request}); err != nil {
		return p.Done(r.ending(err), nil)
	}
	decisions, err := r.collect(ctx, []turn.Request{request}, approvals.QuestionExpiry)
	if err == nil {
		err = r.goOn(ctx)
	}
	if err != nil {
		return p.Done(r.ending(err), nil)
	}
	if decisions[0].Status == turn.StatusExpired {
		return p.Answered(fmt.Sprintf("The user has not answered your question within %s. Go on without an answer, or end.", approvals.QuestionExpiry))
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
	return turn.Truncate(q, maxQuestion-100) + fmt.Sprintf(" (the question is %d bytes; the transcript has all of it)", len(q))
}

// joinable returns the number of messages that the turn would merge now.
func (r *run) joinable() int {
	n := 0
	for _, m := range r.progress.Inbox {
		if !m.Queue {
			n++
		}
	}
	return n
}

// askPeople publishes requests on the desk, in the journal and in the search attributes. The desk comes first: a client
// that reads a request in the journal must be able to decide it, even if the worker that wrote it has died since.
func (r *run) askPeople(ctx workflow.Context, requests []turn.Request) error {
	r.desk.put(requests...)
	in := AskInput{Session: r.session, Turn: r.turnID, Requests: requests, Head: r.progress.Head}
	asked, err := journalled(ctx, Activities.Ask, in, "ask "+askSummary(requests))
	if err != nil {
		r.desk.put()
		return err
	}
	r.desk.keep(asked.Decisions)
	r.show(ctx)
	return r.upsertState(ctx, turn.StateWaiting)
}

func askSummary(requests []turn.Request) string {
	if requests[0].Kind == turn.RequestQuestion {
		return "the user"
	}
	return fmt.Sprintf("for %d approvals", len(requests))
}

// goOn marks the turn as running again when no request is open.
func (r *run) goOn(ctx workflow.Context) error {
	r.show(ctx)
	return r.upsertState(ctx, turn.StateRunning)
}

// collect waits until every request is settled by a decision or by its expiry, and records each decision in the journal
// as it arrives. Waiting occupies no process and uses neither the turn's time nor its steps.
func (r *run) collect(ctx workflow.Context, requests []turn.Request, within time.Duration) ([]turn.Decision, error) {
	if r.desk.kept == len(requests) { // decided before a reset
		return r.desk.rulings, nil
	}
	expired := func() bool { return false }
	if within > 0 {
		timing, stop := workflow.WithCancel(ctx)
		defer stop()
		expired = workflow.NewTimer(timing, within).IsReady
	}
	for kept := r.desk.kept; kept < len(requests); {
		err := workflow.Await(ctx, func() bool { return len(r.desk.rulings) > kept || r.spoken() || expired() })
		if ctx.Err() != nil { // cancellation fires the timer, too
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		said := r.conclude(ctx, requests)
		fresh := r.desk.rulings[kept:]
		in := DecideInput{Session: r.session, Turn: r.turnID, Decisions: fresh, MessageIDs: said}
		res, err := r.decide(ctx, in)
		if err != nil {
			return nil, err
		}
		if res.AlreadySent {
			r.unsay(said)
		} else {
			kept += len(fresh)
		}
	}
	return r.desk.rulings, nil
}

// decide records decisions through a regular activity, which the server schedules together with the updates that the
// decisions come from. A local activity's write would survive even if its workflow task is lost. The updates would then
// be redelivered, possibly in a different order, and get answers that contradict the journal.
func (r *run) decide(ctx workflow.Context, in DecideInput) (out DecideResult, err error) {
	const summary = "record what was decided"
	future := again(ctx, Activities.Decide, in, summary)
	if workflow.Await(ctx, future.IsReady) != nil { // stopped
		return out, ctx.Err()
	}
	err = future.Get(ctx, &out)
	return out, err
}

// conclude settles requests that need no explicit decision: a question that a message has answered, and requests that
// have expired. It returns the IDs of the messages that it took as an answer.
func (r *run) conclude(ctx workflow.Context, requests []turn.Request) (said []string) {
	for _, w := range requests {
		switch {
		case w.Kind == turn.RequestQuestion && r.spoken():
			said = r.saidSince()
			r.desk.rule(turn.Decision{ID: w.ID, Status: turn.StatusAnswered, At: workflow.Now(ctx)})
		case !w.ExpiresAt.IsZero() && !workflow.Now(ctx).Before(w.ExpiresAt):
			r.desk.rule(turn.Decision{
				ID: w.ID, Status: turn.StatusExpired, At: workflow.Now(ctx), ArgumentsHash: w.ArgumentsHash,
				Allowed: w.Kind == turn.RequestApproval && r.progress.Config.Approvals.OnExpiry == turn.Allow,
			})
		}
	}
	return said
}

// saidSince returns the IDs of the messages that arrived after the open question.
func (r *run) saidSince() (ids []string) {
	skip := r.desk.answers
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

// unsay reopens the question that these messages seemed to answer. The session already had them: they were sent twice.
func (r *run) unsay(ids []string) {
	r.desk.rulings = nil
	r.progress.Inbox = slices.DeleteFunc(slices.Clone(r.progress.Inbox), func(m Message) bool { return slices.Contains(ids, m.ID) })
}

// spoken reports whether a message has arrived that answers the open question.
func (r *run) spoken() bool {
	open := r.desk.open()
	return len(open) == 1 && open[0].Kind == turn.RequestQuestion && r.joinable() > r.desk.answers
}

// approve records an approval. Repeating the same approval changes nothing.
func (r *run) approve(ctx workflow.Context, a Approval) (ApprovalResult, error) {
	decision := turn.Decision{
		ID: a.Call, Status: turn.StatusDenied, Allowed: a.Allow, ArgumentsHash: a.ArgumentsHash, By: turn.Truncate(a.By, maxBy),
		Reason: turn.Truncate(a.Reason, maxReason), At: workflow.Now(ctx), Grant: a.Grant,
	}
	if a.Allow {
		decision.Status = turn.StatusAllowed
	}
	r.desk.rule(decision)
	return ApprovalResult{Turn: r.turnID, Call: a.Call, Allowed: a.Allow, Pending: len(r.desk.open())}, nil
}

// The bounds of a decision's author and reason, in bytes.
const (
	maxBy     = 120
	maxReason = 1000
)

// validateApprove rejects an invalid approval before the workflow records it.
func (r *run) validateApprove(ctx workflow.Context, a Approval) error {
	if err := checkUpdate(a.Version, a); err != nil {
		return rejected(err.Code, err.Message)
	}
	w, err := r.asked(ctx, a.Turn, a.Call, turn.RequestApproval)
	if err != nil {
		return err
	}
	if before, ruled := r.desk.ruling(a.Call); ruled {
		same := before.Allowed == a.Allow && before.ArgumentsHash == a.ArgumentsHash && (a.Grant == "" || a.Grant == before.Grant)
		if same && before.Status != turn.StatusExpired {
			return nil
		}
		said := fmt.Sprintf("call %s was %s already%s; the first decision stands", a.Call, before.Status, by(before.By))
		return rejected(turn.CodeNotWaiting, said, before)
	}
	switch {
	case a.ArgumentsHash == "":
		return rejected(turn.CodeConfigInvalid, "the approval does not say for which arguments; give arguments_hash as the wait has it")
	case a.ArgumentsHash != w.ArgumentsHash:
		return rejected(turn.CodeToolDrift, fmt.Sprintf("call %s waits with other arguments than the ones that were approved; look at it again", a.Call))
	case a.Grant != "" && a.Grant != turn.GrantCall && a.Grant != turn.GrantTool, a.Grant != "" && !a.Allow:
		return rejected(turn.CodeConfigInvalid, `always is "call" or "tool", and goes with allow`)
	case a.Grant != "" && !w.Grants(a.Grant):
		return rejected(turn.CodeConfigInvalid, w.WhyNoGrant())
	}
	return nil
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

// asked returns the request that a decision names, or an error that says why it needs no decision.
func (r *run) asked(ctx workflow.Context, turnID, id string, kind turn.RequestKind) (turn.Request, error) {
	w, known := r.desk.find(id)
	switch {
	case r.stopping:
		return w, rejected(turn.CodeNotWaiting, "the turn was stopped; it waits for nothing any more")
	case turnID != "" && turnID != r.turnID:
		return w, rejected(turn.CodeNotWaiting, fmt.Sprintf("turn %s is not the one that runs in this session; it waits for nothing", turn.Truncate(turnID, 80)))
	case !known || w.Kind != kind:
		return w, rejected(turn.CodeNotWaiting, fmt.Sprintf("nothing waits for that: no %s %q is open in this turn", kind, turn.Truncate(id, 40)))
	}
	if _, ruled := r.desk.ruling(id); !ruled && !w.ExpiresAt.IsZero() && !workflow.Now(ctx).Before(w.ExpiresAt) {
		return w, rejected(turn.CodeApprovalExpired, fmt.Sprintf("%s %s has expired at %s", kind, id, w.ExpiresAt.UTC().Format(time.RFC3339)))
	}
	return w, nil
}
