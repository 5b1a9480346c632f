//go:build mutants

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// runsEarly runs a call's tool when its approval is requested.
type runsEarly struct{ mutant }

func (m *runsEarly) Ask(ctx context.Context, session, turnID string, requests []turn.Request,
	at time.Time) ([]turn.Decision, error) {
	settled, err := m.Journal.Ask(ctx, session, turnID, requests, at)
	for _, w := range requests {
		if err == nil && w.Kind == turn.RequestApproval {
			err = m.carryOut(w)
		}
	}
	return settled, err
}

// carryOut calls the request's tool without the ledger, on its own server process.
func (m *runsEarly) carryOut(w turn.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	parts := strings.Split(w.Tool, "/") // mcp/SERVER/TOOL
	for _, s := range m.cfg.MCP.Servers {
		if s.ID != parts[1] {
			continue
		}
		cmd := exec.Command(s.Command, s.Args...)
		cmd.Env = os.Environ()
		session, err := mcp.NewClient(&mcp.Implementation{Name: "early"}, nil).Connect(ctx,
			&mcp.CommandTransport{Command: cmd}, nil)
		if err != nil {
			return err
		}
		defer session.Close()
		_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: parts[2], Arguments: json.RawMessage(w.Arguments)})
		return err
	}
	return nil
}

// joinedDropped drops messages that were merged into a turn.
type joinedDropped struct{ mutant }

func (m *joinedDropped) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	in.Messages = nil
	return m.Journal.StartInference(ctx, in)
}

// joinedDoubled takes each merged message twice.
type joinedDoubled struct{ mutant }

func (m *joinedDoubled) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	for _, message := range in.Messages {
		message.ID += "-again"
		in.Messages = append([]turn.UserMessage{message}, in.Messages...) // in front, so that the model answers the right one
	}
	return m.Journal.StartInference(ctx, in)
}

// decisionOverridden records the opposite of each decision.
type decisionOverridden struct{ mutant }

func (m *decisionOverridden) Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error) {
	record, err := m.Journal.Finish(ctx, in)
	if err != nil {
		return record, err
	}
	return record, m.write(ctx, []any{in.Turn},
		`UPDATE requests SET status = CASE status WHEN 'allowed' THEN 'denied' ELSE 'allowed' END, allowed = NOT allowed
		WHERE status IN ('allowed', 'denied') AND turn = (SELECT id FROM turns WHERE turn_id = $1)`)
}

// waits are the requests of an interceptor's turn.
type waits struct{ list []turn.Request }

func (o *outbound) ExecuteLocalActivity(ctx workflow.Context, activity string, args ...any) workflow.Future {
	if requests, ok := args[0].([]turn.Request); ok && activity == "Ask" {
		o.waits.list = requests
	}
	return o.Next.ExecuteLocalActivity(ctx, activity, args...)
}

func (i *inbound) ValidateUpdate(ctx workflow.Context, in *interceptor.UpdateInput) error {
	a, ok := in.Args[0].(workflows.DecideInput)
	if ok && a.ArgumentsHash != "" && (i.mutant.lax || i.mutant.crossed) { // a decision about a call
		return nil
	}
	return i.Next.ValidateUpdate(ctx, in)
}

func (i *inbound) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	if a, ok := in.Args[0].(workflows.DecideInput); ok && a.ArgumentsHash != "" {
		a.Allow = a.Allow || i.mutant.allowing
		if i.mutant.crossed {
			a = i.waits.next(a)
		}
		in.Args[0] = a
	}
	return i.Next.ExecuteUpdate(ctx, in)
}

// next returns the approval for the call after the one that it names.
func (w *waits) next(a workflows.DecideInput) workflows.DecideInput {
	for n, request := range w.list {
		if request.ID == a.Request {
			other := w.list[(n+1)%len(w.list)]
			a.Request, a.ArgumentsHash = other.ID, other.ArgumentsHash
			break
		}
	}
	return a
}

// unasked is a future whose proposal needs no approval.
type unasked struct{ workflow.Future }

func (u unasked) Get(ctx workflow.Context, value any) error {
	err := u.Future.Get(ctx, value)
	if res, ok := value.(*workflows.InferResult); ok {
		for id, permit := range res.Proposal.Permits { //workflowcheck:ignore: each is changed by itself
			if permit.Permission == turn.Ask {
				res.Proposal.Permits[id] = turn.Permit{Permission: turn.Allow}
			}
		}
	}
	return err
}
