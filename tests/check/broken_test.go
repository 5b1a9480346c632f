package check_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/everturn/everturn/journal/portable"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/workflows/turn"
)

func TestBrokenPromisesAreNamed(t *testing.T) {
	for name, c := range broken {
		t.Run(name, func(t *testing.T) {
			l := effect(t)
			c.edit(&l)
			found := check.Check(l)
			assert.Contains(t, check.Invariants(found), c.breaks)
			var output []string
			for _, v := range found {
				if v.Invariant == c.breaks {
					output = append(output, v.What)
				}
			}
			assert.Contains(t, strings.Join(output, "\n"), c.says)
		})
	}
}

// broken are ledgers that each break one promise, the invariant that must report it, and a part of the report.
var broken = map[string]struct {
	breaks check.Invariant
	says   string
	edit   func(*check.Ledgers)
}{
	"a message that was acknowledged is lost": {check.I1, "no turn has it", func(l *check.Ledgers) {
		l.Client = append(l.Client, check.Entry{Event: check.Acknowledged, Message: "another"})
	}},
	"a client is told nothing": {check.I1, "nobody was told", func(l *check.Ledgers) {
		results(l, func(e *check.Entry) { e.Event = "lost" })
	}},
	"a client is told something else": {check.I1, "the client was told",
		func(l *check.Ledgers) { firstResult(l).Answer = "42" }},
	"a message is answered twice": {check.I1, "answered twice", func(l *check.Ledgers) {
		second := *firstResult(l)
		second.Turn = "another"
		l.Client = append(l.Client, second)
	}},
	"a turn answers a message that nobody sent": {check.I1, "no client has sent", func(l *check.Ledgers) {
		lines(*l, func(line *portable.Line) {
			if line.Turn != nil {
				line.Turn.MessageID = "invented"
			}
		})
	}},
	"a turn is cancelled by nobody": {check.I1, "nobody has stopped it", func(l *check.Ledgers) {
		lines(*l, func(line *portable.Line) {
			if line.Turn != nil {
				line.Turn.State = turn.StateCancelled
			}
		})
	}},
	"a turn fails": {check.I1, "is failed (internal)", func(l *check.Ledgers) { fails(l) }},
	"a turn fails that may, and says no reason": {check.I1, "is failed ()", func(l *check.Ledgers) {
		l.Run.Failing = fails(l)
		lines(*l, func(line *portable.Line) {
			if line.Turn != nil {
				line.Turn.Code = ""
			}
		})
	}},
	"an answer is not the last word": {check.I1, "its last message is", func(l *check.Ledgers) {
		lines(*l, func(line *portable.Line) {
			if line.Turn != nil {
				line.Turn.Answer += "!"
			}
		})
	}},
	"a message is written down otherwise": {check.I1, "was sent as", func(l *check.Ledgers) {
		lines(*l, func(line *portable.Line) {
			if line.Message != nil && line.Message.Message.Role == turn.RoleUser {
				line.Message.Message.Text += "!"
			}
		})
	}},
	"a turn does not end": {check.I1, "is running", func(l *check.Ledgers) {
		lines(*l, func(line *portable.Line) {
			if line.Turn != nil {
				line.Turn.State = turn.StateRunning
			}
		})
	}},
	"a call has no outcome": {check.I2, "has no outcome", func(l *check.Ledgers) { unknown(*l).Outcome = "" }},
	"a stream is silent about a message": {check.I3, "its stream tells of 0", func(l *check.Ledgers) {
		lines(*l, func(line *portable.Line) {
			if line.Turn != nil {
				line.Turn.MessageID = "another"
			}
		})
	}},
	"an interrupted answer is not kept": {check.I3, "saw", func(l *check.Ledgers) {
		lines(*l, func(line *portable.Line) {
			if line.Inference != nil {
				line.Inference.Settled = false
			}
		})
	}},
	"a run stays open": {check.I1, "still open", func(l *check.Ledgers) {
		for _, h := range l.Histories {
			h.Events = h.Events[:len(h.Events)-1]
		}
	}},
	"a call that may not be repeated has two effects": {check.I2, "has 2 effects", func(l *check.Ledgers) {
		l.Effects = append(l.Effects, check.Effect{Event: "effect", Text: key(unknown(*l))})
	}},
	"it is sent again without an effect": {check.I2, "sent 2 times", func(l *check.Ledgers) {
		l.Effects = append(l.Effects, check.Effect{Event: "begun", Text: key(unknown(*l))})
	}},
	"a call that is ok has no effect": {check.I2, "has no effect", func(l *check.Ledgers) {
		l.Effects = nil
	}},
	"a call that was cancelled has one": {check.I2, "is said to be cancelled", func(l *check.Ledgers) {
		unknown(*l).Outcome = turn.OutcomeCancelled
	}},
	"the model is not told that the outcome is unknown": {check.I2, "the model is told", func(l *check.Ledgers) {
		unknown(*l).Text = "done"
	}},
	"a tool runs without a call": {check.I2, "no such call", func(l *check.Ledgers) {
		l.Effects = append(l.Effects, check.Effect{Event: "effect", Text: "invented"})
	}},
	"Temporal retries an attempt": {check.I2, "was started 2 times", func(l *check.Ledgers) {
		for _, h := range l.Histories {
			for _, e := range h.Events {
				if e.EventType == enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED {
					e.GetActivityTaskStartedEventAttributes().Attempt = 2
				}
			}
		}
	}},
	"the export does not hold": {check.I3, "does not hold",
		func(l *check.Ledgers) { l.Sessions[0].Problem = errors.New("cut off") }},
	"a result is missing": {check.I3, "which is not the next one", func(l *check.Ledgers) {
		lines(*l, func(line *portable.Line) {
			if line.Message != nil && line.Message.Message.Role == turn.RoleTool {
				line.Message.Message.CallID = "9.9"
			}
		})
	}},
	"a result is that of another call": {check.I3, "that of another", func(l *check.Ledgers) {
		lines(*l, func(line *portable.Line) {
			if line.Message != nil && line.Message.Message.Outcome == turn.OutcomeOK {
				line.Message.Message.Text = "appended something else"
			}
		})
	}},
	"the provider is shown another transcript": {check.I3, "the provider was shown", func(l *check.Ledgers) {
		for i := range l.Requests {
			l.Requests[i].Body = json.RawMessage(strings.ReplaceAll(string(l.Requests[i].Body), "Question", "Order"))
		}
	}},
	"the transcript has an answer that nobody gave": {check.I3, "gave no such answer", func(l *check.Ledgers) {
		for i := range l.Requests {
			l.Requests[i].Answer += "!"
		}
	}},
	"a number of the stream is used twice": {check.I3, "was read as",
		func(l *check.Ledgers) { l.Stream[1].Text = "before" }},
	"a number of the stream is left out": {check.I3, "has the number", func(l *check.Ledgers) {
		lines(*l, func(line *portable.Line) {
			if line.Event != nil {
				line.Event.Index++
			}
		})
	}},
	"a settled inference is sent again": {check.I4, "after it was settled", func(l *check.Ledgers) {
		again := l.Requests[0]
		again.At = again.At.Add(time.Hour)
		l.Requests = append(l.Requests, again)
	}},
	"an interrupted one is not counted": {check.I4, "the journal counts 1", func(l *check.Ledgers) {
		l.Requests = append(l.Requests, l.Requests[0])
	}},
	"it is sent with another prompt": {check.I4, "another prompt", func(l *check.Ledgers) {
		again := l.Requests[0]
		again.Body = append(json.RawMessage(" "), again.Body...)
		l.Requests = append(l.Requests, again)
	}},
	"it is begun more often than it was interrupted": {check.I4, "the schedule interrupted", func(l *check.Ledgers) {
		lines(*l, func(line *portable.Line) {
			if line.Inference != nil {
				line.Inference.Attempt = 9
			}
		})
	}},
	"a request that the journal does not know": {check.I4, "accounts for", func(l *check.Ledgers) {
		l.Requests = append(l.Requests, check.Request{Asked: "who?", Step: 1})
	}},
	"a summary is paid for twice": {check.I4, "summaries are paid for", func(l *check.Ledgers) {
		for range 2 {
			l.Requests = append(l.Requests, check.Request{Asked: "who?", Step: 1, Outcome: "sent", Summary: true})
		}
	}},
	"a history does not replay": {check.I6, "does not replay", func(l *check.Ledgers) {
		for _, h := range l.Histories {
			for _, e := range h.Events {
				if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
					a.ActivityType.Name = "Ponder"
				}
			}
		}
	}},
	"a history is that of another attempt": {check.I6, "does not replay", func(l *check.Ledgers) {
		for _, h := range l.Histories {
			for _, e := range h.Events {
				for _, p := range e.GetActivityTaskScheduledEventAttributes().GetInput().GetPayloads() {
					p.Data = bytes.Replace(p.Data, []byte(`"attempt":1`), []byte(`"attempt":3`), 1) // the SDK does not look there
				}
			}
		}
	}},
	"a process is left": {check.I7, "outlived",
		func(l *check.Ledgers) { l.Processes = append(l.Processes, check.Process{PID: 7, Orphan: true}) }},
	"goroutines are left": {check.I7, "goroutines", func(l *check.Ledgers) {
		l.Processes = append(l.Processes, check.Process{GoroutinesBefore: 1, GoroutinesAfter: 9})
	}},
	"memory grows": {check.I7, "MB",
		func(l *check.Ledgers) { l.Processes = append(l.Processes, check.Process{PeakBytes: 1 << 30}) }},
	"a secret is logged": {check.I8, "canary 1 is in worker.log", func(l *check.Ledgers) {
		l.Sinks["worker.log"] = []byte("the key is " + l.Run.Canaries[0])
	}},
}

// fails turns the session's turns into failed ones, and returns their messages.
func fails(l *check.Ledgers) (messages []string) {
	lines(*l, func(line *portable.Line) {
		if line.Turn != nil {
			line.Turn.State, line.Turn.Code = turn.StateFailed, turn.CodeInternal
			messages = append(messages, line.Turn.MessageID)
		}
	})
	results(l, func(e *check.Entry) {
		if slices.Contains(messages, e.Message) {
			e.State = string(turn.StateFailed)
		}
	})
	return messages
}

// lines calls edit with each line of the session in which the worker was killed.
func lines(l check.Ledgers, edit func(*portable.Line)) {
	for _, s := range l.Sessions {
		if strings.HasSuffix(s.File, "-b.jsonl") {
			continue
		}
		for i := range s.Lines {
			edit(&s.Lines[i])
		}
	}
}

// unknown returns the call that the killed worker left open.
func unknown(l check.Ledgers) (call *portable.ExportCall) {
	lines(l, func(line *portable.Line) {
		if line.Call != nil && line.Call.Outcome == turn.OutcomeUnknown {
			call = line.Call
		}
	})
	return call
}

func key(call *portable.ExportCall) string {
	var args struct{ Text string }
	_ = json.Unmarshal([]byte(call.Call.Arguments), &args) // of a run that is known
	return args.Text
}

// results calls edit with each result that a client got.
func results(l *check.Ledgers, edit func(*check.Entry)) {
	for i := range l.Client {
		if l.Client[i].Event == check.Answered {
			edit(&l.Client[i])
		}
	}
}

func firstResult(l *check.Ledgers) (first *check.Entry) {
	results(l, func(e *check.Entry) {
		if first == nil {
			first = e
		}
	})
	return first
}
