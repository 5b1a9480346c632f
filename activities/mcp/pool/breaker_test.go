package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTheBreakerLetsOneCallFindOut(t *testing.T) {
	now := time.Unix(1000, 0)
	b := breaker{minPause: time.Second, maxPause: time.Minute}
	for range failuresAllowed - 1 {
		b.callFailed(now)
	}
	ok, finding := b.admit(now)
	assert.True(t, ok, "it opened early")
	assert.False(t, finding)
	b.callFailed(now)
	ok, _ = b.admit(now)
	assert.False(t, ok, "it did not open")

	now = now.Add(time.Second)
	ok, finding = b.admit(now)
	assert.True(t, ok && finding, "nobody may find out after the pause")
	ok, _ = b.admit(now)
	assert.False(t, ok, "two at once were let through")
	b.undecided()
	ok, finding = b.admit(now)
	assert.True(t, ok && finding, "the one that was cancelled was the last")

	b.callFailed(now)
	assert.Greater(t, b.pause(now), time.Second, "the pause did not grow")
	now = now.Add(time.Minute)
	b.admit(now)
	b.answered()
	for range 10 {
		ok, finding = b.admit(now)
		assert.True(t, ok && !finding, "it is not closed")
	}
}

func TestConnectsThatFailPauseAtOnceAndUpToTheLimit(t *testing.T) {
	now := time.Unix(1000, 0)
	b := breaker{minPause: time.Second, maxPause: time.Minute}
	var last time.Duration
	for range 12 {
		b.connectFailed(now)
		last = b.pause(now)
		assert.Positive(t, last)
		assert.LessOrEqual(t, last, time.Minute)
		now = now.Add(last)
	}
	assert.GreaterOrEqual(t, last, 45*time.Second)
	b.connected()
	b.connectFailed(now)
	assert.LessOrEqual(t, b.pause(now), time.Second, "the failures before a connect that succeeded count on")
}

func TestAnAnswerDoesNotHurryConnectsThatFail(t *testing.T) {
	now := time.Unix(1000, 0)
	b := breaker{minPause: time.Second, maxPause: time.Minute}
	b.connectFailed(now)
	b.answered()
	assert.Positive(t, b.pause(now))
}

func TestPausesDoubleAndStayWithinTheirBounds(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 1, 1: 1, 2: 2, 3: 4, 6: 32, 7: 60, 1 << 40: 60} {
		assert.Equal(t, want*time.Second, backoff(n, time.Second, time.Minute), "%d", n)
	}
	assert.Equal(t, 3*time.Second, jitter(4*time.Second, 1))
	assert.Equal(t, 4*time.Second, jitter(4*time.Second, 0))
}

func TestTheBackoffForOffencesGrowsWhateverTheServerAnswers(t *testing.T) {
	now := time.Unix(1000, 0)
	b := breaker{minPause: time.Second, maxPause: time.Minute}
	for n := range 8 {
		b.boundExceeded(now)
		assert.LessOrEqual(t, b.pause(now), backoff(n+1, b.minPause, b.maxPause))
		assert.Greater(t, b.pause(now), backoff(n+1, b.minPause, b.maxPause)/2, "offence %d", n+1)
		ok, _ := b.admit(now)
		assert.False(t, ok, "it is not left alone")
		now = now.Add(b.pause(now) + time.Minute)
		b.connected() // it connects and responds normally before it floods again
		b.answered()
		ok, _ = b.admit(now)
		assert.True(t, ok)
	}
	now = now.Add(2 * offenceReset)
	b.boundExceeded(now)
	assert.LessOrEqual(t, b.pause(now), time.Second, "it kept within its bounds for long")
}

func TestALostConnectionCountsOnlyIfItWasOfNoUse(t *testing.T) {
	now := time.Unix(1000, 0)
	b := breaker{minPause: time.Second, maxPause: time.Minute}
	for range 10 {
		b.lost(now, true)
	}
	assert.Zero(t, b.pause(now), "a server that is restarted is shut out")
	for range failuresAllowed {
		b.lost(now, false)
		b.connected()
	}
	b.lost(now, false)
	assert.Positive(t, b.pause(now), "a server that ends as soon as it is connected to is started without a pause")
	assert.True(t, b.failing(now))
	b.answered()
	assert.False(t, b.failing(now))
}

func TestAConnectClearsAllStrikes(t *testing.T) {
	now := time.Unix(1000, 0)
	b := breaker{minPause: time.Second, maxPause: time.Minute}
	for range failuresAllowed {
		b.callFailed(now)
	}
	b.connected()
	ok, finding := b.admit(now)
	assert.True(t, ok && !finding)
	assert.False(t, b.failing(now))
}
