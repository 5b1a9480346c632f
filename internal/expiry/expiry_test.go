package expiry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestATimerThatFiresLateWaitsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		timer := After(time.Hour, func() { close(ended) })
		defer timer.Stop()
		timer.mu.Lock()
		timer.due = time.Now().Add(-40 * time.Second) // as it looks to a process that was frozen
		timer.mu.Unlock()
		timer.fire()
		began := time.Now()
		<-ended
		assert.Equal(t, grace, time.Since(began))
	})
}

func TestAContextEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := WithTimeout(t.Context(), time.Minute)
		defer cancel()
		at, _ := ctx.Deadline()
		assert.Equal(t, time.Minute, at.Sub(began))
		child, stop := context.WithCancel(ctx)
		defer stop()
		<-child.Done()
		assert.Equal(t, time.Minute, time.Since(began))
		assert.Equal(t, context.DeadlineExceeded, ctx.Err())
		assert.Equal(t, context.DeadlineExceeded, context.Cause(child))

		ctx, cancel = WithTimeout(t.Context(), time.Minute)
		cancel()
		assert.Equal(t, context.Canceled, ctx.Err())

		ended := false
		timer := After(time.Second, func() { ended = true })
		timer.Reset(time.Minute)
		time.Sleep(30 * time.Second)
		assert.False(t, ended)
		timer.Stop()
		time.Sleep(time.Hour)
		assert.False(t, ended)
	})
}
