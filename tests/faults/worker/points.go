package main

import (
	"context"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// points is a journal whose writing methods are points.
type points struct {
	journal.Store
	killer *killer
}

func (p *points) Begin(ctx context.Context, in journal.BeginInput) (journal.BeginResult, error) {
	return at(p.killer, "Begin", func() (journal.BeginResult, error) { return p.Store.Begin(ctx, in) })
}

func (p *points) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	return at(p.killer, "StartInference", func() (journal.Inference, error) { return p.Store.StartInference(ctx, in) })
}

func (p *points) SettleInference(ctx context.Context, in journal.SettleInference) (journal.Inference, error) {
	return at(p.killer, "SettleInference", func() (journal.Inference, error) { return p.Store.SettleInference(ctx, in) })
}

func (p *points) FailInference(ctx context.Context, key journal.StepKey, attempt int, code turn.Code,
	message string) (int, error) {
	return at(p.killer, "FailInference", func() (int,
		error) {
		return p.Store.FailInference(ctx, key, attempt, code, message)
	})
}

func (p *points) Ask(ctx context.Context, in journal.AskInput) ([]turn.Decision, error) {
	return at(p.killer, "Ask", func() ([]turn.Decision, error) { return p.Store.Ask(ctx, in) })
}

func (p *points) Decide(ctx context.Context, in journal.DecideInput) error {
	return p.killer.around("Decide", func() error { return p.Store.Decide(ctx, in) })
}

func (p *points) ClaimCall(ctx context.Context, in journal.ClaimInput) (journal.Claim, error) {
	return at(p.killer, "ClaimCall", func() (journal.Claim, error) { return p.Store.ClaimCall(ctx, in) })
}

func (p *points) SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	return at(p.killer, "SettleCall", func() (journal.CallRecord, error) { return p.Store.SettleCall(ctx, in) })
}

func (p *points) ReleaseCall(ctx context.Context, turnID, callID string, attempt int) error {
	return p.killer.around("ReleaseCall", func() error { return p.Store.ReleaseCall(ctx, turnID, callID, attempt) })
}

func (p *points) SuspendCall(ctx context.Context, in journal.SettleInput) error {
	return p.killer.around("SuspendCall", func() error { return p.Store.SuspendCall(ctx, in) })
}

func (p *points) Finish(ctx context.Context, in journal.FinishInput) (journal.TurnRecord, error) {
	return at(p.killer, "Finish", func() (journal.TurnRecord, error) { return p.Store.Finish(ctx, in) })
}

func (p *points) AppendChunks(ctx context.Context, key journal.StepKey, attempt int, chunks []turn.Chunk) error {
	return p.killer.around("AppendChunks", func() error { return p.Store.AppendChunks(ctx, key, attempt, chunks) })
}

func (p *points) PublishCatalogue(ctx context.Context, c turn.Catalogue) error {
	return p.killer.around("PublishCatalogue", func() error { return p.Store.PublishCatalogue(ctx, c) })
}
