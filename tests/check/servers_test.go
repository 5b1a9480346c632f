package check_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/portable"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/workflows/turn"
)

// Besides those of people_test.go, the ledgers of these real runs are in testdata:
//
//	go run -C tests/faults . -point '^elicitation_20$' -seed 107 -keep   20 clients reply to a server's question
//	go run -C tests/faults . -point '^detach_late$' -seed 107 -keep  a call is given up, goes on and comes to an end

func TestServersThatKeptTheirPromisesAreNotBlamed(t *testing.T) {
	for _, name := range []string{"elicitation_20", "detach_late"} {
		assert.Empty(t, check.Check(kept(t, name)), name)
	}
}

func TestBrokenPromisesOfServersAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		run    string
		breaks check.Invariant
		says   string
		edit   func(*testing.T, *check.Ledgers)
	}{
		"a call that was suspended is begun afresh": {"elicitation_20", check.I2, "begun afresh",
			func(t *testing.T, l *check.Ledgers) {
				l.Effects = append(l.Effects, the(t, *l, "asked"))
			}},
		"a server is told what nobody has said": {"elicitation_20", check.I5, "people said",
			func(t *testing.T, l *check.Ledgers) {
				change(t, l, "replied", func(e *check.Effect) { e.Reply = `accept {"note":"invented","sure":true}` })
			}},
		"an answer is given to the next question, too": {"elicitation_20", check.I5, "2 times, and people said it 1 times",
			func(t *testing.T, l *check.Ledgers) {
				l.Effects = append(l.Effects, the(t, *l, "replied"))
			}},
		"a server does not wait for its answer": {"elicitation_20", check.I5, "before its answer",
			func(t *testing.T, l *check.Ledgers) {
				key := the(t, *l, "replied").Text
				for i, e := range l.Effects {
					if e.Text == key && e.Event == "effect" {
						l.Effects[i].At = e.At.Add(-time.Hour)
					}
				}
			}},
		"a tool that has changed is called": {"detach_late", check.I5, "nobody had accepted",
			func(t *testing.T, l *check.Ledgers) {
				change(t, l, "effect", func(e *check.Effect) { e.Face = "schema" })
			}},
		"it is accepted when it has been called": {"detach_late", check.I5, "nobody had accepted",
			func(t *testing.T, l *check.Ledgers) {
				change(t, l, "effect", func(e *check.Effect) {
					e.Face = "schema"
					l.Client = append(l.Client, check.Entry{Event: check.Accepted, Text: "schema", At: e.At.Add(time.Second)})
				})
			}},
		"somebody's words open the way": {"detach_late", check.I5, "nobody was asked",
			func(_ *testing.T, l *check.Ledgers) { l.Run.Tainting = true }},
		"a server has forgotten and nobody is told": {"detach_late", check.I2, "nobody was told",
			func(_ *testing.T, l *check.Ledgers) {
				l.Run.Stateful = "mcp/"
				for i := range l.Effects {
					l.Effects[i].PID = i + 1
				}
			}},
		"a call is repeated that the operator does not know of": {"detach_late", check.I2, "the operator has not said so",
			func(_ *testing.T, l *check.Ledgers) {
				l.Run.Repeatable = []string{"mcp/none/"}
			}},
		"a call that has an effect is said to have failed": {"detach_late", check.I2, "is said to have failed",
			func(_ *testing.T, l *check.Ledgers) {
				unknown(*l).Outcome = turn.OutcomeError
			}},
		"a session is told late of what it knew": {"detach_late", check.I3, "told late what became of",
			func(_ *testing.T, l *check.Ledgers) {
				unknown(*l).Outcome = turn.OutcomeOK
			}},
		"a session is told twice": {"detach_late", check.I3, "was told twice", func(_ *testing.T, l *check.Ledgers) {
			for n := range l.Sessions {
				for _, line := range l.Sessions[n].Lines {
					if line.Message != nil && strings.HasPrefix(line.Message.Message.ID, "late:") {
						l.Sessions[n].Lines = append(l.Sessions[n].Lines, line)
						return
					}
				}
			}
		}},
		"progress without end": {"detach_late", check.I7, "pieces of the progress",
			func(_ *testing.T, l *check.Ledgers) { progress(l, 201) }},
		"progress after the end": {"detach_late", check.I3, "after its end",
			func(_ *testing.T, l *check.Ledgers) { progress(l, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			l := kept(t, c.run)
			c.edit(t, &l)
			var output []string
			for _, v := range check.Check(l) {
				if v.Invariant == c.breaks {
					output = append(output, v.What)
				}
			}
			assert.Contains(t, strings.Join(output, "\n"), c.says)
		})
	}
}

// the returns the first line of the tool's ledger with an event.
func the(t *testing.T, l check.Ledgers, event string) check.Effect {
	t.Helper()
	for _, e := range l.Effects {
		if e.Event == event {
			return e
		}
	}
	require.Fail(t, "the ledger has no "+event)
	return check.Effect{}
}

// change edits the first line with an event.
func change(t *testing.T, l *check.Ledgers, event string, edit func(*check.Effect)) {
	t.Helper()
	for i := range l.Effects {
		if l.Effects[i].Event == event {
			edit(&l.Effects[i])
			return
		}
	}
	require.Fail(t, "the ledger has no "+event)
}

// progress adds n pieces of progress after the end of the call whose outcome was unknown.
func progress(l *check.Ledgers, n int) {
	call := unknown(*l)
	data, _ := json.Marshal(turn.ProgressEvent{CallID: call.Call.ID}) // strings always marshal
	for i := range l.Sessions {
		for _, line := range l.Sessions[i].Lines {
			if line.Event == nil || line.Event.Turn != call.Turn || line.Event.Kind != turn.EventTurnCompleted {
				continue
			}
			for range n {
				event := *line.Event
				event.Kind, event.Data = turn.EventToolProgress, data
				l.Sessions[i].Lines = append(l.Sessions[i].Lines, portable.Line{Event: &event})
			}
			return
		}
	}
}
