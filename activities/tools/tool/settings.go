package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Settings are what the operator, or the program that embeds a Go function, says of one tool.
type Settings struct {
	Repeatable    bool
	LocalActivity bool      // needs Repeatable
	Risk          turn.Risk // empty: from the annotations, else from words in the tool's name and arguments, else medium
	Timeout       time.Duration
	// TotalTimeout bounds a call that reports progress. BackgroundTimeout is how long an abandoned call may go on.
	TotalTimeout, BackgroundTimeout time.Duration
	ReadOnly, Taints                bool // see turn.Effects
	// Hosts makes calls ask that go to a host which is not listed.
	Hosts *turn.HostRule
	// Values are the only values of a function's arguments, by their names.
	Values map[string][]any
}

// Check returns an error if the settings contradict each other.
func (s Settings) Check() error {
	switch s.Risk {
	case "", turn.RiskLow, turn.RiskMedium, turn.RiskHigh:
	default:
		return fmt.Errorf("risk %q is not known: use low, medium or high", s.Risk)
	}
	if s.LocalActivity && !s.Repeatable {
		return fmt.Errorf("it has local_activity but is not repeatable: a local activity may run twice after a crash; set " +
			"both or neither")
	}
	return nil
}

// Hash returns the SHA-256, in hexadecimal, of v as JSON; encoding/json sorts the keys of maps.
func Hash(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // everything hashed was decoded from JSON
		b = fmt.Appendf(nil, "%#v", v)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
