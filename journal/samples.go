package journal

import (
	"encoding/json"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// SampleInput is a request of a tool's server for an answer of the model, before anybody has been asked.
type SampleInput struct {
	Turn   string
	CallID string
	ID     string // unique in its turn
	Server string
	// Request is what the model would be asked, byte for byte, MaxSampleBytes at most. Its hash is what is allowed.
	Request []byte
	// Free: it needs no person's word.
	Free bool
	// Most is how many requests of the server a turn may have.
	Most int
	At   time.Time
}

// SampleRecord is the ledger's record of a sample.
type SampleRecord struct {
	Turn   string `json:"turn"`
	CallID string `json:"call_id"`
	Step   int    `json:"step"`
	Tool   string `json:"tool"`
	ID     string `json:"id"`
	Server string `json:"server"`
	Hash   string `json:"hash"` // of Request
	Free   bool   `json:"free,omitempty"`
	// Attempt counts every start, crashes included; Failures are those that ended in a provider's failure.
	Attempt  int    `json:"attempt"`
	Failures int    `json:"failures,omitempty"`
	Model    string `json:"model,omitempty"` // that was asked
	// Request is what the model is asked: turn.SampleRequest.
	Request json.RawMessage `json:"request"`
	// Answer is there where the sample is settled, Refused where it was not made and never will be.
	Answer  *turn.Sampled `json:"answer,omitempty"`
	Refused string        `json:"refused,omitempty"`
	AskedAt time.Time     `json:"asked_at,omitzero"`
	EndedAt time.Time     `json:"ended_at,omitzero"`
}

// Over reports whether nothing more will become of the sample.
func (r SampleRecord) Over() bool { return r.Answer != nil || r.Refused != "" }

// StartSample opens an attempt.
type StartSample struct {
	Session string
	Turn    string
	ID      string
	Hash    string // of the request that was allowed
	Model   string
	At      time.Time
}

// SettleSample ends a sample: with its answer, or with the reason why there will be none.
type SettleSample struct {
	Turn    string
	ID      string
	Attempt int // of the answer; a refusal needs none
	Answer  *turn.Sampled
	Refused string
	At      time.Time
}

// CleanSampled returns an answer as stores keep it: valid text of at most MaxSampledBytes. One that is longer is cut, as
// the model would have cut it where it had been told to.
func CleanSampled(s turn.Sampled) turn.Sampled {
	text := CleanText(s.Text)
	s.Text, s.Model, s.StopReason = Preview(text, MaxSampledBytes), CleanText(s.Model), Preview(CleanText(s.StopReason), PreviewBytes)
	if len(s.Text) < len(text) {
		s.StopReason = turn.StopReason("length")
	}
	return s
}
