package main

import (
	"context"
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
		proposed := `{"steps":[`
		for n := range planSteps {
			if n > 0 {
				proposed += ","
			}
			proposed += fmt.Sprintf(`{"description":"step %d of %s"}`, n+1, r.target.id)
		}
		r.target.add(1, func(int) string { return planTool })
		r.target.steps[0][0].key = proposed + `]}`
		for n := range planSteps {
			r.target.add(1, func(int) string { return tools[r.rng.IntN(3)] })
			r.target.add(1, func(int) string { return stepTool })
			r.target.steps[2+2*n][0].key = fmt.Sprintf(`{"step":%d,"assessment":"done","reflection":"step %d is done"}`, n+1, n+1)
		}
	}
	p.then = func(ctx context.Context, r *harness) error { return r.carriedOut(ctx) }
	return p
}

// carriedOut checks that the journal has the target's plan with all of its steps, each done once.
func (r *harness) carriedOut(ctx context.Context) error {
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
	p, changes := journal.PlanOf(calls, requests), 0
	for _, c := range calls {
		if plan.Is(c.Call.Tool) && c.Outcome == turn.OutcomeOK {
			changes++
		}
	}
	if changes != planSteps+1 || !p.Ended || len(p.Steps) != planSteps || p.Revisions > 0 {
		return fmt.Errorf("the plan was not carried out once: %d changes\n%s", changes, p)
	}
	return nil
}
