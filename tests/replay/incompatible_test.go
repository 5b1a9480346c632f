package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// change is another version of the workflow code: its functions run before or instead of the code's own, on the way in
// and out. A nil function changes nothing.
type change struct {
	interceptor.WorkerInterceptorBase
	run      func(ctx workflow.Context, code func() (any, error)) (any, error)
	activity func(ctx workflow.Context, kind string, args []any, next activity) workflow.Future
	local    func(ctx workflow.Context, kind string, args []any, local, regular activity) workflow.Future
	upsert   func() (drop bool)
}

type activity = func(ctx workflow.Context, kind string, args ...any) workflow.Future

func (c *change) InterceptWorkflow(_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &changedIn{change: c}
	in.Next = next
	return in
}

type changedIn struct {
	interceptor.WorkflowInboundInterceptorBase
	change *change
}

func (i *changedIn) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &changedOut{change: i.change}
	out.Next = next
	return i.Next.Init(out)
}

func (i *changedIn) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	code := func() (any, error) { return i.Next.ExecuteWorkflow(ctx, in) }
	if i.change.run == nil {
		return code()
	}
	return i.change.run(ctx, code)
}

type changedOut struct {
	interceptor.WorkflowOutboundInterceptorBase
	change *change
}

func (o *changedOut) ExecuteActivity(ctx workflow.Context, kind string, args ...any) workflow.Future {
	if o.change.activity == nil {
		return o.Next.ExecuteActivity(ctx, kind, args...)
	}
	return o.change.activity(ctx, kind, args, o.Next.ExecuteActivity)
}

func (o *changedOut) ExecuteLocalActivity(ctx workflow.Context, kind string, args ...any) workflow.Future {
	if o.change.local == nil {
		return o.Next.ExecuteLocalActivity(ctx, kind, args...)
	}
	return o.change.local(ctx, kind, args, o.Next.ExecuteLocalActivity, o.Next.ExecuteActivity)
}

func (o *changedOut) UpsertTypedSearchAttributes(ctx workflow.Context,
	attributes ...temporal.SearchAttributeUpdate) error {
	if o.change.upsert != nil && o.change.upsert() {
		return nil
	}
	return o.Next.UpsertTypedSearchAttributes(ctx, attributes...)
}

// renamed gives activities other names.
func renamed(names map[string]string) *change {
	return &change{activity: func(ctx workflow.Context, kind string, args []any, next activity) workflow.Future {
		if other, ok := names[kind]; ok {
			kind = other
		}
		return next(ctx, kind, args...)
	}}
}

// swapped exchanges the first two calls of the first step.
func swapped(args []any) []any {
	order := map[string]string{"1.0": "1.1", "1.1": "1.0"}
	if in, ok := args[0].(workflows.CallInput); ok && order[in.Call.ID] != "" {
		in.Call.ID = order[in.Call.ID]
		return []any{in}
	}
	return args
}

// slept adds a timer before or after the turn.
func slept(first bool) *change {
	return &change{run: func(ctx workflow.Context, code func() (any, error)) (any, error) {
		if first {
			if err := workflow.Sleep(ctx, time.Second); err != nil {
				return nil, err
			}
			return code()
		}
		out, err := code()
		disconnected, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		if late := workflow.Sleep(disconnected, time.Second); late != nil {
			return nil, late
		}
		return out, err
	}}
}

// incompatible are changes to the code under which a running turn could not continue, each with kept histories that
// must show it: one that completes and, if there are any, others, whose endings the SDK alone does not compare.
var incompatible = map[string]struct {
	change    func() *change
	histories []string
}{
	"an activity is renamed": {func() *change {
		return renamed(map[string]string{"Infer": "Ponder", "HandOver": "Carry"})
	},
		[]string{"v1-answer", "v1-invalid-action", "v1-cancelled-in-inference", "v1-continued-first", "v1-deliver-waiting",
			"v1-deliver-cancelled"}},
	"two activities change places": {func() *change {
		return renamed(map[string]string{"Infer": "CallTool", "CallTool": "Infer"})
	},
		[]string{"v1-call-local_echo", "v1-tool-error-fail"}},
	"an activity is left out": {func() *change {
		return &change{activity: func(ctx workflow.Context, kind string, args []any, next activity) workflow.Future {
			if kind != "CallTool" {
				return next(ctx, kind, args...)
			}
			done, settle := workflow.NewFuture(ctx)
			settle.SetValue(workflows.CallResult{Tool: "local/echo", Outcome: turn.OutcomeOK})
			return &encoded{done, ctx}
		}}
	}, []string{"v1-parallel-local_echo", "v1-cancelled-in-call-regular"}},
	"an activity is asked for twice": {func() *change {
		return &change{activity: func(ctx workflow.Context, kind string, args []any, next activity) workflow.Future {
			next(ctx, kind, args...)
			return next(ctx, kind, args...)
		}}
	}, []string{"v1-answer", "v1-model-llm_rejected"}},
	"parallel calls change places": {func() *change {
		return &change{activity: func(ctx workflow.Context, kind string, args []any, next activity) workflow.Future {
			return next(ctx, kind, swapped(args)...)
		}}
	}, []string{"v1-parallel-local_echo", "v1-mixed-lanes"}},
	"parallel quick calls change places": {func() *change {
		return &change{local: func(ctx workflow.Context, kind string, args []any, local, _ activity) workflow.Future {
			return local(ctx, kind, swapped(args)...)
		}}
	}, []string{"v1-parallel-local_quick_echo", "v1-killed-in-quick-call", "v1-limit-max_steps"}},
	"a quick call is left out": {func() *change {
		return &change{local: func(ctx workflow.Context, kind string, args []any, local, _ activity) workflow.Future {
			if in, ok := args[0].(workflows.CallInput); !ok || in.Call.ID != "1.5" {
				return local(ctx, kind, args...)
			}
			done, settle := workflow.NewFuture(ctx)
			settle.SetValue(workflows.CallResult{Tool: "local/quick_echo", Outcome: turn.OutcomeOK})
			return &encoded{done, ctx}
		}}
	}, []string{"v1-parallel-local_quick_echo"}},
	"a call changes its lane": {func() *change {
		return &change{local: func(ctx workflow.Context, kind string, args []any, _, regular activity) workflow.Future {
			return regular(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Second}), kind,
				args...)
		}}
	}, []string{"v1-call-local_quick_echo", "v1-killed-in-quick-call", "v1-duplicate"}},
	"a timer comes first": {func() *change { return slept(true) },
		[]string{"v1-answer", "v1-invalid-action", "v1-cancelled-in-call-regular", "v1-no-message", "v1-continued-middle",
			"v1-deliver"}},
	"a timer comes last": {func() *change { return slept(false) },
		[]string{"v1-answer", "v1-invalid-action", "v1-cancelled-in-call-regular", "v1-no-message", "v1-continued-first"}},
	"the search attributes are left out": {func() *change { return &change{upsert: func() bool { return true }} },
		[]string{"v1-answer", "v1-invalid-action", "v1-cancelled-in-call-regular", "v1-no-message"}},
	"a failure becomes an answer": {func() *change {
		return &change{run: func(_ workflow.Context, code func() (any, error)) (any, error) {
			out, err := code()
			if err != nil {
				out = workflows.Result{State: turn.StateCompleted, FinishReason: turn.FinishInterrupted}
			}
			return out, nil
		}}
	}, []string{"v1-invalid-action", "v1-cancelled-in-call-regular", "v1-continued-first"}},
}

// encoded is a settled future like an activity's: Get decodes its value into the given type.
type encoded struct {
	workflow.Future
	ctx workflow.Context
}

func (e *encoded) Get(ctx workflow.Context, to any) error {
	var res workflows.CallResult
	if err := e.Future.Get(ctx, &res); err != nil {
		return err
	}
	payload, err := converter.GetDefaultDataConverter().ToPayload(res)
	if err != nil {
		return err
	}
	return converter.GetDefaultDataConverter().FromPayload(payload, to)
}

// TestAnIncompatibleChangeIsReported shows that a replay can fail, and that the changes make it fail.
func TestAnIncompatibleChangeIsReported(t *testing.T) {
	for name, c := range incompatible {
		t.Run(name, func(t *testing.T) {
			for _, history := range c.histories {
				events := kept(t, history)
				assert.NoError(t, Run(events, &change{}), "%s, unchanged", history)
				err := Run(events, c.change())
				if assert.ErrorIs(t, err, ErrNondeterministic, history) {
					t.Logf("%s: %.160s", history, err)
				}
			}
		})
	}
}
