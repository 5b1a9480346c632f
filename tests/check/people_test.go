package check_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/portable"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/workflows/turn"
)

// kept returns the ledgers of a real run that is in testdata:
//
//	go run -C tests/faults . -point '^decide_20$' -seed 107 -keep    20 clients decide about one call
//	go run -C tests/faults . -point '^stop_waiting_turn$' -seed 107 -keep  a turn that waits for approvals is stopped
func kept(t *testing.T, name string) check.Ledgers {
	t.Helper()
	dir, err := zip.OpenReader("testdata/" + name + ".zip")
	require.NoError(t, err)
	defer dir.Close()
	l, err := check.Read(dir)
	require.NoError(t, err)
	return l
}

func TestPeopleWhoWereHeardAreNotBlamed(t *testing.T) {
	for _, name := range []string{"decide_20", "stop_waiting_turn"} {
		l := kept(t, name)
		require.NotEmpty(t, l.Waits)
		assert.Empty(t, check.Check(l), name)
	}
}

func TestBrokenPromisesToPeopleAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		run    string
		breaks check.Invariant
		says   string
		edit   func(*check.Ledgers)
	}{
		"a call runs before it is allowed": {"decide_20", check.I5, "before it was allowed", func(l *check.Ledgers) {
			withApprovals(l, func(e *check.Effect) { e.At = e.At.Add(-time.Hour) })
		}},
		"a denied call runs": {"decide_20", check.I5, "nobody has allowed it", func(l *check.Ledgers) {
			l.Effects = append(l.Effects, check.Effect{Event: "begun", Text: unwanted(*l), At: time.Now()})
		}},
		"a call runs and nobody was asked": {"decide_20", check.I5, "nobody was asked", func(l *check.Ledgers) {
			l.Waits = nil
			dropEvents(l, turn.EventApprovalRequested, turn.EventApprovalDecided)
		}},
		"a wait is never ruled": {"decide_20", check.I5, "has 0 decisions", func(l *check.Ledgers) {
			dropEvents(l, turn.EventApprovalDecided)
		}},
		"a later decision overrides the first": {"decide_20", check.I5, "in the stream and is", func(l *check.Ledgers) {
			r := l.Waits[0].Decision
			r.Allowed = !r.Allowed
			r.Status = map[bool]turn.DecisionStatus{true: turn.StatusAllowed, false: turn.StatusDenied}[r.Allowed]
		}},
		"a decision is nobody's": {"decide_20", check.I5, "nobody has said so", func(l *check.Ledgers) {
			l.Client = slices.DeleteFunc(l.Client, func(e check.Entry) bool { return e.Event == check.Deciding })
		}},
		"the decision of somebody who was refused counts": {"decide_20", check.I5, "who was refused", func(l *check.Ledgers) {
			name := "somebody"
			for _, s := range l.Sessions {
				for _, line := range s.Lines {
					if line.Event != nil && line.Event.Kind == turn.EventApprovalDecided {
						line.Event.Data = bytes.ReplaceAll(line.Event.Data, []byte("the schedule"), []byte(name))
					}
				}
			}
			for i := range l.Client {
				if l.Client[i].Event == check.Refused {
					l.Client[i].By = name
				}
			}
		}},
		"a client is told that it decided about nothing": {"decide_20", check.I5, "which no turn has asked for",
			func(l *check.Ledgers) {
				l.Client = append(l.Client, check.Entry{Event: check.Decided, Call: "9.9"})
			}},
		"a grant for another tool": {"decide_20", check.I5, "nobody was asked", func(l *check.Ledgers) {
			dropEvents(l, turn.EventApprovalRequested, turn.EventApprovalDecided)
			granted(l, "mcp/other/append")
		}},
		"two opposite decisions are acknowledged": {"decide_20", check.I5, "the opposite counts", func(l *check.Ledgers) {
			i := slices.IndexFunc(l.Client, func(e check.Entry) bool { return e.Event == check.Decided })
			second := l.Client[i]
			second.Allow = !second.Allow
			l.Client = append(l.Client, second)
		}},
		"a decision about other arguments counts": {"decide_20", check.I5, "nobody has said so", func(l *check.Ledgers) {
			for i := range l.Client {
				if l.Client[i].Event == check.Deciding {
					l.Client[i].Hash = "another"
				}
			}
		}},
		"a stop takes its time": {"stop_waiting_turn", check.I1, "after a worker had seen",
			func(l *check.Ledgers) { l.Run.StopWithin = 1 }},
		"a message is in the transcript twice": {"decide_20", check.I1, "in the transcript 2 times", func(l *check.Ledgers) {
			s := &l.Sessions[0]
			i := slices.IndexFunc(s.Lines, func(line portable.Line) bool { return line.Message != nil })
			s.Lines = slices.Insert(s.Lines, i, s.Lines[i])
		}},
		"a message joins that nobody has sent": {"decide_20", check.I1, "no client has sent", func(l *check.Ledgers) {
			for _, line := range l.Sessions[0].Lines {
				if line.Message != nil && line.Message.Message.Role == turn.RoleUser {
					line.Message.Message.ID = "invented"
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := kept(t, c.run)
			c.edit(&l)
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

// A call that a grant covers runs without being asked about.
func TestGrantedCallsAreNotBlamed(t *testing.T) {
	l := kept(t, "decide_20")
	dropEvents(&l, turn.EventApprovalRequested, turn.EventApprovalDecided)
	l.Waits, l.Client = nil, slices.DeleteFunc(l.Client, func(e check.Entry) bool { return e.Call != "" })
	granted(&l, "mcp/quick/append")
	for _, v := range check.Check(l) {
		assert.NotContains(t, v.What, "nobody was asked")
	}
}

// granted adds a decision that permits a tool in every session.
func granted(l *check.Ledgers, tool string) {
	for _, s := range l.Sessions {
		l.Client = append(l.Client, check.Entry{Event: check.Deciding, Session: s.Lines[0].Header.Session.ID, Allow: true,
			At: time.Unix(1, 0), Tool: tool, Grant: turn.GrantTool})
	}
}

// withApprovals calls edit with each effect of a call that needed approval.
func withApprovals(l *check.Ledgers, edit func(*check.Effect)) {
	for i := range l.Effects {
		if strings.HasPrefix(l.Effects[i].Text, l.Run.Asked) {
			edit(&l.Effects[i])
		}
	}
}

// unwanted returns the key of a call that was denied.
func unwanted(l check.Ledgers) string {
	for _, w := range l.Waits {
		var args struct{ Text string }
		if json.Unmarshal([]byte(w.Arguments), &args) == nil && !w.Decision.Allowed {
			return args.Text
		}
	}
	return ""
}

func dropEvents(l *check.Ledgers, kinds ...turn.EventKind) {
	for i := range l.Sessions {
		l.Sessions[i].Lines = slices.DeleteFunc(l.Sessions[i].Lines, func(line portable.Line) bool {
			return line.Event != nil && slices.Contains(kinds, line.Event.Kind)
		})
	}
}
