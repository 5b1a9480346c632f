package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// plans returns the points at which the worker dies while a turn works by a plan: alone, or with users who confirm the
// plan and each of its steps.
func plans() []point {
	return []point{
		byPlan(dies("plan_claimed", "a plan or a reflection is claimed and not settled", "ClaimCall:after", anyOfPlan)),
		byPlan(dies("plan_settle_before", "a plan or a reflection is decided and not settled", "SettleCall:before",
			anyOfPlan)),
		byPlan(dies("plan_settle_after", "a plan or a reflection is settled and the workflow does not know",
			"SettleCall:after", anyOfPlan)),
		byPlan(dies("plan_step_call", "a call of a step has its effect and is not settled", "SettleCall:before",
			func(r *harness) int { return 2 * (1 + r.rng.IntN(planSteps)) })),
		byPlan(dies("plan_infer", "an inference of a step is not settled", "SettleInference:before", anyStep)),
		byPlan(peopleDie("plan_ask", "a plan waits for its confirmation and the workflow does not know", "Ask:after:1", nil)),
		byPlan(peopleDie("plan_decide", "a confirmation is in the journal and the workflow does not know",
			"Decide:after:2", nil)),
		byPlan(whileWaiting("plan_dead", "the confirmation comes while no worker is there", nil, speakToNobody)),
		written(dies("plan_dispatch_before", "a plan is accepted and the call of its next step is not in the journal",
			"SettleInference:before", anyWritten)),
		written(dies("plan_dispatch_after", "the call of a step is in the journal and the workflow does not know",
			"SettleInference:after", anyWritten)),
		written(dies("plan_dispatch_claim", "the call of a written step is claimed and not settled", "ClaimCall:after", anyWritten)),
		written(dies("plan_dispatch_effect", "the call of a written step has its effect and is not settled",
			"SettleCall:before", anyWritten)),
		written(dies("plan_dispatch_settled", "the call of a written step is settled and the workflow does not know",
			"SettleCall:after", anyWritten)),
		written(peopleDie("plan_dispatch_confirmed", "the confirmation of written steps is in the journal and the workflow does not know",
			"Decide:after:1", nil)),
	}
}

// planSteps is how many steps the target's plan has.
const planSteps = 3

// The wire names of the tools of plans; the key of such a call is its arguments.
const (
	planTool = "local_plan"
	stepTool = "local_plan_step"
)

// anyOfPlan picks the plan or one of the reflections: in a turn with a plan, every second call is one.
func anyOfPlan(r *harness) int { return 1 + 2*r.rng.IntN(planSteps+1) }

// byPlan lets the target work by a plan whose steps have one call each. Points that users take part in confirm it.
func byPlan(p point) point {
	confirm := plan.ConfirmStep
	if p.shape != nil {
		confirm = plan.ConfirmNever
	}
	p.shape = func(r *harness) {
		r.target.plan, r.target.steps = confirm, nil
		r.companion.steps = nil
		r.propose(func(c callPlan) plan.Step { return plan.Step{Tool: c.tool} }, stepTool)
	}
	p.then = func(ctx context.Context, r *harness) error { return r.carriedOut(ctx, planSteps+1) }
	return p
}

// written lets the target propose a plan of written steps, which is carried out without the model. Points that users
// take part in confirm it.
func written(p point) point {
	confirm := plan.ConfirmPlan
	if p.shape != nil {
		confirm = plan.ConfirmNever
	}
	p.shape = func(r *harness) {
		r.target.plan, r.target.steps, r.target.written = confirm, nil, true
		r.companion.steps = nil
		r.propose(func(c callPlan) plan.Step { return plan.Step{Tool: c.tool, Args: json.RawMessage(c.arguments())} }, "")
	}
	p.then = func(ctx context.Context, r *harness) error { return r.carriedOut(ctx, 1) }
	return p
}

// anyWritten picks the inference or the call of a written step: the first ones are those of the plan.
func anyWritten(r *harness) int { return 2 + r.rng.IntN(planSteps) }

// propose gives the target a plan and a call for each of its steps, which step describes. If reflect is a tool, each
// step ends with a call of it.
func (r *harness) propose(step func(callPlan) plan.Step, reflect string) {
	tools := []string{again, quick} // a written call whose outcome is unknown would end the plan
	if reflect != "" {
		tools = []string{once, again, quick}
	}
	r.target.add(1, func(int) string { return planTool })
	var proposed plan.Plan
	for n := range planSteps {
		r.target.add(1, func(int) string { return tools[r.rng.IntN(len(tools))] })
		s := step(r.target.steps[len(r.target.steps)-1][0])
		s.Description = fmt.Sprintf("step %d of %s", n+1, r.target.id)
		proposed.Steps = append(proposed.Steps, s)
		if reflect != "" {
			r.target.add(1, func(int) string { return reflect })
			r.target.steps[2+2*n][0].key = fmt.Sprintf(`{"step":%d,"assessment":"done","reflection":"step %d is done"}`, n+1, n+1)
		}
	}
	raw, _ := json.Marshal(proposed) // always marshals
	r.target.steps[0][0].key = string(raw)
}

// carriedOut checks that the journal has the target's plan with all of its steps, each done once and with the calls of
// the target, after this many calls of the plan's tools.
func (r *harness) carriedOut(ctx context.Context, changes int) error {
	target, err := r.journal.Delivered(ctx, r.target.session, r.target.id)
	if err != nil {
		return err
	}
	calls, err := r.journal.Calls(ctx, target.ID)
	if err != nil {
		return err
	}
	requests, err := r.journal.Requests(ctx, target.ID)
	if err != nil {
		return err
	}
	p, made := journal.PlanOf(calls, requests, ""), 0
	for i, c := range calls {
		want := r.target.steps[min(i, len(r.target.steps)-1)][0]
		if turn.WireName(c.Call.Tool) != want.tool || c.Call.Arguments != want.arguments() {
			return fmt.Errorf("call %s of the plan is not as it was written: %s %s", c.Call.ID, c.Call.Tool, c.Call.Arguments)
		}
		if plan.Is(c.Call.Tool) && c.Outcome == turn.OutcomeOK {
			made++
		}
	}
	if made != changes || !p.Ended || len(p.Steps) != planSteps || p.Revisions > 0 {
		return fmt.Errorf("the plan was not carried out once: %d calls of its tools\n%s", made, p)
	}
	return nil
}
