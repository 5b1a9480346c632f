package app

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

func TestExitCodesOfTurns(t *testing.T) {
	for _, c := range []struct {
		state  turn.State
		reason turn.FinishReason
		code   turn.Code
		want   int
	}{
		{turn.StateCompleted, turn.FinishAnswered, "", 0},
		{turn.StateCompleted, turn.FinishDuplicate, "", 0},
		{turn.StateCompleted, turn.FinishNoMessage, "", 1},
		{turn.StateCompleted, turn.FinishInterrupted, "", 1},
		{turn.StateFailed, turn.FinishFailed, turn.CodeLLMRejected, 1},
		{turn.StateFailed, turn.FinishFailed, turn.CodeLLMUnauthorized, 4},
		{turn.StateFailed, turn.FinishFailed, turn.CodeToolNotSent, 1},
		{turn.StateClosed, turn.FinishTerminated, "", 1},
		{turn.StateCancelled, turn.FinishCancelled, "", 2},
		{turn.StateFailed, turn.FinishFailed, turn.CodeConfigInvalid, 3},
		{turn.StateFailed, turn.FinishFailed, turn.CodeInputInvalid, 3},
		{turn.StateWaiting, "", "", 6},
		{turn.StateCompleted, turn.FinishMaxSteps, "", 7},
		{turn.StateCompleted, turn.FinishMaxToolCalls, "", 7},
		{turn.StateCompleted, turn.FinishMaxErrors, "", 7},
		{turn.StateCompleted, turn.FinishMaxTokens, "", 7},
		{turn.StateCompleted, turn.FinishLength, "", 7},
		{turn.StateCompleted, turn.FinishContentFilter, "", 7},
		{turn.StateCompleted, turn.FinishRefusal, "", 7},
		{turn.StateCompleted, turn.FinishTimeout, "", 124},
	} {
		r := workflows.Result{State: c.state, FinishReason: c.reason, Code: c.code}
		assert.Equal(t, c.want, TurnExit(r), "%s, %s, %s", c.state, c.reason, c.code)
	}
}

func TestExitCodesOfErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"none":          {nil, 0},
		"detached":      {ErrDetached, 0},
		"any":           {errors.New("x"), 1},
		"cancelled":     {context.Canceled, 2},
		"usage":         {Usage("x"), 3},
		"configuration": {&config.Error{Problems: []config.Problem{{Message: "x"}}}, 3},
		"newer journal": {journal.ErrNewer, 3},
		"credentials":   {&config.Error{Problems: []config.Problem{{Message: "x", Credentials: true}}}, 4},
		"unreachable":   {client.ErrUnreachable, 5},
		"journal away":  {errors.Join(context.DeadlineExceeded, journal.ErrUnavailable), 5},
		"read-only":     {journal.ErrReadOnly, 5},
		"deadline":      {context.DeadlineExceeded, 124},
	} {
		assert.Equal(t, c.want, ExitCode(c.err), name)
		if c.err != nil {
			assert.Equal(t, c.want, ExitCode(fmt.Errorf("doing it: %w", c.err)), "wrapped: %s", name)
		}
	}
}
