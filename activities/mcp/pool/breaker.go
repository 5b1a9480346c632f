package pool

import (
	"math/rand/v2"
	"time"
)

// failuresAllowed is how many failures in a row open the breaker: unanswered calls, or connections that were lost
// before they were useful.
const failuresAllowed = 3

// breaker is a circuit breaker: it decides when the host backs off from a failing server, and for how long. A failed
// connect opens it at once. Calls that are not answered in time open it after failuresAllowed in a row. Each further
// failure doubles the pause. After the pause the breaker is half open: it admits one connect, or one call, as a trial,
// and refuses all others until the trial has ended. A successful connect clears the counts of both kinds of failures.
//
// A lost connection is not a failure, because the server may have been restarted. But if failuresAllowed connections in
// a row are lost before they were useful, the breaker opens. If a connection exceeds a bound, the breaker is barred: it
// also refuses calls until the pause has passed.
//
// breaker is a plain value without a clock; its owner locks it.
type breaker struct {
	minPause, maxPause time.Duration // the shortest and the longest pause

	failedConnects int // failed connects in a row
	flaps          int // connections lost before they were useful, in a row
	failedCalls    int // calls not answered in time, in a row
	pausedUntil    time.Time
	trial          bool // the trial call of a half-open breaker is in flight

	offences    int       // connections dropped because they exceeded a bound, in a row
	barredUntil time.Time // the end of the pause for the last offence
}

// offenceReset is how long after the pause of an offence a server must stay within its bounds, so that the pause of the
// next offence is short again. Neither a connect nor an answered call resets the pause: a server that floods the worker
// may still answer.
const offenceReset = 10 * time.Minute

// minOffencePause is the shortest pause after an offence, unless maxPause is shorter.
const minOffencePause = time.Second

// pause returns how long the current pause still lasts; 0 if there is none.
func (b *breaker) pause(now time.Time) time.Duration { return max(b.retryAt().Sub(now), 0) }

// retryAt returns the end of the current pause, or of the last one.
func (b *breaker) retryAt() time.Time {
	if b.barredUntil.After(b.pausedUntil) {
		return b.barredUntil
	}
	return b.pausedUntil
}

// barred reports whether the server is in the pause after an offence.
func (b *breaker) barred(now time.Time) bool { return b.barredUntil.After(now) }

// boundExceeded records an offence: a connection was dropped because it exceeded a bound. It starts a pause that
// doubles with each offence.
func (b *breaker) boundExceeded(now time.Time) {
	if now.Sub(b.barredUntil) > offenceReset {
		b.offences = 0
	}
	b.offences++
	b.barredUntil = now.Add(jitter(backoff(b.offences, max(b.minPause, minOffencePause), b.maxPause), rand.Float64()))
}

// connected records a successful connect, which clears failed connects and unanswered calls.
func (b *breaker) connected() {
	b.failedConnects, b.failedCalls, b.trial = 0, 0, false
	b.pausedUntil = time.Time{}
}

// lost records that a connection ended unexpectedly. useful means that it had lasted for a while, or that a call on it
// was answered.
func (b *breaker) lost(now time.Time, useful bool) {
	if useful {
		b.flaps = 0
		return
	}
	if b.flaps++; b.flaps >= failuresAllowed {
		b.open(now, b.flaps-failuresAllowed+1)
	}
}

// failing reports whether the server counts as failing: after a failed connect, after failuresAllowed unanswered calls,
// or during a pause for lost connections or an offence.
func (b *breaker) failing(now time.Time) bool {
	pausedForFlaps := b.flaps >= failuresAllowed && b.pause(now) > 0
	return b.failedConnects > 0 || b.failedCalls >= failuresAllowed || pausedForFlaps || b.barred(now)
}

// connectFailed records a failed connect and starts a pause.
func (b *breaker) connectFailed(now time.Time) {
	b.failedConnects++
	b.open(now, b.failedConnects)
}

// admit reports whether a call may be sent now. trial is true if the breaker is half open and the call is its trial:
// the owner must then call answered, callFailed or undecided when the call has ended.
func (b *breaker) admit(now time.Time) (ok, trial bool) {
	switch {
	case b.barred(now):
		return false, false
	case b.failedCalls < failuresAllowed: // a pause for failed or lost connections refuses no calls
		return true, false
	case b.pause(now) > 0 || b.trial: // open, or half open with another trial in flight
		return false, false
	}
	b.trial = true
	return true, true
}

// answered records an answered call, which closes the breaker, unless the last connect failed: the call may have used
// an older connection while the server accepts no new ones.
func (b *breaker) answered() {
	b.failedCalls, b.flaps, b.trial = 0, 0, false
	if b.failedConnects == 0 {
		b.pausedUntil = time.Time{}
	}
}

// callFailed records a call that was not answered in time.
func (b *breaker) callFailed(now time.Time) {
	b.failedCalls++
	b.trial = false
	if b.failedCalls >= failuresAllowed {
		b.open(now, b.failedCalls-failuresAllowed+1)
	}
}

// undecided records that a trial call ended without showing whether the server works, for instance because its caller
// cancelled it. The next call is then the trial.
func (b *breaker) undecided() { b.trial = false }

// open opens the breaker for the pause that follows this number of failures in a row.
func (b *breaker) open(now time.Time, failures int) {
	b.pausedUntil = now.Add(jitter(backoff(failures, b.minPause, b.maxPause), rand.Float64()))
}

// backoff returns the pause after the n-th failure in a row, counted from 1: it doubles from first up to most.
func backoff(n int, first, most time.Duration) time.Duration {
	for d := first; ; d *= 2 {
		if n <= 1 || d >= most {
			return min(d, most)
		}
		n--
	}
}

// jitter shortens d by up to a quarter, so that workers that lost the same server do not all reconnect at once.
// fraction is a random number in [0, 1).
func jitter(d time.Duration, fraction float64) time.Duration {
	return d - time.Duration(fraction*float64(d)/4)
}
