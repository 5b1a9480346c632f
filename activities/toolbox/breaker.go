package toolbox

import (
	"math/rand/v2"
	"time"
)

// strikesAllowed is how many calls in a row may stay without an answer, or connections in a row end at once, until the
// server is left alone for a while.
const strikesAllowed = 3

// breaker says when a server that fails is left alone. It knows two kinds of failures. A connect that fails opens it at
// once: without a connection there is nothing to try. Calls that are not answered in time open it after strikesAllowed in
// a row. Each further failure doubles the pause. After the pause it is half open: one connect, or one call, is let
// through to find out, and everybody else is refused until that has ended.
//
// A lost connection is not a failure: the server may have been restarted. Only a server whose connections keep ending
// before they were of any use is paused like one that cannot be connected to. A connect that succeeds clears all strikes.
//
// It is a plain value without a clock; its owner locks it.
type breaker struct {
	first, most time.Duration // the shortest and the longest pause

	connects int // that failed, in a row
	flaps    int // connections lost before they were of use, in a row
	strikes  int // calls that were not answered in time, in a row
	until    time.Time
	trial    bool // a call is under way that is to find out

	offences int       // connections that were dropped because they exceeded a bound, in a row
	barred   time.Time // the quarantine for the last of them ends
}

// quiet is how long a server has to keep within its bounds after a quarantine for the next one to be short again.
// Neither a connection nor an answer shortens it: a server that floods may answer well.
const quiet = 10 * time.Minute

// quarantineFirst is the least that a first quarantine lasts, unless no pause may be so long.
const quarantineFirst = time.Second

// pause is how much of the current pause is left.
func (b *breaker) pause(now time.Time) time.Duration { return max(b.retryAt().Sub(now), 0) }

// retryAt is when the current pause ends.
func (b *breaker) retryAt() time.Time {
	if b.barred.After(b.until) {
		return b.barred
	}
	return b.until
}

// quarantined reports whether the server is left alone because a connection exceeded a bound.
func (b *breaker) quarantined(now time.Time) bool { return b.barred.After(now) }

// misbehaved: a connection was dropped because it exceeded a bound.
func (b *breaker) misbehaved(now time.Time) {
	if now.Sub(b.barred) > quiet {
		b.offences = 0
	}
	b.offences++
	b.barred = now.Add(jitter(backoff(b.offences, max(b.first, quarantineFirst), b.most), rand.Float64()))
}

// connected: there is a connection, and nothing that was held against the server counts any more.
func (b *breaker) connected() {
	b.connects, b.strikes, b.trial = 0, 0, false
	b.until = time.Time{}
}

// lost: a connection has ended by itself. useful says whether it had lasted for a while, or answered a call.
func (b *breaker) lost(now time.Time, useful bool) {
	if useful {
		b.flaps = 0
		return
	}
	if b.flaps++; b.flaps >= strikesAllowed {
		b.open(now, b.flaps-strikesAllowed+1)
	}
}

// failing reports whether the server is in trouble.
func (b *breaker) failing(now time.Time) bool {
	return b.connects > 0 || b.strikes >= strikesAllowed || b.flaps >= strikesAllowed && b.pause(now) > 0 ||
		b.quarantined(now)
}

func (b *breaker) connectFailed(now time.Time) {
	b.connects++
	b.open(now, b.connects)
}

// admit asks to let a call through. finding is true for the one that is to find out; it has to be followed by answered,
// struck or undecided.
func (b *breaker) admit(now time.Time) (ok, finding bool) {
	switch {
	case b.quarantined(now):
		return false, false
	case b.strikes < strikesAllowed:
		return true, false
	case b.pause(now) > 0 || b.trial:
		return false, false
	}
	b.trial = true
	return true, true
}

// answered: the server is well. Connects that fail go on to be paused: it may be that it takes no further ones.
func (b *breaker) answered() {
	b.strikes, b.flaps, b.trial = 0, 0, false
	if b.connects == 0 {
		b.until = time.Time{}
	}
}

// struck: a call was not answered in time.
func (b *breaker) struck(now time.Time) {
	b.strikes++
	b.trial = false
	if b.strikes >= strikesAllowed {
		b.open(now, b.strikes-strikesAllowed+1)
	}
}

// undecided: the call that was to find out ended for a reason of its own.
func (b *breaker) undecided() { b.trial = false }

func (b *breaker) open(now time.Time, failures int) {
	b.until = now.Add(jitter(backoff(failures, b.first, b.most), rand.Float64()))
}

// backoff is the pause after the n-th failure in a row: it doubles from first up to most.
func backoff(n int, first, most time.Duration) time.Duration {
	for d := first; ; d *= 2 {
		if n <= 1 || d >= most {
			return min(d, most)
		}
		n--
	}
}

// jitter takes up to a quarter off, so that the workers of a server that went down do not come back in step. by is in
// [0, 1).
func jitter(d time.Duration, by float64) time.Duration { return d - time.Duration(by*float64(d)/4) }
