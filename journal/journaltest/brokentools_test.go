package journaltest_test

import (
	"bytes"
	"context"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/journaltest"
	"github.com/everturn/everturn/workflows/turn"
)

// beginsAgain forgets what a suspended call goes on with.
type beginsAgain struct{ journaltest.Store }

func (s beginsAgain) ClaimCall(ctx context.Context, in journal.ClaimInput) (journal.Claim, error) {
	out, err := s.Store.ClaimCall(ctx, in)
	out.Record.Continuation = nil
	return out, err
}

type suspendsAll struct{ journaltest.Store }

func (s suspendsAll) SuspendCall(ctx context.Context, in journal.SettleInput) error {
	for in.Attempt = 5; in.Attempt > 0; in.Attempt-- {
		if s.Store.SuspendCall(ctx, in) == nil {
			return nil
		}
	}
	return nil
}

// floods says that progress was noted of any call.
type floods struct{ journaltest.Store }

func (s floods) NoteCall(ctx context.Context, turnID, callID string, attempt int, p turn.ToolProgress,
	at time.Time) error {
	_ = s.Store.NoteCall(ctx, turnID, callID, attempt, p, at)
	return nil
}

type forgetsMarks struct{ journaltest.Store }

func (forgetsMarks) Taint(context.Context, string) (*journal.TaintSource, error) { return nil, nil }

// marksAll takes any text for the server's words.
type marksAll struct{ journaltest.Store }

func (s marksAll) SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	if in.Result.Outcome == turn.OutcomeUnknown {
		in.Result.FromServer = true
	}
	return s.Store.SettleCall(ctx, in)
}

// marksInTime marks nothing once a turn is over.
type marksInTime struct{ journaltest.Store }

func (s marksInTime) SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	rec, err := s.Turn(ctx, in.Turn)
	in.Taints = in.Taints && err == nil && !rec.State.Terminal()
	return s.Store.SettleCall(ctx, in)
}

type showsAll struct{ journaltest.Store }

func (s showsAll) Artifact(ctx context.Context, _, hash string) (string, []byte, error) {
	b, err := s.GetBlob(ctx, hash)
	return "text/html", b, err
}

// keepsAllMedia puts those together that are too many.
type keepsAllMedia struct{ journaltest.Store }

func (s keepsAllMedia) SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	var all []byte
	for _, m := range in.Result.Media {
		all = append(all, m.Data...)
	}
	if len(in.Result.Media) > journal.MaxMedia {
		in.Result.Media = []turn.Media{{Type: "image/png", Data: bytes.TrimLeft(all, "\x00")}}
	}
	return s.Store.SettleCall(ctx, in)
}

// acceptsAll accepts whatever is published.
type acceptsAll struct{ journaltest.Store }

func (s acceptsAll) PublishCatalogue(ctx context.Context, c turn.Catalogue) error {
	c.AllowToolChanges = true
	return s.Store.PublishCatalogue(ctx, c)
}

// acceptsHeld accepts what is held when the next version is published.
type acceptsHeld struct{ journaltest.Store }

func (s acceptsHeld) PublishCatalogue(ctx context.Context, c turn.Catalogue) error {
	_, _ = s.ApproveTools(ctx, journal.ApproveToolsInput{Server: c.Server})
	return s.Store.PublishCatalogue(ctx, c)
}

type acceptsUnseen struct{ journaltest.Store }

func (s acceptsUnseen) ApproveTools(ctx context.Context, in journal.ApproveToolsInput) ([]turn.QuarantinedTool, error) {
	in.Hashes = nil
	return s.Store.ApproveTools(ctx, in)
}

// losesLate says that a late result is kept, and keeps none.
type losesLate struct{ journaltest.Store }

func (s losesLate) SettleCall(ctx context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	if rec, err := s.Call(ctx, in.Turn, in.CallID); err == nil && rec.Outcome != "" {
		rec.Late = true
		return rec, nil
	}
	return s.Store.SettleCall(ctx, in)
}

type losesReplies struct{ journaltest.Store }

func (s losesReplies) Requests(ctx context.Context, turnID string) ([]journal.RequestRecord, error) {
	list, err := s.Store.Requests(ctx, turnID)
	for i := range list {
		if r := list[i].Decision; r != nil {
			r.Response = nil
		}
	}
	return list, err
}
