package outage

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errAway = errors.New("away")

func TestOneRequestAtATimeAsksWhetherTheOtherSideIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := New(time.Minute)
		first, wait := o.Begin("k", false)
		require.Nil(t, wait)
		second, _ := o.Begin("k", false)
		w := first.Down(errAway, 0)
		assert.Less(t, w.For, 2*time.Second)
		assert.LessOrEqual(t, second.Down(errAway, 0).For, w.For+spread, "what was under way is not another try")
		other, wait := o.Begin("other", false)
		require.Nil(t, wait)
		other.Up()

		_, wait = o.Begin("k", false)
		require.NotNil(t, wait)
		assert.ErrorIs(t, wait.Cause, errAway)
		time.Sleep(wait.For)
		probe, wait := o.Begin("k", false)
		require.Nil(t, wait)
		for range 20 {
			_, wait := o.Begin("k", false)
			require.NotNil(t, wait, "one asks already")
		}
		_, wait = o.Begin("k", false)
		probe.Up()
		<-wait.Back
		last, wait := o.Begin("k", false)
		require.Nil(t, wait)
		last.Drop()
	})
}

func TestPausesGrowAndHonorWhatTheOtherSideAsksFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := New(time.Minute)
		began, asked := time.Now(), 0
		for time.Since(began) < time.Hour {
			try, wait := o.Begin("k", false)
			if wait == nil {
				asked++
				w := try.Down(errAway, 0)
				wait = &w
			}
			assert.LessOrEqual(t, wait.For, time.Minute+spread)
			time.Sleep(wait.For)
		}
		assert.Less(t, asked, 200)
		assert.Greater(t, asked, 59)
		try, _ := o.Begin("honored", false)
		assert.GreaterOrEqual(t, try.Down(errAway, 40*time.Second).For, 40*time.Second)
		time.Sleep(39 * time.Second)
		_, wait := o.Begin("honored", false)
		assert.NotNil(t, wait)
	})
}

func TestADroppedRequestLetsTheNextOneAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := New(time.Minute)
		try, _ := o.Begin("k", false)
		time.Sleep(try.Down(errAway, 0).For)
		probe, _ := o.Begin("k", false)
		probe.Drop()
		_, wait := o.Begin("k", false)
		assert.Nil(t, wait)
	})
}

// TestAnAnswerToAnEarlierRequestEndsNoOutage: a stream that began before the outage says nothing about new requests.
func TestAnAnswerToAnEarlierRequestEndsNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := New(time.Minute)
		stream, _ := o.Begin("k", false)
		time.Sleep(time.Second)
		try, _ := o.Begin("k", false)
		try.Down(errAway, 0)
		stream.Up()
		_, wait := o.Begin("k", false)
		assert.NotNil(t, wait)
		time.Sleep(time.Second)
		o.Insist("k").Up()
		_, wait = o.Begin("k", false)
		assert.Nil(t, wait)
	})
}

// TestACallerWhoseRequestsDoNotFailNeedNotWait checks a service that fails on the requests of some callers: another
// caller's first request is sent at once, and ends the outage.
func TestACallerWhoseRequestsDoNotFailNeedNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := New(time.Minute)
		for range 20 {
			try, wait := o.Begin("k", false)
			if wait == nil {
				w := try.Down(errAway, 0)
				wait = &w
			}
			time.Sleep(wait.For)
		}
		probe, wait := o.Begin("k", false)
		for wait != nil {
			time.Sleep(wait.For)
			probe, wait = o.Begin("k", false)
		}
		first, wait := o.Begin("k", true)
		require.Nil(t, wait, "although a probe is running")
		_, wait = o.Begin("k", true)
		require.NotNil(t, wait, "one at a time")
		first.Down(errAway, 0)
		first, wait = o.Begin("k", true)
		require.Nil(t, wait)
		probe.Down(errAway, 0)
		first.Up()
		assert.Nil(t, o.Look("k", false))

		silent, _ := o.Begin("k", true)
		time.Sleep(quickFailure + time.Second)
		silent.Down(errAway, 0)
		wait = o.Look("k", true)
		require.NotNil(t, wait, "a request to a silent service takes long")
		time.Sleep(wait.For)
		probe, wait = o.Begin("k", true)
		require.Nil(t, wait)
		assert.NotNil(t, o.Look("k", false), "it is the probe")
		probe.Up()
	})
}
