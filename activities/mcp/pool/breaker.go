package pool

import (
	"math/rand/v2"
	"time"
)

// failuresAllowed is the number of failures in a row that open the breaker: unanswered calls, or connections that end
// at once.
const failuresAllowed = 3

// breaker decides when the host backs off from a failing server. It distinguishes two kinds of failures. A failed
// connect opens it at once: without a connection there is nothing to try. Calls that are not answered in time open it
// after failuresAllowed in a row. Each further failure doubles the pause. After the pause the breaker is half open: it
// admits one connect, or one call, as a trial, and refuses all others until the trial has ended.
//
// A lost connection is not a failure: the server may have been restarted. Only if connections keep ending before they
// were useful does the breaker open as for failed connects. A successful connect clears both counts.
//
// breaker is a plain value without a clock; its owner locks it.
type breaker struct {
	first, most time.Duration // the shortest and the longest pause

	connects    int // failed connects in a row
	flaps       int // connections lost before they were useful, in a row
	failedCalls int // calls not answered in time, in a row
	until       time.Time
	trial       bool // the trial call of a half-open breaker is in flight

	offences int       // connections dropped because they exceeded a bound, in a row
	barred   time.Time // end of the backoff for the last of them
}

// quiet is how long a server must keep within its bounds after an offence for the backoff of the next one to be short
// again. Neither a connection nor an answer shortens it: a server that floods may still answer.
const quiet = 10 * time.Minute

// offenceFirst is the minimum of the backoff for a first offence, unless the longest pause is shorter.
const offenceFirst = time.Second

// pause returns the rest of the current pause.
func (b *breaker) pause(now time.Time) time.Duration { return max(b.retryAt().Sub(now), 0) }

// retryAt returns the end of the current pause.
func (b *breaker) retryAt() time.Time {
	if b.barred.After(b.until) {
		return b.barred
	}
	return b.until
}

// excluded reports whether the pause is due to a connection that exceeded a bound.
func (b *breaker) excluded(now time.Time) bool { return b.barred.After(now) }

// exceeded records that a connection was dropped because it exceeded a bound.
func (b *breaker) exceeded(now time.Time) {
	if now.Sub(b.barred) > quiet {
		b.offences = 0
	}
	b.offences++
	b.barred = now.Add(jitter(backoff(b.offences, max(b.first, offenceFirst), b.most), rand.Float64()))
}

// connected records a successful connect, which clears failed connects and unanswered calls.
func (b *breaker) connected() {
	b.connects, b.failedCalls, b.trial = 0, 0, false
	b.until = time.Time{}
}

// lost records that a connection ended unexpectedly. useful reports whether it had lasted for a while or answered a
// call.
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
// or during a pause for lost connections or an exceeded bound.
func (b *breaker) failing(now time.Time) bool {
	return b.connects > 0 || b.failedCalls >= failuresAllowed || b.flaps >= failuresAllowed && b.pause(now) > 0 ||
		b.excluded(now)
}

func (b *breaker) connectFailed(now time.Time) {
	b.connects++
	b.open(now, b.connects)
}

// admit asks to let a call through. finding is true for the trial call; answered, callFailed or undecided must follow it.
func (b *breaker) admit(now time.Time) (ok, finding bool) {
	switch {
	case b.excluded(now):
		return false, false
	case b.failedCalls < failuresAllowed:
		return true, false
	case b.pause(now) > 0 || b.trial:
		return false, false
	}
	b.trial = true
	return true, true
}

// answered records an answered call. It does not end the pause after failed connects: the server may accept no new
// connections.
func (b *breaker) answered() {
	b.failedCalls, b.flaps, b.trial = 0, 0, false
	if b.connects == 0 {
		b.until = time.Time{}
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

// undecided records that the trial call ended for a reason that says nothing about the server.
func (b *breaker) undecided() { b.trial = false }

func (b *breaker) open(now time.Time, failures int) {
	b.until = now.Add(jitter(backoff(failures, b.first, b.most), rand.Float64()))
}

// backoff returns the pause after the n-th failure in a row: it doubles from first up to most.
func backoff(n int, first, most time.Duration) time.Duration {
	for d := first; ; d *= 2 {
		if n <= 1 || d >= most {
			return min(d, most)
		}
		n--
	}
}

// jitter shortens d by up to a quarter, so that the workers of a server that went down do not return in step. by is in
// [0, 1).
func jitter(d time.Duration, by float64) time.Duration { return d - time.Duration(by*float64(d)/4) }
