package tool

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatACallComesTo lists every end of a call with its outcome.
func TestWhatACallComesTo(t *testing.T) {
	for _, c := range []struct {
		Ending
		class Class
		again bool
	}{
		{Ending{Stage: StageChecked}, ClassDenied, false},
		{Ending{Stage: StageChecked, Repeatable: true}, ClassDenied, false},
		{Ending{Stage: StageOffline, By: EndedByLoss}, ClassNotSent, true},
		{Ending{Stage: StageOffline, By: EndedByDeadline}, ClassNotSent, true},
		{Ending{Stage: StageOffline, By: EndedByCancel}, ClassCancelled, false},
		{Ending{Stage: StageUnsent, By: EndedByLoss}, ClassNotSent, true},
		{Ending{Stage: StageUnsent, By: EndedByDeadline}, ClassNotSent, true},
		{Ending{Stage: StageUnsent, By: EndedByCancel}, ClassCancelled, false},
		{Ending{Stage: StageUnsent, By: EndedByCancel, Repeatable: true}, ClassCancelled, false},
		{Ending{Stage: StageRefused}, ClassNotSent, true},
		{Ending{Stage: StageRefused, By: EndedByCancel}, ClassNotSent, true},
		{Ending{Stage: StageRefused, By: EndedByDeadline}, ClassNotSent, true},
		{Ending{Stage: StageForbidden}, ClassError, false},
		{Ending{Stage: StageForbidden, By: EndedByCancel}, ClassError, false},
		{Ending{Stage: StageForbidden, By: EndedByDeadline, Repeatable: true}, ClassError, false},
		{Ending{Stage: StageSent, By: EndedByDeadline}, ClassUnknown, false},
		{Ending{Stage: StageSent, By: EndedByCancel}, ClassUnknown, false},
		{Ending{Stage: StageSent, By: EndedByLoss}, ClassUnknown, false},
		{Ending{Stage: StageSent, By: EndedByDeadline, Repeatable: true}, ClassUnknown, true},
		{Ending{Stage: StageSent, By: EndedByCancel, Repeatable: true}, ClassUnknown, true},
		{Ending{Stage: StageSent, By: EndedByLoss, Repeatable: true}, ClassUnknown, true},
		{Ending{Stage: StageSent, By: EndedByDeadline, Detached: true}, ClassUnknown, false},
		{Ending{Stage: StageSent, By: EndedByDeadline, Detached: true, Repeatable: true}, ClassUnknown, false},
		{Ending{Stage: StageAnswered, Answer: AnswerResult}, ClassOK, false},
		{Ending{Stage: StageAnswered, Answer: AnswerResult, By: EndedByDeadline}, ClassOK, false},
		{Ending{Stage: StageAnswered, Answer: AnswerToolError}, ClassError, false},
		{Ending{Stage: StageAnswered, Answer: AnswerToolError, Repeatable: true}, ClassError, false},
		{Ending{Stage: StageAnswered, Answer: AnswerProtocol}, ClassError, false},
		{Ending{Stage: StageAnswered, Answer: AnswerUnreadable}, ClassError, false},
		{Ending{Stage: StageAnswered, Answer: AnswerUnreadable, Repeatable: true}, ClassError, true},
		{Ending{Stage: StageAnswered, Answer: AnswerElicits}, ClassElicits, false},
		{Ending{Stage: StageAnswered, Answer: AnswerCannotElicit}, ClassError, false},
		{Ending{Stage: "who knows", Answer: AnswerResult}, ClassUnknown, false},
	} {
		class, again := c.Ending.Class()
		assert.Equal(t, c.class, class, "%+v", c.Ending)
		assert.Equal(t, c.again, again, "%+v", c.Ending)
	}
}

// TestTheLawsOfOutcomes checks every combination against the invariants of outcomes, independently of the table above.
func TestTheLawsOfOutcomes(t *testing.T) {
	n := 0
	everyEnding(func(e Ending) {
		n++
		class, again := e.Class()
		begun := e.Stage == StageSent || e.Stage == StageAnswered
		name := fmt.Sprintf("%+v: %s, again %v", e, class, again)
		require.NotEmpty(t, class, name)
		if e.Stage == StageForbidden {
			require.Equal(t, []any{ClassError, false}, []any{class, again}, "it would be refused again: %s", name)
		} else if !begun {
			require.NotContains(t, []any{ClassUnknown, ClassOK, ClassError, ClassElicits}, class, "nothing was sent: %s", name)
		}
		if e.Stage == StageSent {
			require.NotContains(t, []any{ClassOK, ClassNotSent, ClassDenied, ClassCancelled, ClassElicits}, class,
				"sent and not answered: %s", name)
		}
		if e.Stage == StageAnswered {
			require.Contains(t, []any{ClassOK, ClassError, ClassElicits}, class, "answered: %s", name)
		}
		if class == ClassOK {
			require.Equal(t, AnswerResult, e.Answer, name)
		}
		if again && begun {
			require.True(t, e.Repeatable, "what was sent is only called again where that does no harm: %s", name)
		}
		if class == ClassNotSent {
			require.True(t, again, name)
		}
		if e.Detached {
			require.False(t, again && begun && class == ClassUnknown, name)
		}
		by := e
		by.By = EndedByDeadline
		if c, _ := by.Class(); begun {
			require.Equal(t, class, c, "why the wait ended does not change what is known: %s", name)
		}
	})
	assert.Equal(t, 7*7*4*4, n)
}

func everyEnding(f func(Ending)) {
	for _, s := range []Stage{StageChecked, StageOffline, StageUnsent, StageRefused, StageForbidden, StageSent,
		StageAnswered} {
		for _, a := range []AnswerKind{"", AnswerResult, AnswerToolError, AnswerProtocol, AnswerUnreadable, AnswerElicits,
			AnswerCannotElicit} {
			for _, by := range []EndedBy{EndedByAnswer, EndedByDeadline, EndedByCancel, EndedByLoss} {
				for bits := range 4 {
					f(Ending{Stage: s, Answer: a, By: by, Repeatable: bits&1 != 0, Detached: bits&2 != 0})
				}
			}
		}
	}
}
