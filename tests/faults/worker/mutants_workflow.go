//go:build mutants

package main

import (
	"errors"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows"
)

// workflowMutant changes what the workflow asks of Temporal.
type workflowMutant struct {
	interceptor.WorkerInterceptorBase
	attempts          int32 // of a tool call, even if the last one's outcome is unknown
	cancelForStop     bool  // a worker's death is treated as a user's cancel
	timer             bool  // a timer that no history has
	lax               bool  // every decision is accepted, including a second one
	allowing          bool  // every decision allows
	crossed           bool  // a decision counts for the next call
	unasked           bool  // no approval is requested
	repeatable        bool  // every call is repeatable
	affinityForgotten bool  // no call goes to the process that keeps the turn's state
	unbound           bool  // a response is used for any elicitation
}

func (m *workflowMutant) InterceptWorkflow(_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &inbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, m, &waits{}}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	mutant *workflowMutant
	waits  *waits
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, i.mutant, i.waits})
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	mutant *workflowMutant
	waits  *waits
}

func (o *outbound) ExecuteActivity(ctx workflow.Context, activity string, args ...any) workflow.Future {
	m := o.mutant
	if m.timer {
		_ = workflow.Sleep(ctx, time.Millisecond) // only its presence matters
	}
	if options := workflow.GetActivityOptions(ctx); m.attempts > 0 && activity == "CallTool" {
		policy := *options.RetryPolicy
		policy.MaximumAttempts, policy.NonRetryableErrorTypes = m.attempts, nil
		options.RetryPolicy = &policy
		ctx = workflow.WithActivityOptions(ctx, options)
	}
	if in, ok := args[0].(workflows.CallInput); ok && (m.repeatable || m.affinityForgotten || m.unbound) {
		if m.unbound {
			in.ElicitationAttempt = 0
		}
		in.Tool.Repeatable, in.Resume = in.Tool.Repeatable || m.repeatable, in.Resume && !m.affinityForgotten
		args = []any{in}
		if options := workflow.GetActivityOptions(ctx); m.affinityForgotten {
			options.TaskQueue, options.ScheduleToStartTimeout = "", 0
			ctx = workflow.WithActivityOptions(ctx, options)
		}
	}
	future := o.Next.ExecuteActivity(ctx, activity, args...)
	if m.cancelForStop {
		return cancelled{future}
	}
	if m.unasked && activity == "Infer" {
		return unasked{future}
	}
	return future
}

// cancelled is a future that reports timeouts as cancellation.
type cancelled struct{ workflow.Future }

func (c cancelled) Get(ctx workflow.Context, value any) error {
	err := c.Future.Get(ctx, value)
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return temporal.NewCanceledError()
	}
	return err
}
