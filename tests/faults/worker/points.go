package main

import (
	"context"
	"time"

	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// points is a journal whose writing methods are points.
type points struct {
	engine.Journal
	killer *killer
}

func (p *points) Begin(ctx context.Context, in turn.BeginInput) (journal.BeginResult, error) {
	return at(p.killer, "Begin", func() (journal.BeginResult, error) { return p.Journal.Begin(ctx, in) })
}

func (p *points) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	return at(p.killer, "StartInference", func() (journal.Inference, error) { return p.Journal.StartInference(ctx, in) })
}

func (p *points) SettleInference(ctx context.Context, in journal.SettleInference) (journal.Inference, error) {
	return at(p.killer, "SettleInference", func() (journal.Inference, error) { return p.Journal.SettleInference(ctx, in) })
}

func (p *points) FailInference(ctx context.Context, key journal.StepKey, attempt int, code turn.Code,
	message string) (int, error) {
	return at(p.killer, "FailInference", func() (int,
		error) {
		return p.Journal.FailInference(ctx, key, attempt, code, message)
	})
}

func (p *points) ChangeModel(ctx context.Context, key journal.StepKey, attempt int, event turn.Event,
	model turn.ModelEvent) error {
	return p.killer.around("ChangeModel", func() error { return p.Journal.ChangeModel(ctx, key, attempt, event, model) })
}

func (p *points) ReleaseInference(ctx context.Context, key journal.StepKey, attempt int) error {
	return p.killer.around("ReleaseInference", func() error { return p.Journal.ReleaseInference(ctx, key, attempt) })
}

func (p *points) LeaseCapacity(ctx context.Context, in fleet.CapacityInput) (fleet.CapacityResult, error) {
	return at(p.killer, "LeaseCapacity",
		func() (fleet.CapacityResult, error) { return p.Journal.LeaseCapacity(ctx, in) })
}

func (p *points) ReserveUsage(ctx context.Context, in journal.ReserveInput) (output int64,
	refusal *fleet.Refusal, err error) {
	err = p.killer.around("ReserveUsage", func() error {
		output, refusal, err = p.Journal.ReserveUsage(ctx, in)
		return err
	})
	return output, refusal, err
}

func (p *points) SettleCompaction(ctx context.Context, in journal.SettleCompaction) (turn.Compaction, error) {
	return at(p.killer, "SettleCompaction",
		func() (turn.Compaction, error) { return p.Journal.SettleCompaction(ctx, in) })
}

func (p *points) Ask(ctx context.Context, session, turnID string, requests []turn.Request,
	asked time.Time) ([]turn.Decision, error) {
	return at(p.killer, "Ask", func() ([]turn.Decision, error) {
		return p.Journal.Ask(ctx, session, turnID, requests, asked)
	})
}

func (p *points) Decide(ctx context.Context, session, turnID string, decisions []turn.Decision,
	at time.Time) error {
	return p.killer.around("Decide", func() error { return p.Journal.Decide(ctx, session, turnID, decisions, at) })
}

func (p *points) ClaimCall(ctx context.Context, in journal.CallRecord, approved bool,
	sensitive ...string) (journal.CallRecord, error) {
	return at(p.killer, "ClaimCall", func() (journal.CallRecord, error) {
		return p.Journal.ClaimCall(ctx, in, approved, sensitive...)
	})
}

func (p *points) SettleCall(ctx context.Context, turnID, callID string, attempt int, r turn.ToolResult,
	settled time.Time) (journal.CallRecord, error) {
	return at(p.killer, "SettleCall", func() (journal.CallRecord, error) {
		return p.Journal.SettleCall(ctx, turnID, callID, attempt, r, settled)
	})
}

func (p *points) MoveTree(ctx context.Context, tenant, session, worker string, to journal.Tree) error {
	return p.killer.around("MoveTree", func() error { return p.Journal.MoveTree(ctx, tenant, session, worker, to) })
}

func (p *points) ReleaseCall(ctx context.Context, turnID, callID string, attempt int) error {
	return p.killer.around("ReleaseCall", func() error { return p.Journal.ReleaseCall(ctx, turnID, callID, attempt) })
}

func (p *points) SuspendCall(ctx context.Context, turnID, callID string, attempt int, continuation []byte) error {
	return p.killer.around("SuspendCall", func() error {
		return p.Journal.SuspendCall(ctx, turnID, callID, attempt, continuation)
	})
}

func (p *points) Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error) {
	return at(p.killer, "Finish", func() (journal.TurnRecord, error) { return p.Journal.Finish(ctx, in) })
}

func (p *points) AppendEvents(ctx context.Context, key journal.StepKey, attempt int, events []turn.Event) error {
	return p.killer.around("AppendEvents", func() error { return p.Journal.AppendEvents(ctx, key, attempt, events) })
}

func (p *points) AppendStream(ctx context.Context, in journal.StreamInput) error {
	return p.killer.around("AppendEvents", func() error { return p.Journal.AppendStream(ctx, in) })
}

func (p *points) PublishCatalogue(ctx context.Context, c turn.Catalogue) error {
	return p.killer.around("PublishCatalogue", func() error { return p.Journal.PublishCatalogue(ctx, c) })
}
