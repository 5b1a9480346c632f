package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/faults/check"
	"github.com/everturn/everturn/workflows/turn"
)

// restartTally counts the turns of a liveness run in its ledgers. The turns after the load (see restored) do not count.
type restartTally struct {
	turns, calls int
	givenUp      int // calls that ended as not sent
	unknown      int
	repeatable   int // of the unknown ones, repeatable calls
	unfinished   int // turns without an answer, or in which one of the planned calls was never made
	toolless     int // turns whose model was not offered the server's tools with its first request
	partial      int // turns whose model was offered only one of the two
}

// tallyRestarts counts in the ledgers of a liveness run.
func tallyRestarts(l check.Ledgers) restartTally {
	var out restartTally
	for _, s := range l.Sessions {
		made, loaded, answered := map[string]bool{}, false, false
		for _, line := range s.Lines {
			switch {
			case line.Header != nil:
				loaded = strings.Contains(line.Header.Session.ID, "-t")
			case !loaded:
			case line.Turn != nil:
				out.turns++
				answered = line.Turn.State == turn.StateCompleted
			case line.Call != nil:
				out.calls++
				switch {
				case line.Call.Code == turn.CodeToolNotSent:
					out.givenUp++
				case line.Call.Outcome == turn.OutcomeUnknown:
					out.unknown++
					if line.Call.Repeatable {
						out.repeatable++
					}
					made[line.Call.Call.ID] = true
				case line.Call.Outcome == turn.OutcomeOK:
					made[line.Call.Call.ID] = true
				}
			}
		}
		if loaded && (!answered || len(made) < restartCalls) {
			out.unfinished++
		}
	}
	for _, q := range l.Requests {
		if q.Step != 1 || !strings.Contains(q.Asked, "-t") {
			continue
		}
		switch offered(q) {
		case 0:
			out.toolless++
		case 1:
			out.partial++
		}
	}
	return out
}

// offered returns how many of the tools in the plans a request offers.
func offered(q check.Request) int {
	var chat fakellm.Chat
	_ = json.Unmarshal(q.Body, &chat) // the provider has read it
	names := chat.ToolNames()
	missing := func(tool string) bool { return !slices.Contains(names, tool) }
	return len(slices.DeleteFunc([]string{once, again}, missing))
}

// report prints the result of a liveness run and returns whether it was good: at most mostGivenUp of the calls
// abandoned, every turn finished, and no promise broken.
func (s *restarts) report(out io.Writer, t restartTally, violations []check.Violation) bool {
	share := float64(t.givenUp) / float64(max(1, t.calls))
	sorted := slices.Sorted(slices.Values(s.turned))
	fmt.Fprintf(out, "kills          %d, away for %s in all\n", s.kills, s.absent.Round(time.Millisecond))
	fmt.Fprintf(out, "turns          %d in %s; half within %s, the longest %s\n", t.turns,
		s.took.Round(100*time.Millisecond),
		quantile(sorted, 0.5).Round(100*time.Millisecond), quantile(sorted, 1).Round(100*time.Millisecond))
	fmt.Fprintf(out, "calls          %d\n", t.calls)
	fmt.Fprintf(out, "given up       %d (%.1f %%; at most %.0f %%)\n", t.givenUp, 100*share, 100*mostGivenUp)
	fmt.Fprintf(out, "unknown        %d, of them %d repeatable\n", t.unknown, t.repeatable)
	fmt.Fprintf(out, "unfinished     %d turns\n", t.unfinished)
	fmt.Fprintf(out, "without tools  %d turns, with half of them %d\n", t.toolless, t.partial)
	fmt.Fprintf(out, "violations     %d\n", len(violations))
	for _, v := range violations {
		fmt.Fprintln(out, "               "+v.String())
	}
	return s.kills > 0 && t.turns == s.turns && share <= mostGivenUp && t.unfinished == 0 && len(violations) == 0
}

func quantile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}
