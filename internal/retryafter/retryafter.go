package retryafter

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Parse returns how long the response asks the client to wait, but at most limit. It reads Retry-After in seconds or
// as a date (RFC 9110, 10.2.3), and retry-after-ms (OpenAI). It compares a date with the response's own Date header
// if there is one (RFC 9110, 6.6.1), because the clocks may differ by more than the wait, and otherwise with now. It
// returns 0 if the response sets no wait or its headers cannot be parsed.
func Parse(h http.Header, now time.Time, limit time.Duration) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return capped(ms/1000, limit)
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return capped(s, limit)
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	if at, err := http.ParseTime(value); err == nil {
		return capped(at.Sub(now).Seconds(), limit)
	}
	return 0
}

// capped returns seconds as a duration from 0 to limit.
func capped(seconds float64, limit time.Duration) time.Duration {
	if !(seconds > 0) { // true for NaN too
		return 0
	}
	return time.Duration(min(seconds, limit.Seconds()) * float64(time.Second))
}
