package main

import (
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
)

// lateMessages returns the points at which the worker dies while a turn ends that has accepted a message too late. A
// delivery sends the message to the session again, where it begins the next turn.
func lateMessages() []point {
	return []point{
		lateAndDies("late_settled", "the turn is settled and the late message is not handed on", "Finish:after:1"),
		interject("late_handed_on", "the late message is handed on and the turn has not closed", joining(hold, false),
			targetToGate, killWhenHandedOn),
		lateAndDies("late_sent", "the late message is sent again and its turn is not begun", "Begin:before:2"),
		lateAndDies("late_begun", "the turn of the late message is in the journal and the workflow does not know",
			"Begin:after:2"),
	}
}

func lateAndDies(name, about, at string) point {
	p := interject(name, about, joining(hold, false), targetToGate, func(ctx context.Context, r *harness) error {
		return errors.Join(r.openGate(), r.died(ctx), r.heal(ctx))
	})
	p.weak = func(*harness) []string { return []string{"-kill", at} }
	return p
}

func targetToGate(r *harness, ctx context.Context) error {
	return errors.Join(r.askTarget(ctx), r.atGate(ctx))
}

// killWhenHandedOn kills the worker as soon as Temporal has the delivery.
func killWhenHandedOn(ctx context.Context, r *harness) error {
	err := errors.Join(r.openGate(), reach(ctx, "the delivery of the late message", func() bool {
		events := r.direct.GetWorkflowHistory(ctx, r.target.session, r.turnID(ctx), false,
			enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				return false
			}
			if e.EventType == enumspb.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED {
				return true
			}
		}
		return false
	}))
	r.first().kill()
	return errors.Join(err, r.heal(ctx))
}
