package turn

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A sample is an answer of the model that a tool's server asks for in the middle of a call (sampling/createMessage). The
// model sees what the server has sent and nothing else, and the answer goes to that server and nowhere else.

// SampleRequest is what a model is asked for a server. Its JSON, as Bytes writes it, is what a person is shown and allows.
type SampleRequest struct {
	System      string          `json:"system,omitempty"`
	Messages    []SampleMessage `json:"messages"`
	MaxTokens   int             `json:"max_tokens"` // of the answer
	Stop        []string        `json:"stop,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
}

// SampleMessage is a message of RoleUser or RoleAssistant.
type SampleMessage struct {
	Role Role   `json:"role"`
	Text string `json:"text"`
}

// Bytes is the request as it is kept, hashed and shown: JSON over several lines. Equal requests give equal bytes.
func (r SampleRequest) Bytes() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("writing down what the model would be asked: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// ReadSampleRequest undoes Bytes.
func ReadSampleRequest(b []byte) (r SampleRequest, err error) {
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("reading what the model would be asked: %w", err)
	}
	return r, nil
}

// Prompt is the request as a model is sent it, with an answer of at most so many tokens.
func (r SampleRequest) Prompt(model string, maxTokens int) Prompt {
	p := Prompt{Model: model, System: r.System, Stop: r.Stop, Temperature: r.Temperature, MaxTokens: maxTokens}
	for _, m := range r.Messages {
		p.Messages = append(p.Messages, Message{Role: m.Role, Text: m.Text})
	}
	return p
}

// Sampling is the part of an Inquiry that asks for a sample. The journal has the whole request, under ID.
type Sampling struct {
	ID   string `json:"id,omitempty"`   // of the sample, and of the wait for its approval: unique in its turn
	Hash string `json:"hash,omitempty"` // of the request's bytes, SHA-256 in hexadecimal
	// MaxTokens bounds the answer. Most is how many samples a turn may have for the server.
	MaxTokens int `json:"max_tokens"`
	Most      int `json:"most"`
	// Free: the operator lets the server ask without a person's word.
	Free bool `json:"free,omitempty"`
	// Refused says why nobody is asked, neither a person nor the model. Empty where they may be.
	Refused string `json:"refused,omitempty"`
	// Request is there only between the tool host and the activity that keeps it.
	Request *SampleRequest `json:"-"`
}

// Sampled is the answer to a SampleRequest.
type Sampled struct {
	Text       string `json:"text"`
	Model      string `json:"model"`                 // as the provider names it
	StopReason string `json:"stop_reason,omitempty"` // in the protocol's words: endTurn, maxTokens, …
	Usage      Usage  `json:"usage"`
}

// StopReason is the protocol's word for a provider's finish reason.
func StopReason(finish string) string {
	switch finish {
	case "", "stop":
		return "endTurn"
	case "length":
		return "maxTokens"
	case "content_filter":
		return "contentFilter"
	}
	return finish
}

// GuardSample says whether a sample may be made, and of how many tokens its answer may be at most: of no more than the
// turn has left. 0 means that the turn has no ceiling.
func GuardSample(l Limits, c Counters) (most int64, no *Refusal) {
	switch {
	case c.Busy >= l.TurnTimeout:
		return 0, refuse(FinishTimeout, "the turn worked for %s, which is its turn_timeout", l.TurnTimeout)
	case l.MaxTokens > 0 && c.Usage.Total() >= l.MaxTokens:
		return 0, refuse(FinishMaxTokens, "the turn used %d tokens (max_tokens is %d)", c.Usage.Total(), l.MaxTokens)
	case l.MaxCostUSD > 0 && !c.CostUnknown && c.CostUSD >= l.MaxCostUSD:
		return 0, refuse(FinishMaxCost, "the turn cost %.4f USD (max_cost_usd is %.4f)", c.CostUSD, l.MaxCostUSD)
	case l.MaxTokens > 0:
		return l.MaxTokens - c.Usage.Total(), nil
	}
	return 0, nil
}
