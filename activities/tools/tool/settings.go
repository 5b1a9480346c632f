package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// Settings are what the operator, or the program that embeds a Go function, declares about one tool.
type Settings struct {
	Repeatable    bool
	LocalActivity bool      // needs Repeatable
	Risk          turn.Risk // empty: the risk of the tool's annotations, or else SuggestedRisk
	Timeout       time.Duration
	// TotalTimeout bounds a call that reports progress. BackgroundTimeout is how long a call may continue after its
	// outcome was recorded as unknown.
	TotalTimeout, BackgroundTimeout time.Duration
	ReadOnly, Taints                bool // see turn.Effects
	SessionAffinity                 bool // see turn.Effects; of functions
	AlwaysAsks                      bool // see turn.Effects; of functions
	// Hosts is set for a tool that sends requests to the host of its argument url. Calls to a host that it does not list
	// need an approval.
	Hosts *turn.HostRule
	// Commands is set for a tool whose argument command is a command line.
	Commands *turn.CommandRule
	// Values are the only values that a function's arguments may have, by the names of the arguments.
	Values map[string][]any
	// Replaceable is set for a function that may be removed and replaced.
	Replaceable bool
}

// Check returns an error if the risk is not known or the settings contradict each other.
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
	if err != nil { // not expected, because everything hashed was decoded from JSON
		b = fmt.Appendf(nil, "%#v", v)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
