package check

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// eventOf is an event with its data, if it has some.
func eventOf(step int, kind turn.EventKind, data any) turn.Event {
	e := turn.Event{Turn: "t", Step: step, Kind: kind}
	if data != nil {
		e.Data, _ = json.Marshal(data)
	}
	return e
}

func entered(step int, phase turn.PhaseName) turn.Event {
	return eventOf(step, turn.EventPhase, turn.PhaseEvent{Phase: phase, Provider: "openai", Model: "gpt"})
}

// TestTheStreamOfAStepIsJudged takes one event from a good stream, or moves it.
func TestTheStreamOfAStepIsJudged(t *testing.T) {
	good := []turn.Event{
		eventOf(0, turn.EventTurnStarted, turn.StartedEvent{TraceID: turn.TraceID("t")}),
		entered(0, turn.PhaseStart), entered(1, turn.PhaseBuildPrompt), entered(1, turn.PhaseLlmInfer),
		eventOf(1, turn.EventTextDelta, nil), eventOf(1, turn.EventInferenceCompleted, turn.InferenceEvent{}),
		entered(1, turn.PhaseParseAction), entered(1, turn.PhaseDone), eventOf(1, turn.EventTurnCompleted, nil),
	}
	settled := journal.ExportInference{}
	settled.Key, settled.Settled = journal.StepKey{Turn: "t", Step: 1}, true
	for name, c := range map[string]struct {
		change func(list []turn.Event) []turn.Event
		broken bool
	}{
		"as it is":            {func(list []turn.Event) []turn.Event { return list }, false},
		"without a trace":     {func(list []turn.Event) []turn.Event { list[0].Data = nil; return list }, true},
		"without a phase":     {func(list []turn.Event) []turn.Event { return append(list[:2], list[3:]...) }, true},
		"without its start":   {func(list []turn.Event) []turn.Event { return append(list[:3], list[4:]...) }, true},
		"without its end":     {func(list []turn.Event) []turn.Event { return append(list[:5], list[6:]...) }, true},
		"ends twice":          {func(list []turn.Event) []turn.Event { return append(list, list[5]) }, true},
		"ends first":          {func(list []turn.Event) []turn.Event { list[3], list[5] = list[5], list[3]; return list }, true},
		"a delta has no step": {func(list []turn.Event) []turn.Event { list[4].Step = 0; return list }, true},
		"of another turn":     {func(list []turn.Event) []turn.Event { list[4].Turn = "u"; return list }, true},
		"its model is not named": {func(list []turn.Event) []turn.Event {
			list[3] = eventOf(1, turn.EventPhase, turn.PhaseEvent{Phase: turn.PhaseLlmInfer})
			return list
		}, true},
	} {
		var checked checker
		checked.phases(&turnLedger{record: journal.ExportTurn{TurnRecord: journal.TurnRecord{ID: "t"}},
			events: c.change(append([]turn.Event(nil), good...)), inferences: []journal.ExportInference{settled}})
		assert.Equal(t, c.broken, len(checked.found) > 0, "%s: %v", name, checked.found)
	}
}
