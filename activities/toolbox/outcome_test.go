package toolbox

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatACallComesTo lists every end of a call with its outcome.
func TestWhatACallComesTo(t *testing.T) {
	for _, c := range []struct {
		ending
		class class
		again bool
	}{
		{ending{stage: stageChecked}, classDenied, false},
		{ending{stage: stageChecked, repeatable: true}, classDenied, false},
		{ending{stage: stageOffline, by: endedByLoss}, classNotSent, true},
		{ending{stage: stageOffline, by: endedByDeadline}, classNotSent, true},
		{ending{stage: stageOffline, by: endedByCancel}, classCancelled, false},
		{ending{stage: stageUnsent, by: endedByLoss}, classNotSent, true},
		{ending{stage: stageUnsent, by: endedByDeadline}, classNotSent, true},
		{ending{stage: stageUnsent, by: endedByCancel}, classCancelled, false},
		{ending{stage: stageUnsent, by: endedByCancel, repeatable: true}, classCancelled, false},
		{ending{stage: stageRefused}, classNotSent, true},
		{ending{stage: stageRefused, by: endedByCancel}, classNotSent, true},
		{ending{stage: stageRefused, by: endedByDeadline}, classNotSent, true},
		{ending{stage: stageForbidden}, classError, false},
		{ending{stage: stageForbidden, by: endedByCancel}, classError, false},
		{ending{stage: stageForbidden, by: endedByDeadline, repeatable: true}, classError, false},
		{ending{stage: stageSent, by: endedByDeadline}, classUnknown, false},
		{ending{stage: stageSent, by: endedByCancel}, classUnknown, false},
		{ending{stage: stageSent, by: endedByLoss}, classUnknown, false},
		{ending{stage: stageSent, by: endedByDeadline, repeatable: true}, classUnknown, true},
		{ending{stage: stageSent, by: endedByCancel, repeatable: true}, classUnknown, true},
		{ending{stage: stageSent, by: endedByLoss, repeatable: true}, classUnknown, true},
		{ending{stage: stageSent, by: endedByDeadline, detached: true}, classUnknown, false},
		{ending{stage: stageSent, by: endedByDeadline, detached: true, repeatable: true}, classUnknown, false},
		{ending{stage: stageAnswered, answer: answerResult}, classOK, false},
		{ending{stage: stageAnswered, answer: answerResult, by: endedByDeadline}, classOK, false},
		{ending{stage: stageAnswered, answer: answerToolError}, classError, false},
		{ending{stage: stageAnswered, answer: answerToolError, repeatable: true}, classError, false},
		{ending{stage: stageAnswered, answer: answerProtocol}, classError, false},
		{ending{stage: stageAnswered, answer: answerUnreadable}, classError, false},
		{ending{stage: stageAnswered, answer: answerUnreadable, repeatable: true}, classError, true},
		{ending{stage: stageAnswered, answer: answerElicits}, classElicits, false},
		{ending{stage: stageAnswered, answer: answerCannotElicit}, classError, false},
		{ending{stage: "who knows", answer: answerResult}, classUnknown, false},
	} {
		class, again := c.ending.class()
		assert.Equal(t, c.class, class, "%+v", c.ending)
		assert.Equal(t, c.again, again, "%+v", c.ending)
	}
}

// TestTheLawsOfOutcomes checks every combination against the invariants of outcomes, independently of the table above.
func TestTheLawsOfOutcomes(t *testing.T) {
	n := 0
	everyEnding(func(e ending) {
		n++
		class, again := e.class()
		begun := e.stage == stageSent || e.stage == stageAnswered
		name := fmt.Sprintf("%+v: %s, again %v", e, class, again)
		require.NotEmpty(t, class, name)
		if e.stage == stageForbidden {
			require.Equal(t, []any{classError, false}, []any{class, again}, "it would be refused again: %s", name)
		} else if !begun {
			require.NotContains(t, []any{classUnknown, classOK, classError, classElicits}, class, "nothing was sent: %s", name)
		}
		if e.stage == stageSent {
			require.NotContains(t, []any{classOK, classNotSent, classDenied, classCancelled, classElicits}, class,
				"sent and not answered: %s", name)
		}
		if e.stage == stageAnswered {
			require.Contains(t, []any{classOK, classError, classElicits}, class, "answered: %s", name)
		}
		if class == classOK {
			require.Equal(t, answerResult, e.answer, name)
		}
		if again && begun {
			require.True(t, e.repeatable, "what was sent is only called again where that does no harm: %s", name)
		}
		if class == classNotSent {
			require.True(t, again, name)
		}
		if e.detached {
			require.False(t, again && begun && class == classUnknown, name)
		}
		by := e
		by.by = endedByDeadline
		if c, _ := by.class(); begun {
			require.Equal(t, class, c, "why the wait ended does not change what is known: %s", name)
		}
	})
	assert.Equal(t, 7*7*4*4, n)
}

func everyEnding(f func(ending)) {
	for _, s := range []stage{stageChecked, stageOffline, stageUnsent, stageRefused, stageForbidden, stageSent,
		stageAnswered} {
		for _, a := range []answerKind{"", answerResult, answerToolError, answerProtocol, answerUnreadable, answerElicits,
			answerCannotElicit} {
			for _, by := range []endedBy{endedByAnswer, endedByDeadline, endedByCancel, endedByLoss} {
				for bits := range 4 {
					f(ending{stage: s, answer: a, by: by, repeatable: bits&1 != 0, detached: bits&2 != 0})
				}
			}
		}
	}
}
