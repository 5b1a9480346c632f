package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// Approval decides about one call that waits for a person. It counts for exactly the arguments that the person saw.
type Approval struct {
	Version int    `json:"v,omitempty"`
	Turn    string `json:"turn,omitempty"` // empty: the one that runs
	Call    string `json:"call"`
	Allow   bool   `json:"allow"`
	// ArgumentsHash is turn.Wait's.
	ArgumentsHash string `json:"arguments_hash"`
	By            string `json:"by,omitempty"`
	Reason        string `json:"reason,omitempty"` // told to the model where the call is denied
	// Always spares the session the question from now on. It goes with Allow.
	Always turn.Scope `json:"always,omitempty"`
}

// ApprovalResult acknowledges an Approval: it is decided, and will be carried out.
type ApprovalResult struct {
	Turn    string `json:"turn"`
	Call    string `json:"call"`
	Allowed bool   `json:"allowed"`
	// Waiting is how many calls of the same answer nobody has decided about yet: none runs before all are.
	Waiting int `json:"waiting"`
}

// approvals asks people for the calls of one answer that need it, all together, and waits until each is decided. Nothing
// of the answer runs before.
func (r *run) approvals(ctx workflow.Context, calls []turn.CallProposal) (map[string]turn.Ruling, error) {
	waits := r.toApprove(ctx, calls)
	if len(waits) == 0 {
		return nil, nil
	}
	if err := r.askPeople(ctx, waits); err != nil {
		return nil, err
	}
	rulings, err := r.collect(ctx, waits, r.progress.Pins.People.ApprovalExpiry)
	if err != nil {
		return nil, err
	}
	approvals := make(map[string]turn.Ruling, len(rulings))
	for _, ruling := range rulings {
		approvals[ruling.ID] = ruling
	}
	return approvals, r.goOn(ctx)
}

func (r *run) toApprove(ctx workflow.Context, calls []turn.CallProposal) []turn.Wait {
	var waits []turn.Wait
	for _, c := range calls {
		tool, known := r.progress.Pins.Find(c.Tool)
		if c.Permission == turn.Ask && known && c.Code == "" {
			waits = append(waits, turn.Wait{
				ID: c.ID, Kind: turn.WaitApproval, Step: r.progress.Counters.Step, Tool: c.Tool, Arguments: c.Arguments,
				ArgumentsHash: c.ArgumentsHash, Risk: tool.Risk, Why: c.Why, Widest: c.Widest, ExpiresAt: expiry(ctx, r.progress.Pins.People.ApprovalExpiry),
			})
		}
	}
	return waits
}

func expiry(ctx workflow.Context, within time.Duration) time.Time {
	if within <= 0 {
		return time.Time{}
	}
	return workflow.Now(ctx).Add(within)
}

// question puts the model's question before the user and goes on with what the user says. A message that came before
// the question is no answer to it.
func (r *run) question(ctx workflow.Context, p turn.ParseAction) turn.Phase {
	people := r.progress.Pins.People
	wait := turn.Wait{
		ID: fmt.Sprintf("q%d", r.progress.Counters.Step), Kind: turn.WaitQuestion, Step: r.progress.Counters.Step,
		Question: cutQuestion(p.Proposal.Question), ExpiresAt: expiry(ctx, people.QuestionExpiry),
	}
	r.desk.answers = r.joinable()
	if err := r.askPeople(ctx, []turn.Wait{wait}); err != nil {
		return p.Done(r.ending(err), nil)
	}
	rulings, err := r.collect(ctx, []turn.Wait{wait}, people.QuestionExpiry)
	if err == nil {
		err = r.goOn(ctx)
	}
	if err != nil {
		return p.Done(r.ending(err), nil)
	}
	if rulings[0].Verdict == turn.VerdictExpired {
		return p.Answered(fmt.Sprintf("The user has not answered your question within %s. Go on without an answer, or end.", people.QuestionExpiry))
	}
	return p.Answered("")
}

// maxQuestion bounds what travels of a question, in bytes; the transcript has the whole.
const maxQuestion = 4 << 10

// cutQuestion truncates a long question and appends its size and where to read it.
func cutQuestion(q string) string {
	if len(q) <= maxQuestion {
		return q
	}
	return turn.Cut(q, maxQuestion-100) + fmt.Sprintf(" (the question is %d bytes; the transcript has all of it)", len(q))
}

// joinable counts the messages that would join the turn now.
func (r *run) joinable() int {
	n := 0
	for _, m := range r.progress.Inbox {
		if !m.After {
			n++
		}
	}
	return n
}

// askPeople makes waits known: on the desk, in the journal, and in the indexes. The desk is first: who reads in the journal
// that something is waited for must not be told that nothing is, also where the worker that wrote it has died since.
func (r *run) askPeople(ctx workflow.Context, waits []turn.Wait) error {
	r.desk.put(waits...)
	in := AskInput{Session: r.session, Turn: r.turnID, Waits: waits, Head: r.progress.Head}
	asked, err := journalled(ctx, Activities.Ask, in, "ask "+askSummary(waits))
	if err != nil {
		r.desk.put()
		return err
	}
	r.desk.keep(asked.Rulings)
	r.show(ctx)
	return r.upsertState(ctx, turn.StateWaiting)
}

func askSummary(waits []turn.Wait) string {
	if waits[0].Kind == turn.WaitQuestion {
		return "the user"
	}
	return fmt.Sprintf("for %d approvals", len(waits))
}

// goOn is called when nothing is waited for any more.
func (r *run) goOn(ctx workflow.Context) error {
	r.show(ctx)
	return r.upsertState(ctx, turn.StateRunning)
}

// collect waits until every wait is ruled, by people or by time, and has each ruling in the journal as it comes. No
// process is held meanwhile, and neither the turn's time nor its steps are used up.
func (r *run) collect(ctx workflow.Context, waits []turn.Wait, within time.Duration) ([]turn.Ruling, error) {
	if r.desk.kept == len(waits) { // decided before a reset
		return r.desk.rulings, nil
	}
	expired := func() bool { return false }
	if within > 0 {
		timing, stop := workflow.WithCancel(ctx)
		defer stop()
		expired = workflow.NewTimer(timing, within).IsReady
	}
	for kept := r.desk.kept; kept < len(waits); {
		err := workflow.Await(ctx, func() bool { return len(r.desk.rulings) > kept || r.spoken() || expired() })
		if ctx.Err() != nil { // which makes the timer ready, too
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		said := r.conclude(ctx, waits)
		fresh := r.desk.rulings[kept:]
		in := DecideInput{Session: r.session, Turn: r.turnID, Rulings: fresh, Said: said}
		res, err := r.decide(ctx, in)
		if err != nil {
			return nil, err
		}
		if res.Heard {
			r.unsay(said)
		} else {
			kept += len(fresh)
		}
	}
	return r.desk.rulings, nil
}

// decide has rulings recorded, by an activity that the server has scheduled together with the words that it is about. What
// a local one writes stays although the task may be lost in which people were heard: they are heard again then, in another
// order perhaps, and are told what the journal does not have.
func (r *run) decide(ctx workflow.Context, in DecideInput) (out DecideResult, err error) {
	const summary = "record what was decided"
	future := again(ctx, Activities.Decide, in, summary)
	if workflow.Await(ctx, future.IsReady) != nil { // stopped
		return out, ctx.Err()
	}
	err = future.Get(ctx, &out)
	return out, err
}

// conclude rules what nobody had to rule by name: a question that a message has answered, and what nobody said anything
// about in time. Where somebody did, there is nothing left to conclude. It returns the IDs of the messages that it took
// for an answer.
func (r *run) conclude(ctx workflow.Context, waits []turn.Wait) (said []string) {
	for _, w := range waits {
		switch {
		case w.Kind == turn.WaitQuestion && r.spoken():
			said = r.saidSince()
			r.desk.rule(turn.Ruling{ID: w.ID, Verdict: turn.VerdictAnswered, At: workflow.Now(ctx)})
		case !w.ExpiresAt.IsZero() && !workflow.Now(ctx).Before(w.ExpiresAt):
			r.desk.rule(turn.Ruling{
				ID: w.ID, Verdict: turn.VerdictExpired, At: workflow.Now(ctx), ArgumentsHash: w.ArgumentsHash,
				Allowed: w.Kind == turn.WaitApproval && r.progress.Pins.People.OnExpiry == turn.Allow,
			})
		}
	}
	return said
}

// saidSince are the IDs of the messages that have come to the open question.
func (r *run) saidSince() (ids []string) {
	skip := r.desk.answers
	for _, m := range r.progress.Inbox {
		switch {
		case m.After:
		case skip > 0:
			skip--
		default:
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// unsay opens the question again that these messages seemed to answer: the session has had them before, and they were
// sent again.
func (r *run) unsay(ids []string) {
	r.desk.rulings = nil
	r.progress.Inbox = slices.DeleteFunc(slices.Clone(r.progress.Inbox), func(m Message) bool { return slices.Contains(ids, m.ID) })
}

// spoken: a message has come that answers the open question.
func (r *run) spoken() bool {
	open := r.desk.open()
	return len(open) == 1 && open[0].Kind == turn.WaitQuestion && r.joinable() > r.desk.answers
}

// approve takes a decision. The same one again changes nothing.
func (r *run) approve(ctx workflow.Context, a Approval) (ApprovalResult, error) {
	ruling := turn.Ruling{
		ID: a.Call, Verdict: turn.VerdictDenied, Allowed: a.Allow, ArgumentsHash: a.ArgumentsHash, By: turn.Cut(a.By, maxBy),
		Reason: turn.Cut(a.Reason, maxReason), At: workflow.Now(ctx), Always: a.Always,
	}
	if a.Allow {
		ruling.Verdict = turn.VerdictAllowed
	}
	r.desk.rule(ruling)
	return ApprovalResult{Turn: r.turnID, Call: a.Call, Allowed: a.Allow, Waiting: len(r.desk.open())}, nil
}

// The bounds of what people say about themselves and their reasons, in bytes.
const (
	maxBy     = 120
	maxReason = 1000
)

// validateApprove rejects before anything is recorded.
func (r *run) validateApprove(ctx workflow.Context, a Approval) error {
	if err := checkUpdate(a.Version, a); err != nil {
		return rejected(err.Code, err.Message)
	}
	w, err := r.asked(ctx, a.Turn, a.Call, turn.WaitApproval)
	if err != nil {
		return err
	}
	if before, ruled := r.desk.ruling(a.Call); ruled {
		same := before.Allowed == a.Allow && before.ArgumentsHash == a.ArgumentsHash && (a.Always == "" || a.Always == before.Always)
		if same && before.Verdict != turn.VerdictExpired {
			return nil
		}
		said := fmt.Sprintf("call %s was %s already%s; the first decision stands", a.Call, before.Verdict, by(before.By))
		return rejected(turn.CodeNotWaiting, said, before)
	}
	switch {
	case a.ArgumentsHash == "":
		return rejected(turn.CodeConfigInvalid, "the approval does not say for which arguments; give arguments_hash as the wait has it")
	case a.ArgumentsHash != w.ArgumentsHash:
		return rejected(turn.CodeToolDrift, fmt.Sprintf("call %s waits with other arguments than the ones that were approved; look at it again", a.Call))
	case a.Always != "" && a.Always != turn.AlwaysCall && a.Always != turn.AlwaysTool, a.Always != "" && !a.Allow:
		return rejected(turn.CodeConfigInvalid, `always is "call" or "tool", and goes with allow`)
	case a.Always != "" && !w.Spares(a.Always):
		return rejected(turn.CodeConfigInvalid, w.Unspared())
	}
	return nil
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

// asked finds what somebody wants to decide about, or says why there is nothing to decide.
func (r *run) asked(ctx workflow.Context, turnID, id string, kind turn.WaitKind) (turn.Wait, error) {
	w, known := r.desk.find(id)
	switch {
	case r.stopping:
		return w, rejected(turn.CodeNotWaiting, "the turn was stopped; it waits for nothing any more")
	case turnID != "" && turnID != r.turnID:
		return w, rejected(turn.CodeNotWaiting, fmt.Sprintf("turn %s is not the one that runs in this session; it waits for nothing", turn.Cut(turnID, 80)))
	case !known || w.Kind != kind:
		return w, rejected(turn.CodeNotWaiting, fmt.Sprintf("nothing waits for that: no %s %q is open in this turn", kind, turn.Cut(id, 40)))
	}
	if _, ruled := r.desk.ruling(id); !ruled && !w.ExpiresAt.IsZero() && !workflow.Now(ctx).Before(w.ExpiresAt) {
		return w, rejected(turn.CodeApprovalExpired, fmt.Sprintf("%s %s has expired at %s", kind, id, w.ExpiresAt.UTC().Format(time.RFC3339)))
	}
	return w, nil
}
