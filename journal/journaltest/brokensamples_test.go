package journaltest_test

import (
	"context"

	"github.com/everturn/everturn/journal"
)

// paysSamplesAgain forgets what the model has answered a server.
type paysSamplesAgain struct{ journal.Store }

func (s paysSamplesAgain) StartSample(ctx context.Context, in journal.StartSample) (journal.SampleRecord, error) {
	rec, err := s.Store.StartSample(ctx, in)
	rec.Answer = nil
	return rec, err
}

// lendsUnasked asks nobody.
type lendsUnasked struct{ journal.Store }

func (s lendsUnasked) AskSample(ctx context.Context, in journal.SampleInput) (journal.SampleRecord, error) {
	in.Free = true
	return s.Store.AskSample(ctx, in)
}

// lendsForEver does not count.
type lendsForEver struct{ journal.Store }

func (s lendsForEver) AskSample(ctx context.Context, in journal.SampleInput) (journal.SampleRecord, error) {
	in.Most = 1000
	return s.Store.AskSample(ctx, in)
}

// endsTwice takes whatever comes last for the end of a sample.
type endsTwice struct{ journal.Store }

func (s endsTwice) SettleSample(ctx context.Context, in journal.SettleSample) (journal.SampleRecord, error) {
	rec, err := s.Store.SettleSample(ctx, in)
	if err == nil && in.Answer != nil {
		rec.Answer, rec.Refused = in.Answer, ""
	}
	return rec, err
}
